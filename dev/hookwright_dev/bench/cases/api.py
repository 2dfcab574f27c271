"""Cost of one request to /v1: an authenticated list of twenty webhooks."""

from typing import Final

from hookwright_dev.bench.api_server import ApiServer, serving
from hookwright_dev.bench.cases.options import Options
from hookwright_dev.bench.figures import CPU, MEBIBYTES, MILLISECONDS, PER_SECOND, Measure
from hookwright_dev.bench.loader import Report, Target
from hookwright_dev.bench.site import Site, running
from hookwright_dev.bench.usage import Meter, resident
from hookwright_dev.errors import BenchError

_ENDPOINTS: Final = 20


def measure(options: Options) -> list[Measure]:
    """Measure GET /v1/webhooks at 16 connections, with the limits lifted."""
    with running() as site:
        site.fan(_ENDPOINTS, project="orders")
        with serving(site) as api:
            return _measured(site, api, options)


def _measured(site: Site, api: ApiServer, options: Options) -> list[Measure]:
    headers = api.key("orders")
    endpoints = api.client.get("/v1/webhooks", headers=headers).json()["data"]
    if len(endpoints) != _ENDPOINTS:
        raise BenchError(f"GET /v1/webhooks lists {len(endpoints)} of {_ENDPOINTS} endpoints")
    target = Target(f"{api.url}/v1/webhooks")

    def get(seconds: float) -> Report:
        return site.loader.load([target], seconds=seconds, method="GET", headers=headers, fan=0).clean()

    get(0.5)
    pid = api.process.pid
    meter = Meter({"api": [pid]})
    report = get(options.seconds)
    usage = meter.read()
    title = f"GET /v1/webhooks with {_ENDPOINTS} endpoints"
    return [
        Measure("api.rate", title, report.accepted_per_second, PER_SECOND),
        Measure("api.p50", f"{title}, p50", report.answer_ms.p50, MILLISECONDS),
        Measure("api.p99", f"{title}, p99", report.answer_ms.p99, MILLISECONDS),
        Measure("api.cpu", f"{title}, CPU of the API", 1000 * usage.by_name["api"] / report.accepted, CPU),
        Measure("memory.api", "memory of the API after that", resident(pid), MEBIBYTES),
    ]

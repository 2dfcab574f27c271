"""Time of pages of the console for a project with many endpoints."""

from typing import Final

from hookwright_api.console.session_cookie import COOKIE
from hookwright_dev.bench import objects
from hookwright_dev.bench.api_server import ApiServer, serving
from hookwright_dev.bench.cases.options import Options
from hookwright_dev.bench.errors import BenchError
from hookwright_dev.bench.loader import Target
from hookwright_dev.bench.measures import MILLISECONDS, Measure
from hookwright_dev.bench.site import NAMESPACE, Site, running

_ENDPOINTS: Final = 1000
_PROJECT: Final = "orders"
_RATE: Final = 5.0
"""Pages a second, so that one page seldom waits for another."""


def measure(options: Options) -> list[Measure]:
    """Measure the pages of the organization, of its project, and of the delivery log of the project."""
    with running() as site:
        site.create([objects.project(NAMESPACE, _PROJECT)])
        types = [objects.TYPES[number % len(objects.TYPES)] for number in range(_ENDPOINTS)]
        site.create_ready(
            [
                objects.endpoint(NAMESPACE, f"o-{number}", project=_PROJECT, url=site.loader.url(number), events=[kind])
                for number, kind in enumerate(types)
            ]
        )
        fan = types.count(types[0])
        filled = [Target(site.intake(_PROJECT), types[0])]
        site.loader.load(filled, seconds=1.0, token=site.token, rate=10.0, fan=fan).clean()
        with serving(site) as api:
            return [
                _page(site, api, "organization", "/console/", options, shows=f"/projects/{_PROJECT}"),
                _page(site, api, "project", f"/console/projects/{_PROJECT}", options, shows="/endpoints/o-0"),
                _page(site, api, "log", f"/console/projects/{_PROJECT}/deliveries", options, shows="/deliveries/dlv_"),
            ]


def _page(site: Site, api: ApiServer, name: str, path: str, options: Options, *, shows: str) -> Measure:
    headers = {"Cookie": f"{COOKIE}={api.token}"}
    answer = api.client.get(path, headers=headers)
    if answer.status_code != 200 or shows not in answer.text:
        raise BenchError(f"GET {path} answers {answer.status_code}: {answer.text[:500]}")
    target = Target(f"{api.url}{path}")
    report = site.loader.load([target], seconds=options.seconds, method="GET", headers=headers, rate=_RATE, fan=0)
    title = f"console: {name} with {_ENDPOINTS:,} endpoints, p50"
    return Measure(f"console.{name}.p50", title, report.clean().answer_ms.p50, MILLISECONDS)

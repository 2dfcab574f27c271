"""Cost of one request to /v1: an authenticated list of twenty webhooks."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx

from hookwright_dev.bench import objects
from hookwright_dev.bench.cases.options import Options
from hookwright_dev.bench.errors import BenchError
from hookwright_dev.bench.loader import Report, Target
from hookwright_dev.bench.measures import CPU, MEBIBYTES, MILLISECONDS, PER_SECOND, Measure
from hookwright_dev.bench.site import NAMESPACE, Site, running
from hookwright_dev.bench.usage import Meter, resident
from hookwright_dev.cluster.installation import (
    AUDIENCE,
    SYSTEM_NAMESPACE,
    service_account_kubeconfig,
    service_account_token,
)
from hookwright_dev.processes import ChildProcess, free_port

_HOST: Final = "127.0.0.1"
_EMAIL: Final = "ada@example.com"
_PASSWORD: Final = "correct horse battery staple"  # noqa: S105 - of a cluster that exists for a minute
_ENDPOINTS: Final = 20
_PATIENCE: Final = 30.0


def measure(options: Options) -> list[Measure]:
    """Measure GET /v1/webhooks at 16 connections, with the limits lifted."""
    with running() as site:
        site.create([objects.project(NAMESPACE, "orders")])
        site.create_ready(
            [
                objects.endpoint(
                    NAMESPACE, f"o-{number}", project="orders", url=site.loader.url(0), events=["delivered"]
                )
                for number in range(_ENDPOINTS)
            ]
        )
        port = free_port()
        with ChildProcess.start(
            "api",
            [sys.executable, "-m", "hookwright_api"],
            log=site.plane.folder / "api.log",
            env=_settings(site, port),
        ) as process:
            url = f"http://{_HOST}:{port}"
            headers = _key(site, url, process)
            return _measured(site, process, f"{url}/v1/webhooks", headers, options)


def _settings(site: Site, port: int) -> dict[str, str]:
    folder = site.plane.folder
    token: Path = folder / "operator-token"
    token.touch(mode=0o600)
    token.write_text(service_account_token(site.plane, "hookwright-api", namespace=SYSTEM_NAMESPACE, audience=AUDIENCE))
    return {
        **{f"HOOKWRIGHT_RATE_LIMIT_{scope}": "0" for scope in ("IP", "ORGANIZATION", "LOGIN")},
        "KUBECONFIG": str(service_account_kubeconfig(site.plane, "hookwright-api", folder)),
        "HOOKWRIGHT_API_HOST": _HOST,
        "HOOKWRIGHT_API_PORT": str(port),
        "HOOKWRIGHT_API_HEALTH_HOST": _HOST,
        "HOOKWRIGHT_API_HEALTH_PORT": "0",
        "HOOKWRIGHT_OPERATOR_URL": site.operator.intake_url,
        "HOOKWRIGHT_OPERATOR_TOKEN_FILE": str(token),
    }


def _key(site: Site, url: str, process: ChildProcess) -> Mapping[str, str]:
    """Log in as a new user, create a key, and return its header once the API knows the key."""
    subprocess.run(
        [sys.executable, "-m", "hookwright_api.create_user", "--organization", NAMESPACE, "--email", _EMAIL],
        input=f"{_PASSWORD}\n",
        env={**os.environ, "KUBECONFIG": str(site.plane.kubeconfig)},
        capture_output=True,
        text=True,
        check=True,
    )
    with httpx.Client(base_url=url, timeout=30.0, trust_env=False) as client:
        login = _eventually(
            process, lambda: client.post("/v1/auth/login", json={"email": _EMAIL, "password": _PASSWORD})
        )
        bearer = {"Authorization": f"Bearer {login['token']}"}
        made = _eventually(
            process, lambda: client.post("/v1/projects/orders/keys", json={"name": "bench"}, headers=bearer)
        )
        key = {"X-Service-Key": str(made["key"])}
        listed = _eventually(process, lambda: client.get("/v1/webhooks", headers=key))
        if len(listed["data"]) != _ENDPOINTS:
            raise BenchError(f"GET /v1/webhooks lists {len(listed['data'])} of {_ENDPOINTS} endpoints")
    return key


def _eventually(process: ChildProcess, ask: Any) -> dict[str, Any]:
    """Repeat a request until its answer is good, because the API's view follows the cluster's."""
    deadline = time.monotonic() + _PATIENCE
    words = ""
    while process.running and time.monotonic() < deadline:
        try:
            answer = ask()
        except httpx.TransportError as error:
            words = type(error).__name__
        else:
            if answer.is_success:
                good: dict[str, Any] = answer.json()
                return good
            words = f"{answer.status_code} {answer.text}"
        time.sleep(0.1)
    raise BenchError(f"the API did not answer as expected: {words}\n{process.tail()}")


def _measured(
    site: Site, process: ChildProcess, url: str, headers: Mapping[str, str], options: Options
) -> list[Measure]:
    def get(seconds: float) -> Report:
        return site.loader.load([Target(url)], seconds=seconds, method="GET", headers=dict(headers), fan=0).clean()

    get(0.5)
    meter = Meter({"api": [process.pid]})
    report = get(options.seconds)
    used = meter.read()
    title = "GET /v1/webhooks with 20 endpoints"
    return [
        Measure("api.rate", title, report.accepted_per_second, PER_SECOND),
        Measure("api.p50", f"{title}, p50", report.answer_ms.p50, MILLISECONDS),
        Measure("api.p99", f"{title}, p99", report.answer_ms.p99, MILLISECONDS),
        Measure("api.cpu", f"{title}, CPU of the API", 1000 * used.by_name["api"] / report.accepted, CPU),
        Measure("memory.api", "memory of the API after that", resident(process.pid), MEBIBYTES),
    ]

"""Throughput of consumers that take 1,000 messages at a time from an endpoint with pull, and acknowledge them."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import httpx

from hookwright_dev.bench import objects
from hookwright_dev.bench.cases.options import Options
from hookwright_dev.bench.errors import BenchError
from hookwright_dev.bench.loader import Target
from hookwright_dev.bench.measures import MEBIBYTES, PER_SECOND, Measure
from hookwright_dev.bench.site import NAMESPACE, Site, running

WAITING: Final = 100_000
_AT_A_TIME: Final = 1000
_CONSUMERS: Final = 4
_PATIENCE: Final = 300.0
_SECONDS: Final = 60.0
_NAME: Final = "inbox"


def measure(_: Options) -> list[Measure]:
    """Measure one consumer with half of 100,000 waiting messages, and four consumers with the rest."""
    with running() as site:
        site.create([objects.project(NAMESPACE, "pulled")])
        site.create_ready([objects.endpoint(NAMESPACE, _NAME, project="pulled", pull={}, events=["delivered"])])
        before = site.resident()
        site.loader.load(
            [Target(site.intake("pulled"))],
            seconds=_PATIENCE,
            token=site.token,
            events=WAITING,
            batch=_AT_A_TIME,
            concurrency=4,
            wait_seconds=0,
        )
        held = site.resident()
        half = WAITING // 2
        alone = half / _drained(site, [half])
        together = half / _drained(site, [half // _CONSUMERS] * _CONSUMERS)
        return [
            Measure("pull.waiting", f"memory added by {WAITING:,} waiting messages", held - before, MEBIBYTES),
            Measure("pull.one", "messages taken and acknowledged/s, 1,000 at a time", alone, PER_SECOND),
            Measure("pull.several", f"the same by {_CONSUMERS} consumers", together, PER_SECOND),
        ]


def _drained(site: Site, shares: list[int]) -> float:
    """Return the seconds in which consumers take and acknowledge their shares, all at the same time."""
    began = time.monotonic()
    with ThreadPoolExecutor(len(shares)) as pool:
        list(pool.map(lambda share: _consume(site, share), shares))
    return time.monotonic() - began


def _consume(site: Site, share: int) -> None:
    url = f"{site.operator.intake_url}/v1alpha1/namespaces/{NAMESPACE}/webhookendpoints/{_NAME}/messages"
    bearer = {"Authorization": f"Bearer {site.token}"}
    with httpx.Client(headers=bearer, timeout=_SECONDS, trust_env=False) as client:
        while share > 0:
            query: dict[str, str | int] = {"limit": min(share, _AT_A_TIME), "wait": "1s", "lease": "5m"}
            messages = client.get(url, params=query).raise_for_status().json()["data"]
            if not messages:
                raise BenchError(f"{share} messages are missing")
            ids = [message["id"] for message in messages]
            settled = client.post(f"{url}/ack", json={"ids": ids}).raise_for_status().json()["data"]
            if any(one["result"] != "acked" for one in settled):
                raise BenchError("an acknowledgement was refused")
            share -= len(ids)

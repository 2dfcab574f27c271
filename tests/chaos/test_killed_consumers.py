"""Consumers of an endpoint with pull that are killed at any moment lose no message."""

import asyncio
import json
import random
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
from chaos import consumer
from chaos.site import Site
from support.polling import PATIENCE, eventually, until

from hookwright_dev.cluster.installation import AUDIENCE, SYSTEM_NAMESPACE
from hookwright_dev.processes import ChildProcess

CONSUMERS: Final = 3
LEASE_SECONDS: Final = 2
_ROUNDING: Final = 0.005
"""The operator keeps times in milliseconds."""


class Consumers:
    """Processes that share an endpoint, and the messages that they recorded."""

    def __init__(self, site: Site, folder: Path) -> None:
        self._url = f"{site.operator.intake_url}/v1alpha1/namespaces/{site.namespace}/webhookendpoints/inbox/messages"
        self._folder, self._records = folder, folder / "records"
        token = site.cluster.objects.token("hookwright-producer", SYSTEM_NAMESPACE, audience=AUDIENCE)
        (folder / "token").write_text(token)
        self._records.touch()
        self.running: list[ChildProcess] = []

    def start(self) -> None:
        """Start all consumers."""
        for _ in range(CONSUMERS):
            self.running.append(self._started())

    def _started(self) -> ChildProcess:
        given = (self._url, self._folder / "token", self._records, f"{LEASE_SECONDS}s")
        command = [sys.executable, consumer.__file__, *map(str, given)]
        return ChildProcess.start("consumer", command, log=self._folder / "log")

    def replace(self, number: int) -> None:
        """Kill a consumer, and start another one."""
        self.running[number].kill()
        self.running[number] = self._started()

    def replace_busy(self) -> None:
        """Kill the consumer that recorded the newest message, which it has most probably not acknowledged yet."""
        busy = self.taken()[-1]["pid"]
        self.replace([process.pid for process in self.running].index(busy))

    def close(self) -> None:
        """Kill all consumers."""
        for process in self.running:
            process.kill()

    async def wait_for_more(self) -> None:
        """Return when another message is recorded; no consumer may end by itself."""
        had = len(self.taken())
        await until(lambda: len(self.taken()) > had or bool(self._ended()))
        assert not self._ended(), self._ended()

    def _ended(self) -> str:
        return "".join(process.tail() for process in self.running if not process.running)

    def taken(self) -> list[dict[str, Any]]:
        """Return what the consumers recorded."""
        return [json.loads(line) for line in self._records.read_text().splitlines()]


def _counts(site: Site) -> dict[str, int]:
    endpoint = site.cluster.objects.get("WebhookEndpoint", "inbox", site.namespace) or {}
    return dict(endpoint.get("status", {}).get("deliveries", {}))


@pytest.mark.slow
async def test_killed_consumers_lose_nothing_and_share_no_message(site: Site, tmp_path: Path, *, long: bool) -> None:
    """Every accepted event is processed and acknowledged; while a lease holds, no second consumer gets its message."""
    kills = 100 if long else 6
    # A message whose consumers are killed again and again must not fail.
    site.operator.settings = {
        **site.operator.settings,
        "HOOKWRIGHT_RETRY_SCHEDULE": ",".join(["200ms"] * 30),
        "HOOKWRIGHT_STATUS_INTERVAL": "1",
    }
    spec = {"projectRef": {"name": "billing"}, "pull": {"lease": f"{LEASE_SECONDS}s"}, "events": ["delivered"]}
    site.apply("WebhookEndpoint", "inbox", spec)
    await site.start()
    moments = random.Random(7)
    consumers = await asyncio.to_thread(Consumers, site, tmp_path)
    try:
        await asyncio.to_thread(consumers.start)
        async with site.load(rate=100.0):
            for number in range(kills):
                await consumers.wait_for_more()
                if number % 2:
                    await asyncio.to_thread(consumers.replace_busy)
                else:
                    await asyncio.sleep(moments.uniform(0.0, 0.3))
                    await asyncio.to_thread(consumers.replace, moments.randrange(CONSUMERS))
        sent_ids = {event for event, kind in site.ledger.accepted.items() if kind == "delivered"}

        def all_acknowledged() -> bool:
            return _counts(site).get("delivered") == len(sent_ids)

        await asyncio.to_thread(eventually, all_acknowledged, "every message is acknowledged", PATIENCE)
    finally:
        await asyncio.to_thread(consumers.close)
    assert _counts(site).get("failed", 0) == 0
    messages = consumers.taken()
    assert {record["event"] for record in messages} == sent_ids
    by_event = defaultdict(list)
    for record in sorted(messages, key=lambda record: record["got"]):
        by_event[record["event"]].append(record)
    assert any(len(records) > 1 for records in by_event.values()), "no kill hit a message"
    for records in by_event.values():
        for earlier, later in pairwise(records):
            assert later["got"] >= earlier["asked"] + LEASE_SECONDS - _ROUNDING, (earlier, later)

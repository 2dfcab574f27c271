"""Requests of many deliveries: they are written whole in one transaction of a bounded size, or refused in words."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pytest
from sqlalchemy import text
from support.dispatcher import Engine, Plan, now_ms, subscriber

from hookwright_crds.documents.event_bodies import EVENTS_BODY_LIMIT
from hookwright_crds.events import MAX_EVENTS
from hookwright_operator.services.events import MAX_DELIVERIES, AcceptResult, IncomingEvent
from hookwright_operator.store.group_commit import MAX_WEIGHT
from hookwright_operator.store.store import DISCARD_BATCH, Store
from hookwright_runtime.problems import Code, ProblemError

TURN_SECONDS = 0.15
"""CPU time of one turn of the event loop; the mark is 0.05 on a calm machine."""


@dataclass(slots=True)
class Site:
    """An engine whose store counts transactions with its clock: no two transactions have the same time."""

    engine: Engine

    async def post(self, events: int, *, namespace: str = "acme", first: int = 0, size: int = 2) -> AcceptResult:
        """Send one request of events, whose ids are their numbers."""
        body = b"x" * size
        new = [IncomingEvent(f"e-{number}", "delivered", "m", body) for number in range(first, first + events)]
        return await self.engine.events.accept(namespace, "billing", new)

    def subscribe(self, number: int, url: str = "http://127.0.0.1:9/", **options: Any) -> list[str]:
        """Add endpoints of namespace acme, and return their uids."""
        uids = [f"{place:08d}-0000-4000-8000-000000000000" for place in range(number)]
        for uid in uids:
            self.engine.registry.put(subscriber(uid, url, **options))
        return uids

    async def rows(self, query: str, **parameters: object) -> Sequence[Any]:
        """Run a query."""
        return await self.engine.store.transactions.read(
            "test", lambda connection: connection.execute(text(query), parameters).all()
        )

    async def scalar(self, query: str, **parameters: object) -> Any:
        """Run a query for one value."""
        return (await self.rows(query, **parameters))[0][0]


@pytest.fixture
async def site(url: str) -> AsyncIterator[Site]:
    """Start an engine on each database engine, where tenant ``other`` has one endpoint."""
    ticks = count(now_ms())
    store = await Store.open(url, instance="test", lease_ms=600_000, clock=lambda: next(ticks))
    engine = await Engine.start(store, Plan(lease_ms=600_000, heartbeats=False))
    second = replace(subscriber("other", "http://127.0.0.1:9/", suspend=True), namespace="other")
    engine.registry.put(second)
    engine.registry.put_project("other", "billing")
    yield Site(engine)
    await engine.stop(grace=1)


async def rows_before_the_other_tenants_event(site: Site, name: str) -> int:
    """Accept an event of tenant ``other``, and return the rows of transactions that began between request and event."""
    start_ms = site.engine.store._clock()
    event = IncomingEvent(name, "delivered", "m", b"{}")
    await site.engine.events.accept("other", "billing", [event])
    accepted_ms = await site.scalar(
        "SELECT accepted_ms FROM event_ids WHERE namespace = 'other' AND event_id = :name", name=name
    )
    query = "SELECT count(*) FROM deliveries WHERE endpoint_uid <> 'other' AND due_ms > :asked AND due_ms < :accepted"
    return int(await site.scalar(query, asked=start_ms, accepted=accepted_ms))


@pytest.mark.parametrize(("endpoints", "events"), [(2, MAX_DELIVERIES // 2), (MAX_DELIVERIES, 1)])
async def test_a_request_of_the_most_deliveries_is_written_by_one_transaction(
    site: Site, endpoints: int, events: int
) -> None:
    """Each event and endpoint has one delivery when the request is answered, and a repetition adds none."""
    site.subscribe(endpoints, suspend=True)
    for new, duplicates in ((events, 0), (0, events)):
        accepted_ms = await site.post(events)
        assert accepted_ms[:3] == (new, duplicates, new * endpoints)
    pairs = (
        "SELECT count(*), count(DISTINCT due_ms) FROM (SELECT DISTINCT event_id, endpoint_uid, due_ms FROM deliveries)"
    )
    assert await site.rows(f"{pairs} AS pairs") == [(MAX_DELIVERIES, 1)]
    assert await site.scalar("SELECT sum(accepted) FROM counters") == MAX_DELIVERIES


async def test_the_requests_of_one_tenant_do_not_queue_before_another_tenants_event(site: Site) -> None:
    """However many requests of a tenant wait for a transaction, another tenant's event joins the next one.

    Before, it waited for all of them.
    """
    endpoints, events = 4, MAX_DELIVERIES // 4
    site.subscribe(endpoints, suspend=True)
    requests = [asyncio.create_task(site.post(events, first=number * events)) for number in range(20)]
    await asyncio.sleep(0)

    before = await rows_before_the_other_tenants_event(site, "o-1")

    assert before <= MAX_WEIGHT + 2 * MAX_DELIVERIES
    assert [(await request).deliveries for request in requests] == [events * endpoints] * 20


async def test_the_endpoints_that_one_tenant_deletes_do_not_queue_before_another_tenants_event(site: Site) -> None:
    """Their deliveries are discarded a batch at a time, and another tenant's event comes after one transaction."""
    endpoints, events = 20, 400
    uids = site.subscribe(endpoints, suspend=True)
    for first in range(0, events, MAX_DELIVERIES // endpoints):
        await site.post(MAX_DELIVERIES // endpoints, first=first)
    discards = [asyncio.create_task(site.engine.store.discard(uid, "endpoint deleted")) for uid in uids]
    await asyncio.sleep(0)

    start_ms = site.engine.store._clock()
    await site.engine.events.accept("other", "billing", [IncomingEvent("o-1", "delivered", "m", b"{}")])
    accepted_ms = await site.scalar("SELECT accepted_ms FROM event_ids WHERE event_id = 'o-1'")
    query = "SELECT count(*) FROM deliveries WHERE ended_ms > :asked AND ended_ms < :accepted"

    assert await site.scalar(query, asked=start_ms, accepted=accepted_ms) <= MAX_WEIGHT + DISCARD_BATCH
    assert [await discarded for discarded in discards] == [events] * endpoints


@asynccontextmanager
async def longest_turn() -> AsyncIterator[Callable[[], float]]:
    """Measure the CPU time of the longest turn of the event loop, in seconds; time on the database does not count."""
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            began = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - began)

    watching = asyncio.create_task(watch())
    yield lambda: longest
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching


@pytest.mark.parametrize("endpoints", [2, MAX_DELIVERIES])
async def test_the_event_loop_goes_on_beside_the_largest_request(site: Site, endpoints: int) -> None:
    """A request of the most deliveries takes no long turn of the loop."""
    events = MAX_DELIVERIES // endpoints
    site.subscribe(endpoints, suspend=True)
    async with longest_turn() as longest:
        await site.post(events, size=min(EVENTS_BODY_LIMIT // events, 256 * 1024))
        assert longest() < TURN_SECONDS


async def test_a_larger_request_is_refused_in_words(site: Site) -> None:
    """The answer has the number of deliveries, the bound and the way out, and nothing was written."""
    endpoints = 1 + MAX_DELIVERIES // MAX_EVENTS
    site.subscribe(endpoints, suspend=True)
    limit = MAX_DELIVERIES // endpoints
    total = MAX_EVENTS * endpoints
    with pytest.raises(ProblemError, match=rf"{total} deliveries.*at most {MAX_DELIVERIES}.*at most {limit} ") as error:
        await site.post(MAX_EVENTS)
    assert error.value.code is Code.TOO_MANY_DELIVERIES
    assert await site.scalar("SELECT count(*) FROM event_ids") == 0
    assert (await site.post(limit)).deliveries == limit * endpoints


async def test_an_event_for_too_many_endpoints_is_refused_in_words(site: Site) -> None:
    """No division of the request would help, so the answer names the endpoints; other tenants send on."""
    site.subscribe(MAX_DELIVERIES + 1, suspend=True)
    message = f"more than {MAX_DELIVERIES} endpoints.*several projects"
    with pytest.raises(ProblemError, match=message) as error:
        await site.post(1)
    assert error.value.status == 422
    assert (await site.post(1, namespace="other")).accepted == 1

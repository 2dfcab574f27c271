"""Requests of many deliveries: they are accepted whole, written in slices, and cost other tenants one transaction."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pytest
from prometheus_client import REGISTRY
from sqlalchemy import Connection, text
from support.dispatcher import Engine, Plan, now_ms, subscriber
from support.polling import until

from hookwright_crds.documents.event_bodies import EVENTS_BODY_LIMIT
from hookwright_crds.events import MAX_EVENTS
from hookwright_dev.receiver import Receiver
from hookwright_operator.services import fan_out_writer
from hookwright_operator.services.events import AcceptResult, IncomingEvent
from hookwright_operator.store.fan_outs import SLICE
from hookwright_operator.store.group_commit import MAX_WEIGHT
from hookwright_operator.store.store import DISCARD_BATCH, Store
from hookwright_runtime.problems import ProblemError

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

    async def written(self, total: int, *, within: float = 60.0) -> None:
        """Wait until so many deliveries exist, and check that each event and endpoint has one."""

        async def all_written() -> bool:
            return bool(await self.scalar("SELECT count(*) FROM deliveries") >= total)

        await until(all_written, within=within)
        await until(lambda: not self.engine.events.fan_outs.backlog("acme"))
        pairs = "SELECT count(*) FROM (SELECT DISTINCT event_id, endpoint_uid FROM deliveries) AS pairs"
        assert await self.scalar("SELECT count(*) FROM deliveries") == total
        assert await self.scalar(pairs) == total
        assert await self.scalar("SELECT sum(accepted) FROM counters WHERE endpoint_uid <> 'other'") == total
        assert await self.scalar("SELECT sum(deliveries) FROM events WHERE namespace = 'acme'") == total
        assert await self.scalar("SELECT count(*) FROM fan_outs") == 0


Open = Callable[[], Awaitable[Site]]


@asynccontextmanager
async def opening(url: str) -> AsyncIterator[Open]:
    """Yield a function that starts an engine on a database; at the end of the context all are stopped."""
    ticks = count(now_ms())
    sites: list[Site] = []

    async def open_one() -> Site:
        store = await Store.open(url, instance="test", lease_ms=600_000, clock=lambda: next(ticks))
        engine = await Engine.start(store, Plan(lease_ms=600_000, heartbeats=False))
        other = replace(subscriber("other", "http://127.0.0.1:9/", suspend=True), namespace="other")
        engine.registry.put(other)
        engine.registry.put_project("other", "billing")
        sites.append(Site(engine))
        return sites[-1]

    yield open_one
    for site in sites:
        await site.engine.stop(grace=1)


@pytest.fixture
async def open_site(url: str) -> AsyncIterator[Open]:
    """Yield a function that starts an engine on the test's database."""
    async with opening(url) as open_one:
        yield open_one


@pytest.fixture
async def site(open_site: Open) -> Site:
    """Return an engine on each database engine, where tenant ``other`` has one endpoint."""
    return await open_site()


async def rows_before_the_other_tenants_event(site: Site, name: str) -> int:
    """Accept an event of tenant ``other``, and return the rows of transactions that began between request and event."""
    asked = site.engine.store._clock()
    event = IncomingEvent(name, "delivered", "m", b"{}")
    await site.engine.events.accept("other", "billing", [event])
    accepted = await site.scalar(
        "SELECT accepted_ms FROM event_ids WHERE namespace = 'other' AND event_id = :name", name=name
    )
    query = "SELECT count(*) FROM deliveries WHERE endpoint_uid <> 'other' AND due_ms > :asked AND due_ms < :accepted"
    return int(await site.scalar(query, asked=asked, accepted=accepted))


async def test_a_large_request_is_written_in_slices(site: Site) -> None:
    """No transaction writes more deliveries than a slice has, and other tenants' events come in between.

    Before, one transaction wrote all of them.
    """
    endpoints, events = 40, 200
    site.subscribe(endpoints, suspend=True)
    accepted = await site.post(events)
    assert accepted[:3] == (events, 0, events * endpoints)
    waits: list[int] = []
    while site.engine.events.fan_outs.backlog("acme"):
        waits.append(await rows_before_the_other_tenants_event(site, f"o-{len(waits)}"))

    transactions = await site.rows("SELECT count(*) FROM deliveries WHERE endpoint_uid <> 'other' GROUP BY due_ms")
    assert len(transactions) >= events * endpoints / SLICE
    assert max(number for (number,) in transactions) <= SLICE
    assert waits
    assert max(waits) <= SLICE


async def test_the_requests_of_one_tenant_do_not_queue_before_another_tenants_event(site: Site) -> None:
    """However many requests of a tenant wait for a transaction, another tenant's event joins the next one.

    Before, it waited for all of them.
    """
    endpoints, events = 5, SLICE // 5
    site.subscribe(endpoints, suspend=True)
    requests = [asyncio.create_task(site.post(events, first=number * events)) for number in range(40)]
    await asyncio.sleep(0)

    before = await rows_before_the_other_tenants_event(site, "o-1")

    assert before <= MAX_WEIGHT + SLICE
    assert [(await request).deliveries for request in requests] == [events * endpoints] * 40


async def test_the_endpoints_that_one_tenant_deletes_do_not_queue_before_another_tenants_event(site: Site) -> None:
    """Their deliveries are discarded a batch at a time, and another tenant's event comes after one transaction."""
    endpoints, events = 20, 400
    uids = site.subscribe(endpoints, suspend=True)
    await site.post(events)
    await site.written(endpoints * events)
    discards = [asyncio.create_task(site.engine.store.discard(uid, "endpoint deleted")) for uid in uids]
    await asyncio.sleep(0)

    asked = site.engine.store._clock()
    await site.engine.events.accept("other", "billing", [IncomingEvent("o-1", "delivered", "m", b"{}")])
    accepted = await site.scalar("SELECT accepted_ms FROM event_ids WHERE event_id = 'o-1'")
    query = "SELECT count(*) FROM deliveries WHERE ended_ms > :asked AND ended_ms < :accepted"

    assert await site.scalar(query, asked=asked, accepted=accepted) <= MAX_WEIGHT + DISCARD_BATCH
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


async def test_the_event_loop_goes_on_beside_the_largest_request(site: Site) -> None:
    """A whole request of 1,000 events for 500 endpoints takes no long turn of the loop; before, one took seconds."""
    site.subscribe(500, suspend=True)
    async with longest_turn() as longest:
        accepted = await site.post(MAX_EVENTS, size=EVENTS_BODY_LIMIT // MAX_EVENTS)
        for _ in range(5):
            await rows_before_the_other_tenants_event(site, f"o-{now_ms()}")
        assert longest() < TURN_SECONDS
    assert accepted.deliveries == 500 * MAX_EVENTS


async def test_an_event_for_very_many_endpoints_is_written_in_slices(site: Site) -> None:
    """The bound holds for one event, too."""
    endpoints = 3 * SLICE + 1
    site.subscribe(endpoints, suspend=True)

    assert (await site.post(1))[:3] == (1, 0, endpoints)

    await site.written(endpoints)
    transactions = await site.rows("SELECT count(*) FROM deliveries GROUP BY due_ms")
    assert sorted(number for (number,) in transactions) == [1, SLICE, SLICE, SLICE]


async def test_a_large_request_outlives_the_process_that_accepted_it(site: Site, open_site: Open) -> None:
    """A process that ends in the middle leaves the rest to the next one; each delivery is written and sent once."""
    async with Receiver() as receiver:
        endpoints, events = 30, 60
        await site.engine.loops.stop("fan-out")
        uids = site.subscribe(endpoints, receiver.url, max_in_flight=2, suspend=True)
        await site.post(events)
        [fan_out] = await site.engine.store.fan_outs.waiting()
        await site.engine.store.fan_outs.write_slice(fan_out, [f"dlv_{number:026d}" for number in range(SLICE)])
        await site.engine.stop(grace=1)

        following = await open_site()
        assert following.subscribe(endpoints, receiver.url, max_in_flight=2) == uids
        await following.written(endpoints * events)
        await until(lambda: len(receiver.received) >= endpoints * events, within=60)
        await until(lambda: following.engine.at_rest, within=60)

        assert len(receiver.received) == endpoints * events
        sent = Counter(received.headers["webhook-id"] for received in receiver.received)
        assert set(sent.values()) == {endpoints}


async def test_a_repeated_large_request_adds_only_what_is_new(site: Site) -> None:
    """Its events are known by their ids, while they are written as well as later."""
    endpoints, events = 20, 60
    site.subscribe(endpoints, suspend=True)
    await site.post(events)

    assert (await site.post(events))[:3] == (0, events, 0)
    assert (await site.post(events, first=events - 10))[:3] == (events - 10, 10, (events - 10) * endpoints)

    await site.written((2 * events - 10) * endpoints)


async def test_an_endpoint_that_is_deleted_meanwhile_keeps_nothing_pending(site: Site) -> None:
    """Deliveries that are written for it afterwards are discarded."""
    endpoints, events = 20, 60
    uids = site.subscribe(endpoints, suspend=True)
    await site.engine.loops.stop("fan-out")
    await site.post(events)
    site.engine.registry.remove(uids[7])
    await site.engine.store.discard(uids[7], "endpoint deleted")
    await site.engine.store.prune(delivered_before_ms=0, failed_before_ms=0, limit=100)

    site.engine.loops.start("fan-out", site.engine.events.fan_outs.run)

    await site.written(endpoints * events)

    deleted = await site.engine.counts(uids[7])
    assert (deleted.discarded, deleted.pending) == (events, 0)
    assert (await site.engine.counts(uids[8])).pending == events


async def test_a_request_beyond_every_bound_is_refused_in_words(site: Site) -> None:
    """The answer has the number of deliveries, the bound and the way out, and nothing was written."""
    site.subscribe(1 + fan_out_writer.MAX_DELIVERIES // MAX_EVENTS, suspend=True)

    with pytest.raises(
        ProblemError, match=r"1000 events come to 1001000 deliveries.*at most 1000000.*smaller"
    ) as caught:
        await site.post(MAX_EVENTS)

    assert caught.value.status == 422
    assert await site.scalar("SELECT count(*) FROM event_ids") == 0


async def test_a_tenant_whose_deliveries_wait_to_be_written_starts_no_more(site: Site) -> None:
    """Its next large request is refused for now; its small ones and those of other tenants are accepted."""
    endpoints = 1 + fan_out_writer.MAX_BACKLOG // MAX_EVENTS
    site.subscribe(endpoints, suspend=True)
    await site.engine.loops.stop("fan-out")
    # At once, so that one request is counted while another one is being committed.
    answers = await asyncio.gather(site.post(MAX_EVENTS), site.post(20, first=MAX_EVENTS), return_exceptions=True)

    assert isinstance(answers[0], AcceptResult)
    assert answers[0][:3] == (MAX_EVENTS, 0, MAX_EVENTS * endpoints)
    assert REGISTRY.get_sample_value("hookwright_namespace_use_ratio", {"bound": "unwritten"}) == 1
    refusal = answers[1]
    assert isinstance(refusal, ProblemError)
    assert (refusal.status, dict(refusal.headers)["Retry-After"]) == (429, "5")
    assert f"{MAX_EVENTS * endpoints} deliveries of namespace acme" in refusal.detail
    assert (await site.post(1, first=5000))[:3] == (1, 0, endpoints)
    assert (await site.post(1, namespace="other")).accepted == 1


async def test_a_fan_out_that_cannot_be_written_keeps_no_other_one_waiting(site: Site) -> None:
    """The deliveries of other tenants and of the same tenant's other requests are written."""
    endpoints, events = 20, 60
    site.subscribe(endpoints, suspend=True)
    await site.engine.loops.stop("fan-out")
    await site.post(events)
    await site.post(events, first=events)

    def spoil(connection: Connection) -> None:
        connection.execute(
            text(
                "UPDATE fan_outs SET namespace = 'spoilt', event_ids = '[null]', total = 1 WHERE id ="
                " (SELECT min(id) FROM fan_outs)"
            )
        )

    await site.engine.store.transactions.write("spoil", spoil)
    site.engine.events.fan_outs._open.clear()

    site.engine.loops.start("fan-out", site.engine.events.fan_outs.run)

    async def written() -> bool:
        return bool(await site.scalar("SELECT count(*) FROM deliveries") == endpoints * events)

    await until(written, within=60)
    assert await site.scalar("SELECT count(*) FROM fan_outs") == 1


async def test_two_replicas_write_one_fan_out_together(postgres_url: str) -> None:
    """Each delivery is written once, whichever of them writes it."""
    endpoints, events = 50, 100
    async with opening(postgres_url) as open_one:
        site = await open_one()
        site.subscribe(endpoints, suspend=True)
        await site.engine.loops.stop("fan-out")
        await site.post(events)
        await open_one()

        site.engine.loops.start("fan-out", site.engine.events.fan_outs.run)

        await site.written(endpoints * events)

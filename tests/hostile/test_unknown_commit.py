"""A connection that is lost during COMMIT: each attempt is recorded once, counted once, and followed by one retry."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import asyncpg
import pytest
from support.dispatcher import Engine, Plan, now_ms, subscriber
from support.polling import until
from support.store_factories import LEASE_MS, Clock, accept_one, claimed_ids, left, neighbour_of, settlement
from support.tcp_proxy import Cut, Proxy, proxied

from hookwright_operator.delivery.attempt import Outcome
from hookwright_operator.delivery.http.guard import Guard
from hookwright_operator.delivery.http.sender import Sender
from hookwright_operator.registry import Endpoint
from hookwright_operator.store.records import Claimed, Counts, State
from hookwright_operator.store.sql import read
from hookwright_operator.store.store import Store

RETRIES = 5


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    """Yield a store on each engine."""
    store = await Store.open(url, instance="test", lease_ms=LEASE_MS, clock=Clock())
    yield store
    await store.close()


async def attempts_of(store: Store, delivery_id: str) -> int:
    """Return how many attempts the log has for a delivery."""
    record = await store.read_log(read.delivery, delivery_id)
    assert record is not None
    assert [attempt.number for attempt in record.attempts] == list(range(1, len(record.attempts) + 1))
    return len(record.attempts)


@pytest.mark.parametrize("state", [State.DELIVERED, State.FAILED, State.PENDING])
@pytest.mark.both_engines
async def test_a_repeated_settlement_is_stored_once(store: Store, state: State) -> None:
    """The repetition adds no attempt and no count, whatever the first one made of the delivery."""
    delivery = await accept_one(store, claimed=True)
    result = settlement(delivery, state, due_ms=Clock().now + 1000)
    await store.settle([result])
    counts = await store.read(read.counts_of, "orders")

    await store.settle([result], again=True)

    assert await attempts_of(store, delivery.id) == 1
    assert await store.read(read.counts_of, "orders") == counts


@pytest.mark.both_engines
async def test_a_repeated_settlement_that_was_never_stored_is_stored(store: Store) -> None:
    """Beside settlements that were stored, those that were not are stored now."""
    first, second = [await accept_one(store, claimed=True) for _ in range(2)]
    results = [settlement(delivery, State.DELIVERED) for delivery in (first, second)]
    await store.settle(results[:1])

    await store.settle(results, again=True)

    assert [await attempts_of(store, delivery.id) for delivery in (first, second)] == [1, 1]
    assert await store.read(read.counts_of, "orders") == Counts(
        delivered=2, last_attempt_ms=results[0].attempt.started_ms, last_status_code=200
    )


@pytest.mark.both_engines
async def test_a_repeated_settlement_leaves_a_newer_claim_alone(store: Store, url: str) -> None:
    """A retry that was claimed in between stays claimed, so no other replica sends it at the same time."""
    clock = Clock()
    delivery = await accept_one(store, claimed=True)
    result = settlement(delivery, State.PENDING, status=500, due_ms=clock.now)
    await store.settle([result])
    assert await claimed_ids(store) == [delivery.id]

    await store.settle([result], again=True)

    neighbour = await neighbour_of(store, url, clock)
    assert await claimed_ids(neighbour) == []
    second = result._replace(attempt=result.attempt._replace(started_ms=clock.now + 5), state=State.FAILED)
    await store.settle([second])
    assert await attempts_of(store, delivery.id) == 2
    assert (await store.read(read.counts_of, "orders")).failed == 1
    await left(neighbour)


async def test_a_repeated_settlement_waits_for_the_transaction_in_doubt(postgres_url: str) -> None:
    """The server may still be at work on the first transaction; the repetition sees what that one leaves."""
    store = await Store.open(postgres_url, instance="test", lease_ms=LEASE_MS, clock=Clock())
    delivery = await accept_one(store, claimed=True)
    result = settlement(delivery, State.DELIVERED)
    in_doubt = await asyncpg.connect(postgres_url)
    transaction = in_doubt.transaction()
    await transaction.start()
    await in_doubt.execute("UPDATE deliveries SET owner = NULL, state = 'delivered', attempts = 1")
    await in_doubt.execute(
        "INSERT INTO attempts VALUES ($1, 1, $2, $3, $4, '', 'ok')",
        *(delivery.id, result.attempt.started_ms, result.attempt.duration_ms, result.attempt.status_code),
    )

    repetition = asyncio.create_task(store.settle([result], again=True))

    async def waits() -> bool:
        return bool(await in_doubt.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"))

    await until(waits, within=30)
    await transaction.commit()
    await repetition
    assert await attempts_of(store, delivery.id) == 1
    await in_doubt.close()
    await store.close()


class Refusing(Sender):
    """A sender whose receiver refuses each attempt, and that cuts the connection at the COMMIT of each result.

    Attributes:
        sent: attempts by delivery.
        at_once: the highest number of concurrent attempts of one delivery.
    """

    def __init__(self, proxy: Proxy, cut: Cut) -> None:
        super().__init__(Guard(), user_agent="Hookwright/test", allow_http=True)
        self.proxy, self.cut = proxy, cut
        self.sent = Counter[str]()
        self.under_way = Counter[str]()
        self.at_once = 0

    async def send(self, endpoint: Endpoint, delivery: Claimed, **_: object) -> Outcome:
        """Make an attempt, which takes longer than the pause between two sweeps."""
        assert endpoint.uid == delivery.endpoint_uid
        started_ms = now_ms()
        self.sent[delivery.id] += 1
        self.under_way[delivery.id] += 1
        self.at_once = max(self.at_once, self.under_way[delivery.id])
        await asyncio.sleep(0.05)
        self.under_way[delivery.id] -= 1
        self.proxy.cut = self.cut
        return Outcome(500, "HTTP 500", "", duration_ms=50, started_ms=started_ms)


@pytest.mark.parametrize("cut", Cut)
async def test_each_attempt_is_recorded_once_when_every_commit_is_cut(postgres_url: str, cut: Cut) -> None:
    """The log has the attempts that were sent, the schedule's number of them, and never two at once."""
    async with proxied(postgres_url) as (proxy, through):
        plan = Plan(schedule=",".join(["100ms"] * RETRIES), heartbeats=False, sweep=0.01)
        store = await Store.open(through, instance="test", lease_ms=plan.lease_ms, clock=now_ms)
        sender = Refusing(proxy, cut)
        engine = await Engine.start(store, plan, sender=sender)
        engine.registry.put(subscriber("orders", "http://127.0.0.1:9/"))
        await engine.post()

        async def failed() -> bool:
            return (await engine.counts("orders")).failed == 1 and engine.at_rest

        await until(failed, within=60)
        [delivery_id] = sender.sent
        assert proxy.cuts >= RETRIES
        assert sender.sent[delivery_id] == 1 + RETRIES
        assert await attempts_of(store, delivery_id) == 1 + RETRIES
        assert sender.at_once == 1
        proxy.cut = None
        await engine.stop()

"""Messages that consumers take: leases, their ends, and the fence against late acknowledgements; on every engine."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from support.store_factories import Clock, accept_one, claimed_ids, event, held, settlement

from hookwright_operator.delivery.attempt import RetrySchedule
from hookwright_operator.ids import take_id
from hookwright_operator.store.group_commit import Operation
from hookwright_operator.store.message_leases import LeaseId, Nack, SettledLease, Take, Taken
from hookwright_operator.store.records import NewDelivery, State
from hookwright_operator.store.sql import pull, read
from hookwright_operator.store.sql.pull import LEASE_ENDED
from hookwright_operator.store.store import Store

pytestmark = pytest.mark.both_engines

SCHEDULE = RetrySchedule.parse("30s,2m")
REFUSED = Nack("the queue is full")
ROOM = 4 * 1024 * 1024


async def take(
    store: Store, *, limit: int = 100, lease_ms: int = 30_000, uid: str = "orders", room: int = ROOM
) -> Taken:
    """Take messages as a consumer."""
    return await store.pull_leases.take(Take(uid, limit, lease_ms, room, take_id), tenant="acme")


async def settle(
    store: Store, leases: Sequence[LeaseId], refusal: Nack | None = None, *, uid: str = "orders"
) -> dict[LeaseId, SettledLease]:
    """Acknowledge or refuse messages, and return the results."""
    _, results = await store.pull_leases.settle(uid, leases, refusal, SCHEDULE.next, tenant="acme")
    return results


def leases_of(taken: Taken) -> list[LeaseId]:
    """Return the leases of messages."""
    return [LeaseId(message.id, taken.id) for message in taken.messages]


async def accept_many(store: Store, number: int, *, body: bytes = b"{}") -> list[str]:
    """Accept events for one endpoint, and return the ids of the deliveries."""
    new = [event("orders", body=body) for _ in range(number)]
    await store.accept(new)
    return [one.deliveries[0].id for one in new]


async def state_of(store: Store, delivery: NewDelivery) -> tuple[State, int, str]:
    """Return a delivery's state, the number of its attempts, and the error of the last one."""
    record = await store.read_log(read.delivery, delivery.id)
    assert record is not None
    return record.state, len(record.attempts), record.attempts[-1].error if record.attempts else ""


async def test_messages_are_taken_once_in_their_order_and_acknowledged(store: Store, clock: Clock) -> None:
    """While its lease holds, no other consumer gets a message; an acknowledgement ends its delivery."""
    ids = await accept_many(store, 3, body=b'{"n":1.50}')
    first, second = await take(store, limit=2), await take(store)
    assert [message.id for message in first.messages] == ids[:2]
    assert [message.id for message in second.messages] == ids[2:]
    assert {message.body for message in first.messages} == {b'{"n":1.50}'}
    assert (first.at_ms, first.until_ms) == (clock(), clock() + 30_000)
    assert not (await take(store)).messages
    clock.advance(250)
    results = await settle(store, leases_of(first))
    assert set(results.values()) == {SettledLease(State.DELIVERED, None, "")}
    counts = await store.read(read.counts_of, "orders")
    assert (counts.pending, counts.delivered, counts.last_status_code) == (1, 2, 200)
    record = await store.read_log(read.delivery, ids[0])
    assert record is not None
    [attempt] = record.attempts
    assert (attempt.number, attempt.started_ms, attempt.duration_ms) == (1, first.at_ms, 250)


async def test_a_lease_is_not_due_too_late(store: Store) -> None:
    """The endpoint may have a URL by now, and a lease may be longer than the delays of the schedule."""
    await accept_many(store, 1)
    await take(store, lease_ms=3_600_000)
    assert await store.hasten([("orders", 60_000)], limit=10) == []


async def test_two_replicas_share_an_endpoint_without_giving_a_message_twice(store: Store, neighbour: Store) -> None:
    """Consumers that take at the same time, at two replicas, get different messages."""
    ids = await accept_many(store, 200)
    lease = await asyncio.gather(*(take(replica, limit=7) for _ in range(20) for replica in (store, neighbour)))
    result = [message.id for replica in lease for message in replica.messages]
    while extra := (await take(store)).messages:
        result += [message.id for message in extra]
    assert sorted(result) == sorted(ids)


async def test_a_lease_that_ends_is_a_failed_attempt_and_the_schedule_goes_on(store: Store, clock: Clock) -> None:
    """A consumer that dies loses nothing: the message is due again by the schedule, until the last attempt failed."""
    delivery = await accept_one(store)
    for retry_ms in (30_000, 120_000):
        assert len((await take(store, lease_ms=5000)).messages) == 1
        clock.advance(4999)
        assert (await store.pull_leases.end(SCHEDULE.next)).settlements == []
        clock.advance(1)
        [endings] = (await store.pull_leases.end(SCHEDULE.next)).settlements
        assert (endings.state, endings.due_ms) == (State.PENDING, clock() + retry_ms)
        clock.advance(retry_ms - 1)
        assert not (await take(store)).messages
        clock.advance(1)
    assert (await take(store)).messages[0].attempts == 2
    clock.advance(30_000)
    [last] = (await store.pull_leases.end(SCHEDULE.next)).settlements
    assert last.state is State.FAILED
    assert await state_of(store, delivery) == (State.FAILED, 3, LEASE_ENDED)
    assert (await store.read(read.counts_of, "orders")).failed == 1


async def test_a_late_acknowledgement_does_not_settle_the_next_lease(store: Store, clock: Clock) -> None:
    """The id of a message has the lease, so a consumer settles its own lease only."""
    delivery = await accept_one(store)
    late = leases_of(await take(store, lease_ms=1000))
    clock.advance(1000)
    await store.pull_leases.end(SCHEDULE.next)
    clock.advance(30_000)
    held_now = leases_of(await take(store))
    for refusal in (None, REFUSED):
        assert await settle(store, late, refusal) == {late[0]: SettledLease(State.PENDING, None, LEASE_ENDED)}
    assert (await state_of(store, delivery))[:2] == (State.PENDING, 1)
    assert (await settle(store, held_now))[held_now[0]].state is State.DELIVERED


async def test_an_acknowledgement_after_the_lease_counts_until_its_end_is_recorded(store: Store, clock: Clock) -> None:
    """The work is done, and nobody else has the message."""
    delivery = await accept_one(store)
    leases = leases_of(await take(store, lease_ms=1000))
    clock.advance(1500)
    assert (await settle(store, leases))[leases[0]].state is State.DELIVERED
    assert (await store.pull_leases.end(SCHEDULE.next)).settlements == []
    assert await state_of(store, delivery) == (State.DELIVERED, 1, "")


async def test_a_repeated_acknowledgement_has_the_same_result_and_changes_nothing(store: Store) -> None:
    """A consumer that lost the answer may ask again."""
    delivery = await accept_one(store)
    leases = leases_of(await take(store))
    assert await settle(store, leases) == await settle(store, leases)
    assert await settle(store, leases, REFUSED) == {leases[0]: SettledLease(State.DELIVERED, None, "")}
    assert await state_of(store, delivery) == (State.DELIVERED, 1, "")


async def test_a_refused_message_is_due_by_the_schedule_or_after_a_delay(store: Store, clock: Clock) -> None:
    """A refusal is a failed attempt with the consumer's reason; a delay does not add an attempt at the end."""
    delivery = await accept_one(store)
    leases = leases_of(await take(store))
    assert (await settle(store, leases, REFUSED))[leases[0]] == SettledLease(
        State.PENDING, clock() + 30_000, REFUSED.reason
    )
    assert await store.next_due(["orders"]) == {"orders": clock() + 30_000}
    clock.advance(30_000)
    leases = leases_of(await take(store))
    again = await settle(store, leases, REFUSED._replace(delay_ms=5))
    assert again[leases[0]].due_ms == clock() + 5
    clock.advance(5)
    leases = leases_of(await take(store))
    assert (await settle(store, leases, REFUSED._replace(delay_ms=5)))[leases[0]].state is State.FAILED
    assert await state_of(store, delivery) == (State.FAILED, 3, REFUSED.reason)


async def test_messages_of_another_endpoint_and_unknown_ones_change_nothing(store: Store) -> None:
    """A consumer of one endpoint cannot settle a message of another, even with its id."""
    delivery = await accept_one(store)
    [lease] = leases_of(await take(store))
    unknown = LeaseId("dlv_" + "0" * 26, lease.take_id)
    assert await settle(store, [lease, unknown], uid="other") == {}
    assert (await settle(store, [LeaseId(lease.delivery_id, "0" * 26)])).popitem()[1].error is None
    assert (await state_of(store, delivery))[:2] == (State.PENDING, 0)
    assert (await settle(store, [lease, unknown])) == {lease: SettledLease(State.DELIVERED, None, "")}


async def test_a_large_message_is_taken_alone_and_others_within_the_room(store: Store) -> None:
    """The bodies of one answer are bounded; the first message is always taken."""
    ids = await accept_many(store, 5, body=b"x" * 3000)
    assert [message.id for message in (await take(store, room=100)).messages] == ids[:1]
    assert [message.id for message in (await take(store, room=7000)).messages] == ids[1:3]


async def test_a_consumer_that_leaves_while_it_takes_gets_nothing_and_uses_no_attempt(
    store: Store, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The messages of a cancelled request are due again at once; its namespace has a share of the transactions."""
    tenants = {}
    submit = store.transactions.group_commit.submit

    def submitted(operation: Operation[Any, Any], *given: Any, **named: Any) -> "asyncio.Future[Any]":
        tenants[operation.name] = named.get("tenant")
        return submit(operation, *given, **named)

    delivery = await accept_one(store)
    monkeypatch.setattr(store.transactions.group_commit, "submit", submitted)
    async with held(store, url):
        leaving = asyncio.ensure_future(take(store))
        await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
    lease = await take(store)
    while not lease.messages:
        lease = await take(store)
    assert lease.messages[0].attempts == 0
    assert (await state_of(store, delivery))[1] == 0
    assert (tenants["take"], tenants["return"]) == ("acme", "acme")


async def test_deletion_retry_and_replay_treat_a_leased_message_as_pending(store: Store) -> None:
    """A retry does not take a message from its consumer; a deletion discards it, and a late answer finds no lease."""
    delivery = await accept_one(store)
    [lease] = leases_of(await take(store))
    assert await store.retry(delivery.id) is State.PENDING
    assert not (await take(store)).messages
    assert await store.discard("orders", "endpoint deleted") == 1
    assert await settle(store, [lease]) == {lease: SettledLease(State.DISCARDED, None, None)}
    assert (await store.read(read.counts_of, "orders")).discarded == 1


async def test_a_claim_and_a_lease_never_hold_the_same_delivery(store: Store, neighbour: Store, clock: Clock) -> None:
    """An endpoint may change between url and pull while deliveries are claimed or leased."""
    first, second = await accept_one(store, claimed=True), await accept_one(store)
    assert [message.id for message in (await take(neighbour)).messages] == [second.id]
    assert await claimed_ids(neighbour) == []
    result = settlement(first, State.DELIVERED)
    await store.settle([result])
    assert (await store.read(read.counts_of, "orders")).delivered == 1
    clock.advance(30_000)
    await store.heartbeat()
    assert await claimed_ids(store) == [second.id]
    assert (await store.pull_leases.end(SCHEDULE.next)).settlements == []


async def test_many_ended_leases_are_settled_in_several_transactions(store: Store, clock: Clock) -> None:
    """One transaction settles about 1,000 messages, so that other calls run between."""
    await accept_many(store, 500)
    await accept_many(store, 600)
    for _ in range(3):
        await take(store, limit=500, lease_ms=1000)
    clock.advance(1000)
    settled = [len((await store.pull_leases.end(SCHEDULE.next)).settlements) for _ in range(3)]
    assert (sum(settled), max(settled) <= 1000, settled[2]) == (1100, True, 0)
    assert (await store.read(read.counts_of, "orders")).pending == 1100


async def test_ended_leases_cost_a_request_a_bounded_number_of_rows(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Newer messages wait if more leases of the endpoint have ended than one request examines."""
    monkeypatch.setattr(pull, "_MARGIN", 3)
    await accept_many(store, 5)
    await take(store, lease_ms=1000)
    clock.advance(1000)
    [newer] = await accept_many(store, 1)
    assert not (await take(store, limit=1)).messages
    assert [message.id for message in (await take(store, limit=3)).messages] == [newer]
    await store.pull_leases.end(SCHEDULE.next)
    clock.advance(30_000)
    assert len((await take(store, limit=3)).messages) == 3

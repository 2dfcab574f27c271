"""Calls share transactions, and a faulty call fails alone."""

import asyncio
import traceback
from collections.abc import Sequence

import pytest
from sqlalchemy import Connection, text
from support.polling import PATIENCE, until
from support.store_factories import Observed, accept_one, claimed_ids, event, held, settlement, state_of

from hookwright_operator.store.group_commit import MAX_WEIGHT, GroupCommit, Operation
from hookwright_operator.store.records import State
from hookwright_operator.store.sql import read
from hookwright_operator.store.store import Store
from hookwright_runtime.errors import StoreError, StoreUnavailable


async def test_whatever_gathers_during_a_transaction_goes_into_the_next(
    store: Store, url: str, observed: Observed
) -> None:
    """Accepts, claims and releases that arrive during a transaction share the next transaction."""
    claimed = await accept_one(store, claimed=True)
    await accept_one(store, uid="audit")
    async with held(store, url) as holding:
        observed.operations.clear()
        gathered = asyncio.gather(
            store.accept([event("other")]),
            store.claim([("audit", 1)]),
            store.accept([event("other")]),
            store.release([claimed.id]),
        )
        await asyncio.sleep(0)
    await gathered

    await holding
    assert observed.operations == ["hold", "commit", "accept", "claim", "release", "commit"]


async def test_only_on_sqlite_a_settlement_shares_that_transaction(store: Store, url: str, observed: Observed) -> None:
    """On PostgreSQL it has a connection of its own, and is committed during the other transaction."""
    claimed = await accept_one(store, claimed=True)
    async with held(store, url) as holding:
        observed.operations.clear()
        settling = asyncio.ensure_future(store.settle([settlement(claimed, State.DELIVERED)]))
        if store.is_shared:
            await asyncio.wait_for(settling, PATIENCE)
        assert not holding.done()
    await settling
    await holding
    assert (observed.operations[0] == "settle") == store.is_shared
    assert await state_of(store, claimed.id) is State.DELIVERED


@pytest.mark.both_engines
async def test_only_the_call_at_fault_fails(store: Store) -> None:
    """Calls that share a transaction with an impossible one are committed."""
    first = event("orders")
    await store.accept([first])
    before = [event("orders"), event("orders")]

    answers = await asyncio.gather(
        store.accept(before[:1]), store.accept([first]), store.accept(before[1:]), return_exceptions=True
    )

    assert [type(answer).__name__ for answer in answers] == ["Accepted", "StoreError", "Accepted"]
    assert (await store.read(read.counts_of, "orders")).pending == 3


async def test_an_error_of_our_own_reaches_its_caller_as_it_is(store: Store) -> None:
    """A programming error is rolled back and raised in its caller, and the other calls are committed."""
    new = event("orders")

    def fail(connection: Connection) -> None:
        connection.execute(text("DELETE FROM deliveries"))
        raise ZeroDivisionError

    calls = (store.transactions.group_commit.submit(store._accept, [new]), store.transactions.write("fail", fail))
    result, failure = await asyncio.gather(*calls, return_exceptions=True)

    assert isinstance(failure, ZeroDivisionError)
    assert not isinstance(result, BaseException)
    assert await state_of(store, new.deliveries[0].id) == State.PENDING


async def test_each_caller_gets_an_exception_of_its_own(store: Store) -> None:
    """Each caller gets its own exception, because one exception in several tasks would mix their tracebacks."""

    def fail(_connection: Connection) -> None:
        raise StoreUnavailable("away")

    calls = (
        store.transactions.write("fail", fail),
        store.transactions.group_commit.submit(store._accept, [event("orders")]),
    )
    first, second = await asyncio.gather(*calls, return_exceptions=True)

    assert isinstance(first, StoreUnavailable)
    assert isinstance(second, StoreUnavailable)
    assert first is not second


async def test_a_transaction_takes_no_more_than_its_weight(store: Store, observed: Observed) -> None:
    """A transaction takes the oldest call and a limited weight of a tenant's other calls, however many calls wait."""
    groups: list[Sequence[int]] = []

    def work(_connection: Connection, payloads: Sequence[int]) -> Sequence[int]:
        groups.append(payloads)
        return payloads

    heavy = Operation("heavy", work)
    observed.operations.clear()

    answers = await asyncio.gather(
        *[store.transactions.group_commit.submit(heavy, n, weight=MAX_WEIGHT // 2, tenant="acme") for n in range(6)]
    )

    assert answers == list(range(6))
    assert groups == [[0, 1, 2], [3, 4, 5]]
    assert observed.commits == 2


async def test_a_call_heavier_than_a_transaction_goes_alone(store: Store, observed: Observed) -> None:
    """A call that is heavier than the limit runs alone."""
    observed.operations.clear()

    await store.accept([event(*["orders"] * (MAX_WEIGHT + 1))])

    assert observed.operations == ["accept", "commit"]


@pytest.mark.both_engines
async def test_a_cancelled_caller_does_not_disturb_the_others(store: Store) -> None:
    """Other callers get their results, and the cancelled call is carried out as a whole."""
    leaving, staying = event("orders"), event("orders")
    tasks = [asyncio.create_task(store.accept([new])) for new in (leaving, staying)]
    await asyncio.sleep(0)
    tasks[0].cancel()

    assert (await tasks[1]).accepted == 1
    assert await claimed_ids(store) == [leaving.deliveries[0].id, staying.deliveries[0].id]


@pytest.mark.both_engines
async def test_a_cancelled_settlement_is_stored_all_the_same(store: Store) -> None:
    """The attempt was made, so it is recorded, and the writer continues."""
    delivery = await accept_one(store, claimed=True)
    settling = asyncio.create_task(store.settle([settlement(delivery, State.DELIVERED)]))
    await asyncio.sleep(0)
    settling.cancel()
    await asyncio.wait([settling])

    assert settling.cancelled()

    async def is_delivered() -> bool:
        return await state_of(store, delivery.id) == State.DELIVERED

    await until(is_delivered)
    await store.ping()


@pytest.mark.both_engines
async def test_closing_finishes_what_was_asked_for_and_then_refuses(store: Store) -> None:
    """Calls before the close are carried out, and calls after it are refused."""
    calls = [asyncio.create_task(store.accept([event("orders")])) for _ in range(20)]
    await asyncio.sleep(0)

    await store.close()

    assert [(await result).accepted for result in calls] == [1] * 20
    for call in (store.accept([event("orders")]), store.claim([("orders", 1)]), store.ping(), store.read(read.counts)):
        with pytest.raises(StoreUnavailable, match="closed"):
            await call
    await store.close()


@pytest.mark.parametrize(("parts", "groups"), [(1, [1, 1]), (5, [2])])
async def test_a_call_by_itself_waits_for_no_other_but_one_that_stands_for_several_does(
    store: Store, parts: int, groups: list[int]
) -> None:
    """Only a call of several parts waits some loop iterations for calls of the same moment."""
    sizes: list[int] = []

    def note(_: Connection, payloads: Sequence[None]) -> Sequence[None]:
        sizes.append(len(payloads))
        return payloads

    batcher = GroupCommit(store.transactions.database.write, lambda _operation, _seconds: None)
    noted: Operation[None, None] = Operation("note", note)
    first = batcher.submit(noted, None, parts=parts)
    for _ in range(2):
        await asyncio.sleep(0)
    second = batcher.submit(noted, None)
    await asyncio.gather(first, second)
    await batcher.close()

    assert sizes == groups


async def test_nothing_is_taken_while_the_store_closes(store: Store, url: str) -> None:
    """Running calls finish, but a busy caller cannot keep the store open."""
    async with held(store, url) as under_way:
        closing = asyncio.create_task(store.close())
        await asyncio.sleep(0)

        with pytest.raises(StoreUnavailable, match="closed"):
            await store.accept([event("orders")])

    assert await under_way == "done"
    await closing


async def test_a_batcher_closed_at_once_still_does_what_it_was_asked(store: Store) -> None:
    """The writer runs all calls that were made before the close."""
    batcher = GroupCommit(store.transactions.database.write, lambda _operation, _seconds: None)
    echo: Operation[str, str] = Operation("echo", lambda _, payloads: payloads)
    answer = batcher.submit(echo, "hello")

    await batcher.close()

    assert await answer == "hello"


@pytest.mark.both_engines
async def test_a_dead_writer_refuses_instead_of_hanging(store: Store, url: str) -> None:
    """Calls that wait when the writer ends, and later calls, are refused at once."""
    async with held(store, url) as under_way:
        waiting = asyncio.create_task(store.accept([event("orders")]))
        await asyncio.sleep(0)
        store.transactions.group_commit._writer.cancel()

        async with asyncio.timeout(PATIENCE):
            for call in (under_way, waiting, store.ping()):
                with pytest.raises(StoreUnavailable, match="writer was stopped"):
                    await call


async def test_a_writer_that_dies_of_a_fault_says_which(store: Store) -> None:
    """Every refused call's error contains the error that ended the writer."""

    def fail(_operation: str, _seconds: float) -> None:
        raise ZeroDivisionError

    batcher = GroupCommit(store.transactions.database.write, fail)
    ping: Operation[int, int] = Operation("ping", lambda _, payloads: payloads)
    assert await batcher.submit(ping, 1) == 1
    await asyncio.wait([batcher._writer])

    with pytest.raises(StoreUnavailable, match="ZeroDivisionError"):
        await batcher.submit(ping, 2)


@pytest.mark.both_engines
async def test_refused_transactions_do_not_show_what_was_in_them(store: Store) -> None:
    """The error contains the database's objection, and no data of the events."""
    first = event("orders", project="secret-project")
    await store.accept([first])

    with pytest.raises(StoreError, match=r"UNIQUE constraint failed: events|duplicate key .*_pkey") as error:
        await store.accept([first])

    view = "".join(traceback.format_exception(error.value))
    assert "secret" not in view
    assert first.id not in view

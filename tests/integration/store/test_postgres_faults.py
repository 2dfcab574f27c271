"""Connections that are lost at any moment, and a database that restarts: results of calls, and stored data."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack
from typing import Any, TypeVar

import asyncpg
import pytest
import pytest_asyncio
from integration.store.conftest import Open
from sqlalchemy import Connection
from support.polling import PATIENCE, until
from support.store_factories import Clock, accept_one, claimed_ids, event, ids, opened, settlement
from support.tcp_proxy import Cut, Proxy, proxied

from hookwright_operator.store.database import PostgresDatabase
from hookwright_operator.store.records import Counts, State
from hookwright_operator.store.sql import read
from hookwright_operator.store.sql.statements import driver_of
from hookwright_operator.store.store import Store
from hookwright_runtime.errors import StoreError, StoreUnavailable

T = TypeVar("T")


@pytest.fixture
def url(postgres_url: str) -> str:
    """Use PostgreSQL only."""
    return postgres_url


async def test_connections_that_were_cut_while_idle_cost_no_call(open_store: Open, url: str) -> None:
    """The first call after the cut runs again over a new connection."""
    store = await open_store()
    await accept_one(store)
    await store.read(read.counts)
    administrator = await asyncpg.connect(url)
    await administrator.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'hookwright' AND datname = current_database()"
    )
    await administrator.close()

    await accept_one(store)
    assert await store.read(read.counts_of, "orders") == Counts(pending=2)


async def test_a_connection_that_is_gone_leaves_the_error_that_ended_its_transaction(url: str) -> None:
    """A silent network ends a statement by its timeout, and then the connection, which answers no question."""

    def lose(connection: Connection) -> None:
        driver_of(connection).terminate()
        raise TimeoutError("no answer")

    database = PostgresDatabase(url)
    for call in (database.write, database.read):
        with pytest.raises(StoreUnavailable, match="no answer"):
            await call(lose)
    await database.close()


class Line:
    """A store, and the proxy of its connections."""

    def __init__(self, store: Store, proxy: Proxy) -> None:
        self.store = store
        self.proxy = proxy


@pytest_asyncio.fixture
async def through_proxy(url: str, clock: Clock) -> AsyncIterator[Line]:
    """Open a store whose connections can be cut."""
    async with AsyncExitStack() as stack:
        proxy, proxy_url = await stack.enter_async_context(proxied(url))
        store = await opened(proxy_url, clock)
        stack.push_async_callback(store.close)
        yield Line(store, proxy)


async def under_way(call: Coroutine[Any, Any, T], store: Store) -> "asyncio.Task[T]":
    """Begin a call and wait for its transaction, which later calls cannot share."""
    task = asyncio.create_task(call)
    # The call is submitted, and the writer begins.
    for _ in range(3):
        await asyncio.sleep(0)
    assert store.transactions.group_commit._under_way
    return task


async def test_a_connection_lost_before_the_commit_leaves_nothing(through_proxy: Line) -> None:
    """The call fails with "try again", and a repetition is not a duplicate."""
    new = event("orders", event_id="e-1", claimed=True)
    through_proxy.proxy.cut = Cut.BEFORE

    with pytest.raises(StoreUnavailable, match="lost during a commit"):
        await through_proxy.store.accept([new])

    assert through_proxy.proxy.cuts == 1
    assert (await through_proxy.store.accept([new])).accepted == 1


async def test_what_was_accepted_over_a_connection_lost_after_the_commit_waits_for_a_claim(
    through_proxy: Line,
) -> None:
    """The call fails with "try again", and its delivery can be claimed; this replica gets a notice of it."""
    new = event("orders", claimed=True)
    notices: list[str] = []
    through_proxy.store.listen(notices.append)
    through_proxy.proxy.cut = Cut.AFTER

    with pytest.raises(StoreUnavailable, match="lost during a commit"):
        await through_proxy.store.accept([new])

    async def is_told() -> bool:
        return notices == ["orders"]

    await until(is_told)
    assert await claimed_ids(through_proxy.store) == ids([new])


async def test_a_claim_whose_answer_was_lost_is_given_back(through_proxy: Line) -> None:
    """Every replica can claim the deliveries of a lost claim, this replica too."""
    delivery = await accept_one(through_proxy.store)
    through_proxy.proxy.cut = Cut.AFTER

    with pytest.raises(StoreUnavailable):
        await through_proxy.store.claim([("orders", 1)])

    async def is_free() -> bool:
        return await claimed_ids(through_proxy.store) == [delivery.id]

    await until(is_free)


@pytest.mark.parametrize("cut", Cut)
async def test_what_is_claimed_after_a_lost_answer_is_not_given_back(
    through_proxy: Line, open_store: Open, cut: Cut
) -> None:
    """The release of a lost claim can be late, because the server is down; deliveries claimed again stay claimed."""
    delivery = await accept_one(through_proxy.store)
    neighbour = await open_store()
    through_proxy.proxy.cut, through_proxy.proxy.closed = cut, True
    with pytest.raises(StoreUnavailable, match="lost during a commit"):
        await through_proxy.store.claim([("orders", 1)])
    with pytest.raises(StoreUnavailable, match="cannot be used"):
        await through_proxy.store.ping()

    through_proxy.proxy.closed = False
    claims = await through_proxy.store.claim([("orders", 1)])

    assert [one.id for one in claims] == [delivery.id]
    # Longer than the release can wait for its next try.
    await asyncio.sleep(1)
    assert await claimed_ids(neighbour) == []


async def test_what_is_claimed_after_a_release_whose_answer_was_lost_stays_claimed(
    through_proxy: Line, open_store: Open
) -> None:
    """The store repeats the release, and a claim that waits for its transaction comes after the release."""
    delivery = await accept_one(through_proxy.store, claimed=True)
    neighbour = await open_store()
    notices: list[str] = []
    neighbour.listen(notices.append)
    through_proxy.proxy.cut = Cut.AFTER
    releasing = await under_way(through_proxy.store.release([delivery.id]), through_proxy.store)

    claim_ids = await claimed_ids(through_proxy.store)
    await releasing

    assert claim_ids == [delivery.id]
    assert await claimed_ids(neighbour) == []

    async def is_told() -> bool:
        return notices == ["orders"]

    await until(is_told)


@pytest.mark.parametrize("cut", Cut)
async def test_a_claim_that_waited_while_the_one_before_it_was_lost_keeps_what_it_gets(
    through_proxy: Line, open_store: Open, cut: Cut
) -> None:
    """The lost claim is released before the waiting claim, and not after it."""
    delivery = await accept_one(through_proxy.store)
    neighbour = await open_store()
    through_proxy.proxy.cut = cut
    claims = await under_way(through_proxy.store.claim([("orders", 1)]), through_proxy.store)

    claim_ids = await claimed_ids(through_proxy.store)

    with pytest.raises(StoreUnavailable, match="lost during a commit"):
        await claims
    assert claim_ids == [delivery.id]
    # Longer than the release can wait for its next try.
    await asyncio.sleep(1)
    assert await claimed_ids(neighbour) == []


async def test_a_release_whose_answer_was_lost_as_the_store_was_closed_ends(through_proxy: Line) -> None:
    """A closed store cannot release; the claim ends with the claim lease."""
    delivery = await accept_one(through_proxy.store, claimed=True)
    through_proxy.proxy.cut = Cut.AFTER
    releasing = await under_way(through_proxy.store.release([delivery.id]), through_proxy.store)

    await through_proxy.store.close()

    with pytest.raises(StoreUnavailable, match="lost during a commit"):
        await asyncio.wait_for(releasing, PATIENCE)


async def test_a_settlement_repeated_after_a_lost_answer_counts_once(through_proxy: Line) -> None:
    """The delivery's state has changed, and does not change again."""
    delivery = await accept_one(through_proxy.store, claimed=True)
    through_proxy.proxy.cut = Cut.AFTER
    result = settlement(delivery, State.DELIVERED)

    with pytest.raises(StoreUnavailable):
        await through_proxy.store.settle([result])
    await through_proxy.store.settle([result])

    assert (await through_proxy.store.read(read.counts_of, "orders")).delivered == 1


async def test_callers_that_share_a_commit_that_is_lost_are_all_told(through_proxy: Line) -> None:
    """Each call fails with its own error, and the deliveries that each would have claimed can be claimed again."""
    events = [event("orders", claimed=True) for _ in range(3)]
    through_proxy.proxy.cut = Cut.AFTER

    answers = await asyncio.gather(*[through_proxy.store.accept([new]) for new in events], return_exceptions=True)

    assert [type(answer).__mro__[1] for answer in answers] == [StoreUnavailable] * 3
    assert len({id(answer) for answer in answers}) == 3
    matches: list[str] = []

    async def all_free() -> bool:
        matches.extend(await claimed_ids(through_proxy.store))
        return sorted(matches) == sorted(ids(events))

    await until(all_free)


async def test_a_refusal_shows_nothing_of_anybodys_rows(open_store: Open) -> None:
    """The error omits PostgreSQL's detail, which contains the row."""
    store = await open_store()
    first = event("orders", body=b"private")
    await store.accept([first])

    with pytest.raises(StoreError, match="duplicate key") as refusal:
        await store.accept([first])

    records: list[BaseException] = []
    error: BaseException | None = refusal.value
    while error is not None:
        records.append(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    assert not any(first.id in str(text) or "DETAIL" in str(text) for text in records)

"""Replicas notify each other of deliveries that can be claimed."""

import asyncpg
import pytest
from asyncpg.exceptions import TargetServerAttributeNotMatched
from integration.store.conftest import Open
from sqlalchemy import text
from support.polling import until
from support.store_factories import Clock, accept_one, event, failures_of, opened, settlement
from support.tcp_proxy import proxied

from hookwright_operator.store.notifications import Notifications, payloads
from hookwright_operator.store.postgres import connected
from hookwright_operator.store.records import State
from hookwright_operator.store.store import Store


@pytest.fixture
def url(postgres_url: str) -> str:
    """Use PostgreSQL only."""
    return postgres_url


async def test_others_hear_of_what_nobody_holds(open_store: Open) -> None:
    """A stored event, a release, a retry and a replay notify the other replicas, and not the sender."""
    teller, hearer = await open_store(), await open_store()
    notices: list[str] = []
    own: list[str] = []
    hearer.listen(notices.append)
    teller.listen(own.append)

    async def hears(*uids: str) -> None:
        async def all_heard() -> bool:
            return set(uids) <= set(notices)

        await until(all_heard)
        notices.clear()

    await until(lambda: both_listen(teller))
    await teller.accept([event("orders", "audit"), event("silent", claimed=True)])
    await hears("orders", "audit")
    [claims] = await teller.claim([("orders", 1)])
    await teller.release([claims.id])
    await hears("orders")
    [claims] = await teller.claim([("orders", 1)])
    await teller.settle([settlement(claims, State.FAILED)])
    await teller.retry(claims.id)
    await hears("orders")
    [claims] = await teller.claim([("orders", 1)])
    await teller.settle([settlement(claims, State.FAILED)])
    await teller.chosen_replays.begin("rec_1", failures_of("orders"))
    await teller.chosen_replays.advance("rec_1", limit=10)
    await hears("orders")
    assert own == []


async def both_listen(store: Store) -> bool:
    """Return whether two connections listen."""
    listening = await store.transactions.read(
        "test",
        lambda connection: connection.scalar(
            text(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE query ~ '^(LISTEN|SELECT pg_notify)' AND datname = current_database()"
            )
        ),
    )
    return bool(listening == 2)


async def test_notices_come_again_after_their_connection_was_cut(url: str, open_store: Open, clock: Clock) -> None:
    """The connection is replaced; a missed notice costs the wait for the next query of the store."""
    teller = await open_store()
    notices: list[str] = []
    async with proxied(url) as (proxy, proxy_url):
        hearer = await opened(proxy_url, clock)
        hearer.listen(notices.append)
        await until(lambda: both_listen(teller))
        for writer in proxy.writers:
            writer.transport.abort()

        async def hears() -> bool:
            await accept_one(teller)
            return "orders" in notices

        await until(hears)
        await hearer.close()


async def test_notifications_come_again_after_a_failover_without_a_server_that_writes(
    url: str, open_store: Open
) -> None:
    """While the only server is a standby, asyncpg raises an error that is not one of PostgreSQL's."""
    teller = await open_store()
    notices: list[str] = []
    refusal = [TargetServerAttributeNotMatched("None of the hosts match the target attribute requirement")]

    async def connect() -> "asyncpg.Connection[asyncpg.Record]":
        if refusal:
            raise refusal.pop()
        return await connected(url)

    hearer = Notifications(connect)
    hearer.listen(notices.append)

    async def hears() -> bool:
        await accept_one(teller)
        return "orders" in notices

    await until(hears)
    await hearer.close()


async def test_closing_tells_what_is_left_to_tell(open_store: Open, url: str, clock: Clock) -> None:
    """Deliveries released at the end of a process are claimed by other replicas at once."""
    hearer = await open_store()
    notices: list[str] = []
    hearer.listen(notices.append)
    teller = await opened(url, clock)
    await until(lambda: both_listen(hearer))
    delivery = await accept_one(teller, claimed=True)

    await teller.release([delivery.id])
    await teller.close()

    async def hears() -> bool:
        return notices == ["orders"]

    await until(hears)


def test_uids_are_put_together_up_to_what_a_notice_carries() -> None:
    """No uid is lost or split, and no notice is too long."""
    uids = [f"{n:036}" for n in range(1000)]

    payload_list = list(payloads(uids))

    assert "\n".join(payload_list).split("\n") == uids
    assert len(payload_list) == 5
    assert all(len(payload) < 8000 for payload in payload_list)
    assert list(payloads([])) == []

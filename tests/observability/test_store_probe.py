"""Freshness of the operator's watches, separate from failed requests, and of its store."""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from urllib.parse import quote

import aiohttp
import kopf
import pytest
from aiohttp import web
from prometheus_client import REGISTRY
from support.clock import Seconds
from support.polling import PATIENCE, until

from hookwright_operator.store_probe import StoreProbe
from hookwright_operator.watch.kopf_informer import WatchFreshness
from hookwright_operator.watch.objects import CREDENTIALS, SELECTORS
from hookwright_runtime.errors import StoreUnavailable


@pytest.fixture
async def server() -> AsyncIterator[tuple[str, list[int]]]:
    """Yield an API server that answers every request with the status in the list."""
    status = [200]

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status[0])

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}", status
    await runner.cleanup()


def _age(resource: str) -> float | None:
    return REGISTRY.get_sample_value("hookwright_watch_age_seconds", {"resource": resource})


async def _get(session: aiohttp.ClientSession, url: str) -> None:
    async with session.get(url) as answer:
        await answer.read()


async def test_a_watch_that_is_answered_is_young_again(server: tuple[str, list[int]]) -> None:
    """Only the resource of that watch becomes fresh."""
    url, _ = server
    clock = Seconds()
    freshness = WatchFreshness(["projects", "secrets", CREDENTIALS], clock)
    clock.now += 400
    async with freshness.session(kopf.ConnectionInfo(server=url)).aiohttp_session as session:
        await _get(session, f"{url}/apis/hookwright.dev/v1alpha1/projects?watch=true")
        await _get(session, f"{url}/api/v1/secrets?watch=true&labelSelector={quote(SELECTORS[1])}")
    assert (_age("projects"), _age("secrets"), _age(CREDENTIALS)) == (0, 400, 0)


@pytest.mark.parametrize("path", ["projects", "projects/billing/status?watch=true", "namespaces?watch=true"])
async def test_other_requests_are_no_sign_of_life(server: tuple[str, list[int]], path: str) -> None:
    """Lists, single objects and kinds of other groups do not count."""
    url, _ = server
    clock = Seconds()
    freshness = WatchFreshness(["projects"], clock)
    clock.now += 10
    async with freshness.session(kopf.ConnectionInfo(server=url)).aiohttp_session as session:
        await _get(session, f"{url}/apis/hookwright.dev/v1alpha1/{path}")
    assert _age("projects") == 10


async def test_a_watch_that_is_refused_grows_old(server: tuple[str, list[int]]) -> None:
    """Answers 403, 410 and 500 do not count as a watch."""
    url, status = server
    clock = Seconds()
    freshness = WatchFreshness(["projects"], clock)
    async with freshness.session(kopf.ConnectionInfo(server=url)).aiohttp_session as session:
        for status[0] in (403, 410, 500):
            clock.now += 100
            await _get(session, f"{url}/apis/hookwright.dev/v1alpha1/projects?watch=true")
    assert _age("projects") == 300


async def test_sessions_with_the_same_credentials_are_equal(server: tuple[str, list[int]]) -> None:
    """Otherwise kopf would retry refused credentials forever."""
    url, _ = server
    freshness = WatchFreshness(["projects"], Seconds())
    same, again = (freshness.session(kopf.ConnectionInfo(server=url, token="a")) for _ in range(2))
    second = freshness.session(kopf.ConnectionInfo(server=url, token="b"))
    assert same == again
    assert same != second
    assert "token" not in repr(same).replace("aiohttp", "")
    await asyncio.gather(*(value.aiohttp_session.close() for value in (same, again, second)))


class Store:
    """Store that answers a ping, refuses it, or lets it hang; each takes a second."""

    def __init__(self) -> None:
        self.clock = Seconds()
        self.answers = True
        self.hangs = False
        self.under_way = 0
        self.most = 0
        self.pings = 0

    async def ping(self) -> None:
        """Answer a ping."""
        self.pings += 1
        self.clock.now += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            while self.hangs:
                await asyncio.sleep(0.001)
                self.clock.now += 1
        finally:
            self.under_way -= 1
        if not self.answers:
            raise StoreUnavailable("connection to db.internal failed")


@pytest.fixture
async def pinged() -> AsyncIterator[tuple[Store, StoreProbe]]:
    """Yield a store and its probe, which reports it as unavailable after 10 s."""
    store = Store()
    probe = StoreProbe(store.ping, patience=10, pause=0.002, clock=store.clock)
    running = asyncio.create_task(probe.run())
    yield store, probe
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert store.under_way == 0


async def _pings(store: Store, more: int) -> None:
    until, deadline = store.pings + more, time.monotonic() + PATIENCE
    while store.pings < until:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.001)


async def test_a_store_that_is_away_for_moments_is_not_told(pinged: tuple[Store, StoreProbe]) -> None:
    """A failover removes no pod from its Service, because the intake itself answers 503 meanwhile."""
    store, probe = pinged
    await _pings(store, 2)
    store.answers = False
    await _pings(store, 8)
    assert probe.away() is None
    store.answers = True
    await _pings(store, 2)
    store.answers = False
    await _pings(store, 8)
    assert probe.away() is None


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_store_that_stays_away_is_told_in_a_sentence(pinged: tuple[Store, StoreProbe], *, hangs: bool) -> None:
    """The sentence is the same for refused and hanging pings and has no address; at most one ping is under way."""
    store, probe = pinged
    await _pings(store, 2)
    store.answers, store.hangs = False, hangs
    await until(lambda: probe.away() is not None)
    assert re.fullmatch(r"the store has not answered for \d\d+ s", probe.away() or "")
    assert store.most == 1
    store.answers, store.hangs = True, False
    await until(lambda: probe.away() is None)

"""Signs of life of the operator's watches, told apart from requests that fail."""

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import kopf
import pytest
from aiohttp import web
from prometheus_client import REGISTRY

from hookwright_operator.pulse import Pulse


class Clock:
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Return the seconds."""
        return self.now


@pytest.fixture
async def server() -> AsyncIterator[tuple[str, list[int]]]:
    """An API server that answers every request with the status in the list."""
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
    """And of its resource alone."""
    url, _ = server
    clock = Clock()
    pulse = Pulse(["projects", "secrets"], clock)
    clock.now += 400
    async with pulse.session(kopf.ConnectionInfo(server=url)).aiohttp_session as session:
        await _get(session, f"{url}/apis/hookwright.dev/v1alpha1/projects?watch=true")
    assert _age("projects") == 0
    assert _age("secrets") == 400


@pytest.mark.parametrize("path", ["projects", "projects/billing/status?watch=true", "namespaces?watch=true"])
async def test_other_requests_are_no_sign_of_life(server: tuple[str, list[int]], path: str) -> None:
    """A list, an object's own path, a kind that is none of ours."""
    url, _ = server
    clock = Clock()
    pulse = Pulse(["projects"], clock)
    clock.now += 10
    async with pulse.session(kopf.ConnectionInfo(server=url)).aiohttp_session as session:
        await _get(session, f"{url}/apis/hookwright.dev/v1alpha1/{path}")
    assert _age("projects") == 10


async def test_a_watch_that_is_refused_grows_old(server: tuple[str, list[int]]) -> None:
    """403, 410 and 500 are answers, but no watch."""
    url, status = server
    clock = Clock()
    pulse = Pulse(["projects"], clock)
    async with pulse.session(kopf.ConnectionInfo(server=url)).aiohttp_session as session:
        for status[0] in (403, 410, 500):
            clock.now += 100
            await _get(session, f"{url}/apis/hookwright.dev/v1alpha1/projects?watch=true")
    assert _age("projects") == 300


async def test_sessions_with_the_same_credentials_are_equal(server: tuple[str, list[int]]) -> None:
    """So kopf does not try for ever what was refused once."""
    url, _ = server
    pulse = Pulse(["projects"], Clock())
    same, again = (pulse.session(kopf.ConnectionInfo(server=url, token="a")) for _ in range(2))
    other = pulse.session(kopf.ConnectionInfo(server=url, token="b"))
    assert same == again
    assert same != other
    assert "token" not in repr(same).replace("aiohttp", "")
    await asyncio.gather(*(one.aiohttp_session.close() for one in (same, again, other)))

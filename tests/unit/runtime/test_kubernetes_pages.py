"""Lists and watches of the API server use bounded memory, for any size of the objects."""

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from hookwright_runtime.kubernetes_pages import Page, Pager

OBJECTS = 40
PAGE_BYTES = 20_000
VERSIONS = set[str]()


class Server:
    """An API server with objects of some size; it counts the requests."""

    def __init__(self) -> None:
        self.size = 100
        self.annotations: dict[str, str] = {}
        self.limits: list[int] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a list by pages, or a watch with every object."""
        if "watch" in request.query:
            stream = web.StreamResponse()
            await stream.prepare(request)
            for number in range(OBJECTS):
                event = {"type": "ADDED", "object": self.item(number)}
                await stream.write(json.dumps(event, separators=(",", ":")).encode() + b"\n")
            return stream
        self.limits.append(int(request.query["limit"]))
        first = int(request.query.get("continue") or 0)
        last = min(first + self.limits[-1], OBJECTS)
        following = str(last) if last < OBJECTS else ""
        items = [self.item(number) for number in range(first, last)]
        return web.json_response({"items": items, "metadata": {"continue": following}})

    def item(self, number: int) -> dict[str, Any]:
        """Return a Secret with our label."""
        metadata = {"name": f"s{number}", "namespace": "acme", "uid": f"u{number}", "resourceVersion": str(number)}
        return {
            "metadata": {"annotations": self.annotations, **metadata},
            "data": {"secret": "YQ==", "other": "x" * self.size},
        }


@pytest_asyncio.fixture
async def server() -> Server:
    """Return the server with its objects."""
    return Server()


@pytest_asyncio.fixture
async def session(server: Server) -> AsyncIterator[aiohttp.ClientSession]:
    """Yield a session to the server, as the operator and kopf use it."""
    app = web.Application()
    app.router.add_get("/secrets", server.answer)
    pager = Pager(PAGE_BYTES, known=VERSIONS)
    async with (
        TestServer(app) as running,
        aiohttp.ClientSession(running.make_url("/"), middlewares=[pager], response_class=Page) as client,
    ):
        yield client


async def listed(session: aiohttp.ClientSession) -> list[dict[str, Any]]:
    """List everything as kopf does."""
    items: list[dict[str, Any]] = []
    following = ""
    while True:
        async with session.get("/secrets", params={"limit": "500", "continue": following}) as answer:
            page = await answer.json()
        items += page["items"]
        following = page["metadata"]["continue"]
        if not following:
            return items


async def test_small_objects_come_in_one_page(session: aiohttp.ClientSession, server: Server) -> None:
    """The bound adds no request."""
    assert len(await listed(session)) == OBJECTS
    assert server.limits == [500]


async def test_large_objects_come_in_smaller_pages_each_once_and_trimmed(
    session: aiohttp.ClientSession, server: Server
) -> None:
    """A page that is too large is requested again from the same place; the size that fits is remembered."""
    server.size = 5000
    items = await listed(session)
    assert [item["metadata"]["name"] for item in items] == [f"s{number}" for number in range(OBJECTS)]
    assert all(item["data"] == {"secret": "YQ=="} for item in items)
    assert server.limits[:5] == [500, 125, 31, 7, 1]
    assert max(server.limits[5:]) <= 4
    server.limits.clear()
    await listed(session)
    assert max(server.limits) <= 4


async def test_an_object_that_exceeds_a_page_is_read_alone(session: aiohttp.ClientSession, server: Server) -> None:
    """The list ends, and is complete."""
    server.size = 3 * PAGE_BYTES
    assert len(await listed(session)) == OBJECTS
    assert server.limits[-1] == 1


async def test_small_pages_grow_again(session: aiohttp.ClientSession, server: Server) -> None:
    """The page size rises again after the large objects are deleted."""
    server.size = 3 * PAGE_BYTES
    await listed(session)
    server.size = 10
    await listed(session)
    server.limits.clear()
    await listed(session)
    assert len(server.limits) < 5


async def test_large_events_of_a_watch_are_trimmed_on_arrival(session: aiohttp.ClientSession, server: Server) -> None:
    """Each line is one complete event, in order; small ones stay unchanged."""
    for size, value in ((100, {"secret", "other"}), (100_000, {"secret"})):
        server.size = size
        async with session.get("/secrets", params={"watch": "true"}) as answer:
            lines = [line async for line in answer.content.iter_chunked(1 << 20)]
        events = [json.loads(line) for line in lines]
        assert [event["object"]["metadata"]["name"] for event in events] == [f"s{number}" for number in range(OBJECTS)]
        assert all(event["object"]["data"].keys() == value for event in events)


async def test_an_event_of_a_known_version_is_a_bookmark(session: aiohttp.ClientSession) -> None:
    """The watch continues after it, and a version is known only once."""
    VERSIONS.update({"7", "1000"})
    async with session.get("/secrets", params={"watch": "true"}) as answer:
        events = [json.loads(line) async for line in answer.content.iter_chunked(1000)]
    assert [event["type"] for event in events] == [*["ADDED"] * 7, "BOOKMARK", *["ADDED"] * (OBJECTS - 8)]
    assert events[7]["object"] == {"metadata": {"resourceVersion": "7"}}
    assert VERSIONS.pop() == "1000"


async def test_an_annotation_named_like_the_version_hides_no_event(
    server: Server, session: aiohttp.ClientSession
) -> None:
    """Kubernetes writes the annotations first."""
    server.annotations = {"resourceVersion": "1000"}
    VERSIONS.add("1000")
    async with session.get("/secrets", params={"watch": "true"}) as answer:
        types = {json.loads(line)["type"] async for line in answer.content.iter_chunked(1000)}
    assert (types, VERSIONS.pop()) == ({"ADDED"}, "1000")

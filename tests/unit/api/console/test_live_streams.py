"""The bounds and the end of streams to browsers."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import cast

import pytest

from hookwright_api.console.live_streams import LiveStreams
from hookwright_runtime.problems import ProblemError

Stream = AsyncGenerator[str]


def begun(streams: LiveStreams, user: str, *shown: str | None, organization: str = "acme") -> Stream:
    """Begin a stream that shows these, and the last one for ever."""
    left = list(shown)

    async def look() -> str | None:
        return left.pop(0) if len(left) > 1 else left[0]

    return cast("Stream", streams.begin(user, look, organization=organization))


async def test_a_change_is_a_message_and_the_lines_are_escaped() -> None:
    """No text of a tenant can begin another field of the stream."""
    streams = LiveStreams(seconds=0.001)
    async with aclosing(begun(streams, "ada", "one\nevent: ended\r\rdata: two", "one", "one", None)) as stream:
        said = [message async for message in stream if message != ": \n\n"]
    assert said == [
        "retry: 5000\n\n",
        "event: rows\ndata: one\ndata: event: ended\ndata: \ndata: data: two\n\n",
        "event: rows\ndata: one\n\n",
        "event: ended\ndata: \n\n",
    ]
    assert len(streams) == 0


async def test_one_more_stream_of_a_user_ends_the_oldest() -> None:
    """The newest tab is the one in use; other users keep theirs."""
    streams = LiveStreams(per_user=2, seconds=0.001)
    mine = [begun(streams, "ada", "rows") for _ in range(3)]
    other = begun(streams, "bob", "rows")
    for stream in (*mine, other):
        assert await anext(stream) == "retry: 5000\n\n"
    assert len(streams) == 3
    assert [message async for message in mine[0]][-1] == "event: ended\ndata: \n\n"
    for stream in (*mine[1:], other):
        assert "rows" in await anext(stream)
        await stream.aclose()
    assert len(streams) == 0


async def test_the_process_has_a_bound_and_a_closed_stream_frees_its_place() -> None:
    """A refused page keeps its present state."""
    streams = LiveStreams(per_process=1, seconds=0.001)
    first = begun(streams, "ada", "rows")
    await anext(first)
    with pytest.raises(ProblemError) as refusal:
        begun(streams, "bob", "rows")
    assert refusal.value.status == 429
    await first.aclose()
    second = begun(streams, "bob", "rows")
    await anext(second)
    await second.aclose()


async def test_an_organization_with_many_users_leaves_places_for_others() -> None:
    """Its bound holds for all its users together, and a closed stream frees its place."""
    streams = LiveStreams(per_organization=2, seconds=0.001)
    mine = [begun(streams, user, "rows") for user in ("ada", "bob")]
    for stream in mine:
        await anext(stream)
    with pytest.raises(ProblemError) as refusal:
        begun(streams, "cleo", "rows")
    assert refusal.value.status == 429
    other = begun(streams, "eve", "rows", organization="rival")
    await anext(other)
    await mine.pop(0).aclose()
    mine.append(begun(streams, "cleo", "rows"))
    await anext(mine[-1])
    for stream in (other, *mine):
        await stream.aclose()


async def test_a_stream_that_was_never_read_occupies_no_place() -> None:
    """A client that disconnects at once costs nothing."""
    streams = LiveStreams(per_process=1)
    unread: AsyncIterator[str] = begun(streams, "ada", "rows")
    assert len(streams) == 0
    del unread


async def test_closing_ends_all_streams_without_a_message_so_that_browsers_connect_to_another_replica() -> None:
    """The process need not wait for them when it stops."""
    streams = LiveStreams(seconds=60)
    stream = begun(streams, "ada", "rows")
    assert [await anext(stream) for _ in range(2)][-1] == "event: rows\ndata: rows\n\n"
    streams.close()
    assert [message async for message in stream] == []
    with pytest.raises(ProblemError):
        begun(streams, "ada", "rows")

"""Request bodies are read within a time limit, and incomplete ones count against their holder's memory."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hookwright_runtime.bounds import Bound
from hookwright_runtime.problems import ProblemError
from hookwright_runtime.request_body import Bodies, ClientGoneError, parsing_weight

Receive = Callable[[], Awaitable[dict[str, Any]]]


def sends(*pieces: bytes, seconds: float = 0.0, ends: bool = True) -> Receive:
    """Return a client that sends these pieces, each after some seconds; it then ends the body, or sends nothing."""
    remainder = list(pieces)

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(seconds if remainder else 60)
        piece = remainder.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(remainder) or not ends}

    return receive


async def read(bodies: Bodies, receive: Receive, limit: int = 100) -> bytes:
    """Read a body of the holder ``acme``."""
    return await bodies.read(receive, {}, "acme", limit=limit)


async def test_a_body_in_one_piece_or_in_several_is_returned() -> None:
    """The pieces may arrive one after the other."""
    bodies = Bodies(30, Bound("of bodies", 100, 100))
    assert await read(bodies, sends(b"whole")) == b"whole"
    assert await read(bodies, sends(b"in ", b"three ", b"pieces", seconds=0.01)) == b"in three pieces"
    assert await read(bodies, sends(b"", ends=True)) == b""


async def test_a_slow_body_is_a_408_and_its_memory_is_released() -> None:
    """The task goes on without a pending cancellation, and may read another body."""
    bodies = Bodies(0.05, Bound("of bodies", 100, 10))
    for _ in range(2):
        with pytest.raises(ProblemError) as error:
            await read(bodies, sends(b"123456789", ends=False))
        assert (error.value.status, error.value.headers["Connection"]) == (408, "close")
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()
    assert await read(bodies, sends(b"next")) == b"next"


async def test_a_cancellation_from_outside_is_no_408() -> None:
    """The task that reads ends as cancelled."""
    reading = asyncio.create_task(read(Bodies(30, Bound("of bodies", 100, 10)), sends(b"1", ends=False)))
    await asyncio.sleep(0.01)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


async def test_bodies_beyond_a_bound_are_refused() -> None:
    """One body has a limit, a holder has one for its incomplete bodies, and a client may be gone."""
    bodies = Bodies(30, Bound("of bodies", 100, 10))
    for pieces in [(b"12345",), (b"123", b"45")]:
        with pytest.raises(ProblemError) as error:
            await read(bodies, sends(*pieces), limit=4)
        assert error.value.status == 413
    slow = asyncio.create_task(read(bodies, sends(b"1234567", ends=False)))
    await asyncio.sleep(0.01)
    with pytest.raises(ProblemError) as error:
        await read(bodies, sends(b"1234", b"5"))
    assert error.value.status == 429
    slow.cancel()

    async def gone() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    with pytest.raises(ClientGoneError):
        await read(bodies, gone)


@pytest.mark.parametrize(("kibibytes", "weight"), [(0, 1), (1, 1), (256, 1), (257, 2), (1024, 4)])
def test_a_large_body_counts_as_several_of_those_that_wait(kibibytes: int, weight: int) -> None:
    """So the memory of all that wait has a bound."""
    assert parsing_weight(bytes(kibibytes * 1024)) == weight

"""Answers with messages, which count as requests in progress until they are read; and works that clients wait for."""

import asyncio

import pytest
from starlette.types import Message

from hookwright_runtime import held_answers
from hookwright_runtime.bounds import POLLS
from hookwright_runtime.held_answers import HeldAnswer, until_gone
from hookwright_runtime.places import Places
from hookwright_runtime.problems import ProblemError
from hookwright_runtime.request_body import ClientGoneError

BODY = b"x" * 200_000


async def held_answer(polls: Places) -> HeldAnswer:
    """Return an answer whose request is in progress."""
    with await polls.acquire("acme") as place:
        return HeldAnswer(BODY, place.pop_all(), **{"Cache-Control": "no-store"})


async def _receive() -> Message:
    return {"type": "http.disconnect"}


async def test_the_place_is_free_after_the_last_byte() -> None:
    """While the client reads, the request is in progress; the chunks are the body."""
    polls, pieces = Places(POLLS), []
    answer = await held_answer(polls)

    async def send(message: Message) -> None:
        assert polls.count == 1
        pieces.append(message)

    await answer({"type": "http"}, _receive, send)
    assert polls.count == 0
    assert pieces[0]["status"] == 200
    assert {(b"content-length", b"200000"), (b"cache-control", b"no-store")} <= set(pieces[0]["headers"])
    assert b"".join(message["body"] for message in pieces[1:]) == BODY
    assert "more_body" not in pieces[-1]


@pytest.mark.parametrize("blocked", ["every chunk", "the end"])
async def test_a_client_that_does_not_read_loses_its_place(monkeypatch: pytest.MonkeyPatch, blocked: str) -> None:
    """After the time limit the connection ends, and another request may begin."""
    monkeypatch.setattr(held_answers, "_SEND_SECONDS", 0.01)
    polls = Places(POLLS)

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body" and (blocked == "every chunk" or not message.get("more_body")):
            await asyncio.Event().wait()

    with pytest.raises(ClientGoneError):
        await (await held_answer(polls))({"type": "http"}, _receive, send)
    assert polls.count == 0


async def test_an_answer_that_is_never_sent_holds_no_place() -> None:
    """An error between the work and the answer frees the place too."""
    polls = Places(POLLS)
    answer = await held_answer(polls)
    assert polls.count == 1
    del answer
    assert polls.count == 0


async def never() -> Message:
    """Return when the client disconnects, which it does not."""
    await asyncio.Event().wait()
    raise AssertionError


async def test_the_result_comes_unless_the_client_or_the_process_ends() -> None:
    """A client that leaves cancels the work."""
    cancellation = asyncio.Event()

    async def work() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancellation.set()
            raise
        return "result"

    async def leaves() -> Message:
        return {"type": "http.disconnect"}

    assert await until_gone(asyncio.sleep(0, "done"), never, asyncio.Event()) == "done"
    assert await until_gone(work(), leaves, asyncio.Event()) is None
    assert cancellation.is_set()
    ending = asyncio.Event()
    ending.set()
    assert await until_gone(work(), never, ending) is None


async def test_an_error_of_the_work_reaches_the_caller() -> None:
    """A refusal of the operator is the answer."""

    async def refuses() -> None:
        raise ProblemError(409, "no")

    with pytest.raises(ProblemError, match="no"):
        await until_gone(refuses(), never, asyncio.Event())

"""Answers with messages, which count as requests in progress until they are read."""

import asyncio
from contextlib import ExitStack

import pytest
from starlette.types import Message

from hookwright_runtime import held_answers
from hookwright_runtime.held_answers import HeldAnswer
from hookwright_runtime.long_polls import LongPolls
from hookwright_runtime.request_body import ClientGoneError

BODY = b"x" * 200_000


def held_answer(polls: LongPolls) -> HeldAnswer:
    """Return an answer whose request is in progress."""
    with ExitStack() as held:
        held.enter_context(polls.one("acme"))
        return HeldAnswer(BODY, held.pop_all(), **{"Cache-Control": "no-store"})


async def _receive() -> Message:
    return {"type": "http.disconnect"}


async def test_the_place_is_free_after_the_last_byte() -> None:
    """While the client reads, the request is in progress; the chunks are the body."""
    polls, sent = LongPolls(), []
    answer = held_answer(polls)

    async def send(message: Message) -> None:
        assert polls.number == 1
        sent.append(message)

    await answer({"type": "http"}, _receive, send)
    assert polls.number == 0
    assert sent[0]["status"] == 200
    assert {(b"content-length", b"200000"), (b"cache-control", b"no-store")} <= set(sent[0]["headers"])
    assert b"".join(message["body"] for message in sent[1:]) == BODY
    assert "more_body" not in sent[-1]


@pytest.mark.parametrize("blocked", ["every chunk", "the end"])
async def test_a_client_that_does_not_read_loses_its_place(monkeypatch: pytest.MonkeyPatch, blocked: str) -> None:
    """After the time limit the connection ends, and another request may begin."""
    monkeypatch.setattr(held_answers, "_SEND_SECONDS", 0.01)
    polls = LongPolls()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body" and (blocked == "every chunk" or not message.get("more_body")):
            await asyncio.Event().wait()

    with pytest.raises(ClientGoneError):
        await held_answer(polls)({"type": "http"}, _receive, send)
    assert polls.number == 0


def test_an_answer_that_is_never_sent_holds_no_place() -> None:
    """An error between the work and the answer frees the place too."""
    polls = LongPolls()
    answer = held_answer(polls)
    assert polls.number == 1
    del answer
    assert polls.number == 0

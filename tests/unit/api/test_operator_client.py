"""The client of the operator over real sockets: a 503 says that nothing was done only if this is known."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from support.polling import until
from support.receivers import Behaviour, answers, hangs, resets, serve

from hookwright_api import operator_client
from hookwright_api.operator_client import OperatorClient
from hookwright_runtime.bounds import OPERATOR_REQUESTS
from hookwright_runtime.places import FullError
from hookwright_runtime.problems import STORE_FAILED, ProblemError, unavailable

Operation = Callable[[OperatorClient], Awaitable[object]]

WRITES: dict[str, Operation] = {
    "events": lambda operator: operator.forward(
        "POST", "acme", "projects", "billing", "events", subject="x", content=b"{}"
    ),
    "a test": lambda operator: operator.test("acme", "orders", b""),
    "a retry": lambda operator: operator.forward("POST", "acme", "deliveries", "dlv_1", "retry", subject="x"),
    "the end of a replay": lambda operator: operator.forward(
        "DELETE", "acme", "webhookendpoints", "orders", "replays", "rpl_1", subject="x"
    ),
    "a lease of messages": lambda operator: operator.take_messages("acme", "orders", {}),
}
READS: dict[str, Operation] = {
    "a secret": lambda operator: operator.secret("acme", "orders"),
    "the log": lambda operator: operator.forward("GET", "acme", "deliveries", subject="x"),
}
UNKNOWN = "it is not known whether the request was done. Events can be sent again with the same ids"
NOTHING = "is unavailable; nothing was done"


def answering(status: int, body: bytes = b"") -> Behaviour:
    """Return a behaviour that answers one request."""
    return answers(b"HTTP/1.1 %d x\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (status, len(body), body))


BEFORE_A_WRITE: dict[str, Behaviour] = {
    "the operator refuses the token": answering(401),
    "the operator refuses the permission": answering(403),
    "the body was not complete in time": answering(408),
    "the operator has no slot": answering(503, unavailable("64 requests with events are in progress").body()),
}
PERHAPS_AFTER_IT: dict[str, Behaviour] = {
    "no answer": hangs,
    "closed after the request": answers(b""),
    "reset after the request": resets,
    "the store failed": answering(503, unavailable(STORE_FAILED).body()),
    "a fault of the operator": answering(500, ProblemError(500, "unexpected error").body()),
    "a 503 of a proxy": answering(503, b"<html>"),
    "a 504 of a proxy": answering(504),
}


@pytest.fixture
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of a token, and shorten the waits for answers."""
    for name in ("_TIMEOUT", "_TEST_TIMEOUT", "_POLL_TIMEOUT"):
        monkeypatch.setattr(operator_client, name, httpx.Timeout(0.3, connect=2.0))
    path = tmp_path / "token"
    path.write_text("token")
    return path


@asynccontextmanager
async def connected(url: str, token: Path) -> AsyncIterator[OperatorClient]:
    """Yield a client, and close it."""
    client = OperatorClient(url, token)
    try:
        yield client
    finally:
        await client.close()


async def refusal(operator: OperatorClient, operation: Operation) -> str:
    """Return the detail of the 503 that the caller of `/v1` gets."""
    with pytest.raises(ProblemError) as error:
        await operation(operator)
    assert error.value.status == 503
    return error.value.detail


@pytest.mark.parametrize("behaviour", PERHAPS_AFTER_IT.values(), ids=PERHAPS_AFTER_IT)
async def test_a_write_that_may_have_been_done_has_an_unknown_outcome(behaviour: Behaviour, token: Path) -> None:
    """The answer says so, and how to repeat the request; a request that only reads has done nothing."""
    async with serve(behaviour) as server, connected(server.url.removesuffix("/hooks"), token) as operator:
        for name, operation in WRITES.items():
            assert UNKNOWN in await refusal(operator, operation), name
        for name, operation in READS.items():
            assert NOTHING in await refusal(operator, operation), name


@pytest.mark.parametrize("behaviour", BEFORE_A_WRITE.values(), ids=BEFORE_A_WRITE)
async def test_a_request_that_the_operator_refused_did_nothing(behaviour: Behaviour, token: Path) -> None:
    """The operator refuses these before it writes anything."""
    async with serve(behaviour) as server, connected(server.url.removesuffix("/hooks"), token) as operator:
        for name, operation in (WRITES | READS).items():
            assert NOTHING in await refusal(operator, operation), name


async def test_a_request_that_was_not_sent_did_nothing(token: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator is stopped, all connections are in use, or the token cannot be read."""
    async with serve(hangs) as server:
        stopped_one = server.url.removesuffix("/hooks")
    async with connected(stopped_one, token) as operator:
        for name, operation in (WRITES | READS).items():
            assert NOTHING in await refusal(operator, operation), name

    monkeypatch.setattr(operator_client, "OPERATOR_REQUESTS", OPERATOR_REQUESTS._replace(total=1))
    monkeypatch.setattr(operator_client, "_TIMEOUT", httpx.Timeout(0.3, read=1.0))
    async with serve(hangs) as server, connected(server.url.removesuffix("/hooks"), token) as operator:
        first = asyncio.create_task(refusal(operator, WRITES["events"]))
        await until(lambda: server.connections == 1)
        # The wait for a signing secret repeats such requests.
        with pytest.raises(FullError):
            await READS["a secret"](operator)
        full = "1 requests to the operator are in progress; nothing was done"
        assert full in await refusal(operator, WRITES["events"])
        assert UNKNOWN in await first

    async with connected(stopped_one, token.with_name("absent")) as operator:
        assert NOTHING in await refusal(operator, WRITES["events"])


async def test_polls_that_wait_take_no_connection_of_other_requests(
    token: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tenants decide how many polls wait, and each new connection costs the requests of all tenants."""
    monkeypatch.setattr(operator_client, "_POLL_TIMEOUT", httpx.Timeout(30.0))

    async def answers_all_but_polls(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not (await reader.readuntil(b"\r\n\r\n")).split()[1].endswith(b"/messages"):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        await asyncio.Event().wait()

    number = OPERATOR_REQUESTS.total + 1
    async with (
        serve(answers_all_but_polls) as server,
        connected(server.url.removesuffix("/hooks"), token) as operator,
    ):
        polls = [asyncio.create_task(operator.take_messages("acme", f"w{index}", {})) for index in range(number)]
        await until(lambda: server.connections == number)
        for _ in range(3):
            await READS["the log"](operator)
        assert server.connections == number + 1
        for poll in polls:
            poll.cancel()
        await asyncio.gather(*polls, return_exceptions=True)


async def test_a_test_whose_answer_is_no_json_has_an_unknown_outcome(token: Path) -> None:
    """The event was probably sent; a secret without JSON was only read."""
    async with (
        serve(answering(200, b"<html>")) as server,
        connected(server.url.removesuffix("/hooks"), token) as operator,
    ):
        assert UNKNOWN in await refusal(operator, WRITES["a test"])
        assert NOTHING in await refusal(operator, READS["a secret"])

"""Deliveries with an access token of a real OAuth2 server, and every fault of a token server."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from urllib.parse import parse_qs

import pytest
from aiohttp import web
from integration.delivery.conftest import Start
from structlog.testing import capture_logs
from support import receivers
from support.attempts import delivery_of, endpoint, guarded, send
from support.dispatcher import subscriber
from support.oauth2_server import CLIENT_SECRET, TokenServer, client_of
from support.polling import until
from support.receivers import AnswersMuch, answers, serve

from hookwright_dev.receiver import Receiver
from hookwright_operator.delivery.http.guard import Guard
from hookwright_operator.delivery.http.sender import Sender
from hookwright_operator.intake.parsing import parse_test
from hookwright_operator.registry import Endpoint
from hookwright_operator.services.endpoint_test import EndpointTester


@pytest.fixture
async def token_receiver() -> AsyncIterator[Receiver]:
    """Yield a second receiver, which serves tokens."""
    async with Receiver() as receiver:
        yield receiver


@pytest.fixture
def endpoint_of(receiver: Receiver, token_receiver: Receiver) -> Callable[[TokenServer], Endpoint]:
    """Return a function that lets both receivers use a token server, and returns the endpoint."""

    def with_tokens_of(server: TokenServer) -> Endpoint:
        token_receiver.answer, receiver.answer = server.answer, server.guard
        return replace(endpoint(receiver.url), oauth2=client_of(token_receiver.url + "tenant-a/token"))

    return with_tokens_of


EndpointOf = Callable[[TokenServer], Endpoint]


async def test_a_token_of_five_seconds_is_requested_once_and_renewed_before_it_ends(
    sender: Sender, receiver: Receiver, token_receiver: Receiver, endpoint_of: EndpointOf
) -> None:
    """Attempts that begin together wait for one request. No receiver ever sees a token that has ended."""
    snapshot = endpoint_of(server := TokenServer(lifetime=5))
    outcomes = await asyncio.gather(*(send(sender, snapshot) for _ in range(8)))
    assert len(server.ends) == 1
    (request,) = token_receiver.received
    assert request.target == "/tenant-a/token"
    assert parse_qs(request.body.decode()) == {
        "grant_type": ["client_credentials"],
        "scope": ["events more"],
        "audience": ["https://api.example.com"],
    }

    async def renewed() -> bool:
        outcomes.append(await send(sender, snapshot))
        return len(server.ends) == 2

    await until(renewed)
    assert {outcome.error for outcome in outcomes} == {""}
    assert len(receiver.received) == len(outcomes)


async def test_a_refused_token_is_renewed_and_the_request_repeated_in_one_attempt(
    sender: Sender, receiver: Receiver, endpoint_of: EndpointOf
) -> None:
    """Of attempts that are refused together, one asks for a token. The signed bytes of the repeat are the same."""
    snapshot = endpoint_of(server := TokenServer())
    await send(sender, snapshot)
    server.ends.clear()
    outcomes = await asyncio.gather(*(send(sender, snapshot, now=lambda: 1.7e9) for _ in range(4)))
    assert {outcome.error for outcome in outcomes} == {""}
    assert len(server.ends) == 1
    assert len(receiver.received) == 1 + 2 * 4
    first, *_, last = receiver.received[1:]
    assert (first.body, first.id) == (last.body, last.id)
    assert first.headers["webhook-signature"] == last.headers["webhook-signature"]


async def test_a_receiver_that_refuses_every_token_is_charged_and_its_log_has_no_token(
    sender: Sender, receiver: Receiver, endpoint_of: EndpointOf
) -> None:
    """One attempt has one renewal. The record has neither token, also if the answer repeats them."""
    snapshot = endpoint_of(server := TokenServer())
    receiver.answer = lambda request: web.Response(
        status=403,
        text=f"not {[*server.ends]} nor {CLIENT_SECRET}",
        headers={"X-Echo": request.headers["Authorization"]},
    )
    outcome = await send(sender, snapshot)
    assert (outcome.error, outcome.own_fault, len(receiver.received)) == ("HTTP 403 Forbidden", "", 2)
    assert outcome.response == "not ['(hidden)', '(hidden)'] nor (hidden)"
    assert "X-Echo: Bearer (hidden)" in (outcome.response_headers or "")
    (request,) = sender.requests_of(snapshot, delivery_of(), [outcome.attempt(1)])
    assert request is not None
    assert request.headers["Authorization"] == "(hidden)"


async def test_a_refusal_counts_although_the_token_server_gives_no_other_token(
    sender: Sender, receiver: Receiver, token_receiver: Receiver, endpoint_of: EndpointOf
) -> None:
    """A request that was sent is an attempt; otherwise a delivery would be sent for ever without a trace."""
    snapshot = endpoint_of(TokenServer())
    await send(sender, snapshot)
    receiver.answer = token_receiver.answer = lambda _: 401
    outcome = await send(sender, snapshot)
    assert (outcome.status_code, outcome.error, outcome.own_fault) == (401, "HTTP 401 Unauthorized", "")
    assert len(receiver.received) == 2


async def test_a_new_secret_gets_a_new_token_and_a_server_may_take_it_in_the_body(
    sender: Sender, token_receiver: Receiver, endpoint_of: EndpointOf
) -> None:
    """Nothing of an earlier secret stays. The form that the token server takes is found once."""
    url, snapshot = token_receiver.url, endpoint_of(TokenServer(secret_in_body=True))
    assert (await send(sender, snapshot)).delivered
    assert [b"client_secret" in request.body for request in token_receiver.received] == [False, True]
    new_snapshot = replace(endpoint_of(TokenServer(secret="another")), oauth2=client_of(url, secret="another"))
    assert (await send(sender, new_snapshot)).delivered
    assert len(token_receiver.received) == 3


async def test_a_token_whose_renewal_fails_is_used_until_it_ends(
    sender: Sender, token_receiver: Receiver, endpoint_of: EndpointOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token server may be away for a minute, and no delivery waits."""
    snapshot = endpoint_of(TokenServer())
    loop, seconds = asyncio.get_running_loop(), [0.0]
    monkeypatch.setattr(sender._tokens, "_time", lambda: loop.time() + seconds[-1])
    await send(sender, snapshot)
    token_receiver.answer = lambda _: 503
    requests = {}
    for moment in (3539, 3541, 3541.1, 3599, 3600.5):
        seconds.append(moment)
        outcome = await send(sender, snapshot)
        requests[moment] = (outcome.own_fault, len(token_receiver.received))
    assert requests == {3539: ("", 1), 3541: ("", 2), 3541.1: ("", 2), 3599: ("", 3), 3600.5: ("token_server", 3)}


FAULTS: dict[str, tuple[receivers.Behaviour, str]] = {
    "it fails": (answers(b"HTTP/1.1 500 No\r\nContent-Length: 8\r\n\r\ns3cret s"), "HTTP 500 Internal Server Error"),
    "it hangs": (receivers.hangs, "timed out after 1 s while waiting for the answer"),
    "it answers slowly": (receivers.drips, "timed out after 1 s while reading the answer"),
    "it redirects": (
        answers(b"HTTP/1.1 302 No\r\nLocation: http://127.0.0.1/\r\n\r\n"),
        "redirect not followed (HTTP 302)",
    ),
    "it has another form": (answers(receivers.coded("identity", b'{"token": "x"}')), "its answer has no bearer token"),
    "its token breaks a line": (
        answers(receivers.coded("identity", b'{"access_token": "a\\r\\nX-Evil: 1"}')),
        "its answer has no bearer token",
    ),
    "its token is of another type": (
        answers(receivers.coded("identity", b'{"access_token": "a", "token_type": "mac"}')),
        "its answer has no bearer token",
    ),
    "it answers 100 MB": (AnswersMuch(100 * 1024 * 1024), "its answer has no bearer token"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_of_the_token_server_is_shown_and_not_charged(
    sender: Sender, receiver: Receiver, fault: str
) -> None:
    """The receiver gets nothing. The words have the token server's host, and are known for a second without asking."""
    behaviour, words = FAULTS[fault]
    async with serve(behaviour) as server:
        snapshot = replace(endpoint(receiver.url, timeout=1), oauth2=client_of(server.url))
        outcomes = await asyncio.gather(*(send(sender, snapshot) for _ in range(4)))
        outcomes.append(await send(sender, snapshot))
        assert server.connections == 1
    assert {(outcome.own_fault, outcome.error) for outcome in outcomes} == {
        ("token_server", f"token server 127.0.0.1: {words}")
    }
    assert not any(outcome.timed_out or outcome.status_code for outcome in outcomes)
    assert receiver.received == []
    if isinstance(behaviour, AnswersMuch):
        assert behaviour.sent < 16 * 1024 * 1024


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://10.0.0.1/token", "address refused: 10.0.0.1 is a private address"),
        ("http://169.254.169.254/token", "address refused: 169.254.169.254 is a"),
        ("http://idp.example.com/token", "address refused: 10.1.2.3 is a private address"),
        ("http://denied.example.com/token", "address refused: denied.example.com is denied"),
        ("http://127.0.0.1:1/token", "connection refused"),
    ],
)
async def test_the_token_server_is_guarded_as_every_receiver(receiver: Receiver, url: str, words: str) -> None:
    """Neither a private address nor a name of one gets the secret."""
    guard = Guard(["127.0.0.0/8"], denied_hosts=["denied.example.com"])
    async with guarded(guard, lookup=lambda *_: ["10.1.2.3"]) as sender:
        outcome = await send(sender, replace(endpoint(receiver.url), oauth2=client_of(url)))
    host = url.split("/")[2].partition(":")[0]
    assert outcome.error.startswith(f"token server {host}: {words}")
    assert (outcome.own_fault, receiver.received) == ("token_server", [])


async def test_deliveries_wait_for_a_token_server_and_use_up_no_attempt(
    start: Start, receiver: Receiver, token_receiver: Receiver
) -> None:
    """Its fault is reported with the endpoint; after it, the first attempt delivers. A test shows the fault itself."""
    server, engine = TokenServer(), await start()
    token_receiver.answer, receiver.answer = lambda _: 500, server.guard
    oauth2 = client_of(token_receiver.url)
    snapshot = replace(subscriber("orders", receiver.url), oauth2=oauth2)
    error = "token server 127.0.0.1: HTTP 500 Internal Server Error"
    with capture_logs() as logs:
        engine.registry.put(snapshot)
        await engine.post_many(3)
        await until(lambda: len(engine.watcher.hindrances) >= 2)
        tester = EndpointTester(engine.sender, engine.store, time.time)
        outcome, record = await tester.test(snapshot, parse_test(b"", "test_1"))
        assert (outcome.own_fault, outcome.error, record is not None) == ("", error, True)
        token_receiver.answer = server.answer
        await engine.ended("orders", 3)
    assert set(engine.watcher.hindrances) == {("orders", error)}
    assert [settlement.attempt.number for settlement in engine.watcher.settled] == [1, 1, 1]
    assert any(line["event"] == "attempt postponed, no access token" and line["error"] == error for line in logs)
    text = str(logs) + str(await engine.log("orders")) + repr(snapshot)
    assert not any(secret in text for secret in (CLIENT_SECRET, *server.ends))

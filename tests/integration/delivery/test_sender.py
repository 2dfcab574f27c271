"""The request that a receiver gets, and the outcome of its response."""

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from aiohttp import web
from cloudevents.core.bindings import http
from standardwebhooks import Webhook
from support.attempts import BODY, MESSAGE, OLDER, SECRET, delivery_of, endpoint, loopback, send
from support.receivers import answers, serve

from hookwright_dev.receiver import Received, Receiver, verdict
from hookwright_operator.delivery.http import sender as sender_module
from hookwright_operator.delivery.http.guard import Guard
from hookwright_operator.delivery.http.sender import Sender
from hookwright_operator.registry import Endpoint, SecretValue


async def test_an_attempt_is_a_signed_post_of_exactly_the_bytes(sender: Sender, receiver: Receiver) -> None:
    """Method, path and query, body, content type, agent and both signatures are as specified."""
    outcome = await send(sender, endpoint(receiver.url + "hooks/a%2fb?sig=x%2By%7E&n=1"))
    assert outcome.delivered
    assert (outcome.status_code, outcome.error, outcome.retry_after_ms) == (200, "", None)
    (request,) = receiver.received
    assert (request.method, request.target) == ("POST", "/hooks/a%2fb?sig=x%2By%7E&n=1")
    assert request.body == BODY
    assert request.headers["Content-Type"] == "application/json"
    assert request.headers["User-Agent"] == "Hookwright/test"
    assert request.headers["webhook-id"] == MESSAGE
    assert verdict(request.headers, request.body, [SECRET]) == ""
    Webhook(SECRET).verify(request.body, dict(request.headers))


async def test_the_signed_time_is_that_of_the_attempt(sender: Sender, receiver: Receiver) -> None:
    """Each attempt is signed with the clock's time of its start, and the outcome has the same time."""
    outcome = await send(sender, endpoint(receiver.url), now=lambda: 1_700_000_000.789)
    assert receiver.received[0].headers["webhook-timestamp"] == "1700000000"
    assert outcome.started_ms == 1_700_000_000_789
    assert 1 <= outcome.duration_ms < 20_000


async def test_both_secrets_sign_during_an_overlap_and_a_changed_endpoint_counts_at_once(
    sender: Sender, receiver: Receiver
) -> None:
    """No prepared data of an endpoint outlives a change of its secrets, headers or url."""
    overlap = replace(endpoint(receiver.url), secrets=(SECRET, OLDER))
    after = replace(overlap, secrets=(OLDER,), headers=(("X-Team", "b"),), url=receiver.url + "new")
    await send(sender, overlap)
    await send(sender, after)
    first, second = receiver.received
    assert verdict(first.headers, first.body, [OLDER]) == ""
    Webhook(SECRET).verify(first.body, dict(first.headers))
    assert verdict(second.headers, second.body, [SECRET]) != ""
    assert verdict(second.headers, second.body, [OLDER]) == ""
    assert (second.target, second.headers["X-Team"]) == ("/new", "b")


async def test_the_snapshots_of_an_endpoint_use_the_memory_of_one(
    sender: Sender, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An endpoint that changes a thousand times, has large headers, or is one of very many fills no memory."""
    for number in range(5):
        await send(sender, endpoint(receiver.url, headers=(("X-Number", str(number)),)))
    assert len(sender._targets) == 1
    large = endpoint(receiver.url, headers=(("X-Large", "x" * 16_384),))
    await send(sender, large)
    assert sender._targets == {}
    monkeypatch.setattr(sender_module, "_TARGETS", 3)
    for number in range(5):
        await send(sender, replace(endpoint(receiver.url), uid=f"uid-{number}"))
    await send(sender, large)
    assert [*sender._targets] == ["uid-2", "uid-3", "uid-4"]
    assert [request.headers.get("X-Number") for request in receiver.received[:5]] == ["0", "1", "2", "3", "4"]


async def test_a_snapshot_is_prepared_once(sender: Sender, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Further attempts of the same snapshot use what the first one prepared."""
    preparations: list[Endpoint] = []
    prepare = Sender._prepare

    def counted(sender: Sender, endpoint: Endpoint) -> object:
        preparations.append(endpoint)
        return prepare(sender, endpoint)

    monkeypatch.setattr(Sender, "_prepare", counted)
    snapshot = endpoint(receiver.url)
    for _ in range(3):
        await send(sender, snapshot)
    assert preparations == [snapshot]


async def test_static_headers_are_sent_and_cannot_replace_ours(sender: Sender, receiver: Receiver) -> None:
    """An endpoint's own headers are sent; they do not replace Hookwright's headers."""
    headers = (("Authorization", "Bearer abc"), ("content-TYPE", "text/plain"), ("WebHook-Id", "forged"))
    await send(sender, endpoint(receiver.url, headers=headers))
    (request,) = receiver.received
    assert request.headers["Authorization"] == "Bearer abc"
    assert request.headers.getall("Content-Type") == ["application/json"]
    assert request.headers.getall("webhook-id") == [MESSAGE]


async def test_the_value_of_a_secret_header_goes_to_the_receiver_alone(sender: Sender, receiver: Receiver) -> None:
    """A new value is sent at once. The record of an attempt has no value, no digest of it, and no answer with it."""
    receiver.answer = lambda request: web.Response(
        status=401, text=f"no {request.headers['Authorization']}", headers={"X-Echo": request.headers["Authorization"]}
    )
    plain = endpoint(receiver.url, headers=(("X-Team", "a"),))
    snapshots = [
        replace(plain, secret_headers=(SecretValue("Authorization", "Bearer ", text),)) for text in ["a1", "b2"]
    ]
    outcomes = [await send(sender, snapshot, now=lambda: 1_700_000_000.0) for snapshot in snapshots]
    assert [request.headers["Authorization"] for request in receiver.received] == ["Bearer a1", "Bearer b2"]
    assert outcomes[0].request == outcomes[1].request
    for outcome in outcomes:
        assert outcome.response == "no Bearer (hidden)"
        assert "X-Echo: Bearer (hidden)" in (outcome.response_headers or "")
        (shown,) = sender.requests_of(snapshots[1], delivery_of(), [outcome.attempt(1)])
        assert shown is not None
        assert {shown.headers[name] for name in ("Authorization", "X-Team")} == {"(hidden)"}


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_any_2xx_delivers(sender: Sender, receiver: Receiver, status: int) -> None:
    """A 2xx status delivers and has no error."""
    receiver.answer = lambda _: status
    outcome = await send(sender, endpoint(receiver.url))
    assert (outcome.delivered, outcome.status_code, outcome.error) == (True, status, "")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (300, "HTTP 300 Multiple Choices"),
        (304, "HTTP 304 Not Modified"),
        (400, "HTTP 400 Bad Request"),
        (404, "HTTP 404 Not Found"),
        (410, "HTTP 410 Gone"),
        (429, "HTTP 429 Too Many Requests"),
        (500, "HTTP 500 Internal Server Error"),
        (599, "HTTP 599"),
        (799, "HTTP 799"),
    ],
)
async def test_anything_but_2xx_fails_with_its_status_in_words(sender: Sender, status: int, words: str) -> None:
    """The error has the standard reason phrase and not the receiver's."""
    answer = b"HTTP/1.1 %d Perfectly Fine\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % status
    async with serve(answers(answer)) as server:
        outcome = await send(sender, endpoint(server.url))
    assert (outcome.delivered, outcome.status_code, outcome.error) == (False, status, words)


async def test_an_early_hint_is_not_the_answer(sender: Sender) -> None:
    """1xx responses are ignored (RFC 9110 15.2); the final one decides."""
    hint = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    final = b"HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    async with serve(answers(hint + final)) as server:
        assert (await send(sender, endpoint(server.url))).status_code == 500


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_never_followed(sender: Sender, receiver: Receiver, status: int) -> None:
    """A redirect fails with its status, and its target gets no request."""
    async with Receiver() as elsewhere:
        receiver.answer = lambda _: web.Response(status=status, headers={"Location": elsewhere.url + "?token=abc"})
        outcome = await send(sender, endpoint(receiver.url))
        assert elsewhere.received == []
    assert outcome.error == f"redirect not followed (HTTP {status})"
    assert not outcome.delivered
    assert len(receiver.received) == 1


async def test_the_beginning_of_the_answer_is_kept(sender: Sender, receiver: Receiver) -> None:
    """The delivery log shows the receiver's response body up to the limit."""
    receiver.answer = lambda _: web.Response(status=422, text="no such customer " + "x" * 10_000)
    outcome = await send(sender, endpoint(receiver.url))
    assert outcome.response.startswith("no such customer xxx")
    assert len(outcome.response) == 4096


@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_in_seconds_is_told(sender: Sender, receiver: Receiver, status: int) -> None:
    """A receiver that is overloaded can ask for a delay."""
    receiver.answer = lambda _: web.Response(status=status, headers={"Retry-After": "90"})
    assert (await send(sender, endpoint(receiver.url))).retry_after_ms == 90_000


async def test_retry_after_of_other_answers_is_ignored(sender: Sender, receiver: Receiver) -> None:
    """Only 429 and 503 lengthen a delay."""
    receiver.answer = lambda _: web.Response(status=500, headers={"Retry-After": "90"})
    assert (await send(sender, endpoint(receiver.url))).retry_after_ms is None


async def test_a_hundred_attempts_share_one_connection(sender: Sender) -> None:
    """A hundred attempts, one after the other, use one TCP connection."""

    async def keeps_alive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"Content-Length: %d\r\n" % len(BODY) in head
            await reader.readexactly(len(BODY))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async with serve(keeps_alive) as server:
        to = endpoint(server.url)
        for _ in range(100):
            assert (await send(sender, to)).response == "ok"
        assert server.connections == 1


async def test_no_cookie_comes_back(receiver: Receiver) -> None:
    """Attempts share no state that a receiver could set."""
    receiver.answer = lambda _: web.Response(headers={"Set-Cookie": "session=abc; Path=/"})
    # By name, because cookie jars ignore what literal addresses set.
    to = endpoint(f"http://hooks.example.com:{receiver.port}/")
    async with loopback(lookup=lambda _host, _port: ["127.0.0.1"]) as sender:
        assert (await send(sender, to)).delivered
        assert (await send(sender, to)).delivered
    assert "Cookie" not in receiver.received[1].headers


async def test_proxies_from_the_environment_are_ignored(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy would connect to addresses that the guard has not checked, so none is used."""
    async with Receiver() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        async with loopback() as sender:
            assert (await send(sender, endpoint(receiver.url))).delivered
        assert proxy.received == []
    assert len(receiver.received) == 1


async def test_sixty_four_attempts_run_at_once(sender: Sender, receiver: Receiver) -> None:
    """The sender has no bound; the delivery loops decide how many attempts run."""
    together = asyncio.Barrier(64)

    async def meet(_: Received) -> int:
        await together.wait()
        return 200

    receiver.answer = meet
    to = endpoint(receiver.url)
    outcomes = await asyncio.gather(*(send(sender, to) for _ in range(64)))
    assert all(outcome.delivered for outcome in outcomes)


async def test_plain_http_is_refused_where_it_is_not_allowed(receiver: Receiver) -> None:
    """Unless the installation allows it, nothing is sent unencrypted, whatever the resource says."""
    async with Sender(Guard(["127.0.0.0/8"]), user_agent="Hookwright/test", allow_http=False) as strict:
        outcome = await send(strict, endpoint(receiver.url))
    assert (outcome.status_code, outcome.error) == (0, "http URL refused: only https is allowed")
    assert receiver.received == []


async def test_a_cloudevent_reaches_its_receiver_with_every_attribute(sender: Sender, receiver: Receiver) -> None:
    """Python's SDK reads the attributes of the producer from the headers; body and signature are those of JSON."""
    attributes = {
        "id": "e-1",
        "source": "/größe?a=b",
        "type": "delivered",
        "time": "2026-01-31T12:00:00.5+01:00",
        "subject": '50% "off" \U0001f600',
        "partitionkey": "a b",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    }
    cloud = replace(endpoint(receiver.url), format="cloudevents")
    outcome = await send(sender, cloud, delivery_of(attributes=json.dumps(attributes)))
    assert outcome.delivered
    (request,) = receiver.received
    assert verdict(request.headers, request.body, [SECRET]) == ""
    assert request.headers["Content-Type"] == "application/json"
    read = http.from_binary_event(http.HTTPMessage(dict(request.headers), request.body))
    assert read.get_data() == {"type": "delivered", "messageId": "m-1"}
    moment = datetime(2026, 1, 31, 11, 0, 0, 500_000, tzinfo=UTC)
    matches = read.get_attributes()
    assert {name: matches[name] for name in attributes} == {**attributes, "time": moment}
    assert "specversion" in matches


async def test_a_plain_event_is_a_cloudevent_of_its_project(sender: Sender, receiver: Receiver) -> None:
    """The id is webhook-id, and the time is that of the acceptance."""
    await send(sender, replace(endpoint(receiver.url), format="cloudevents"))
    [records] = [
        {name: text for name, text in request.headers.items() if name.startswith("ce-")}
        for request in receiver.received
    ]
    assert records == {
        "ce-specversion": "1.0",
        "ce-id": MESSAGE,
        "ce-source": "/namespaces/acme/projects/billing",
        "ce-type": "dev.hookwright.delivered",
        "ce-time": "2026-01-01T00:00:00.123Z",
    }


async def test_an_endpoint_without_the_format_gets_no_attributes(sender: Sender, receiver: Receiver) -> None:
    """The format is json unless the endpoint has another one; then its own ce- headers are sent."""
    plain = endpoint(receiver.url, headers=(("ce-source", "/mine"),))
    delivery = delivery_of(attributes='{"id":"e-1","source":"/theirs","type":"delivered"}')
    for variant in (plain, replace(plain, format="cloudevents")):
        await send(sender, variant, delivery)
    assert [variant.headers.getall("ce-source") for variant in receiver.received] == [["/mine"], ["/theirs"]]
    assert [variant.headers.get("ce-id") for variant in receiver.received] == [None, "e-1"]

"""Messages of endpoints with pull, through the intake: take, acknowledge, refuse, and the bounds of a namespace."""

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.api_processes import problem_of
from support.attempts import OLDER, SECRET
from support.intake import Intake, Tokens
from support.polling import until

from hookwright_crds.timestamps import timestamp
from hookwright_operator.intake.routes import messages as routes
from hookwright_operator.registry import Endpoint
from hookwright_operator.services.events import IncomingEvent
from hookwright_operator.store.records import State
from hookwright_operator.store.sql import pull, read
from hookwright_runtime.bounds import POLLS

PATH = "/webhookendpoints/inbox/messages"
NONE: dict[str, Any] = {"data": []}


@pytest.fixture
def inbox(intake: Intake) -> Endpoint:
    """Register an endpoint with pull, which subscribes to ``bounced``."""
    endpoint = replace(
        intake.orders, uid="uid-inbox", name="inbox", url="", suspend=False, events=frozenset({"bounced"}),
        pull_lease=30.0, headers=(("X-Team", "billing"),),
    )  # fmt: skip
    intake.registry.put(endpoint)
    return endpoint


async def send(intake: Intake, *bodies: bytes) -> None:
    """Accept events for the endpoint."""
    events = [IncomingEvent(None, "bounced", "m-1", body) for body in bodies]
    await intake.engine.events.accept(intake.orders.namespace, "billing", events)


async def taken(intake: Intake, **query: str | int) -> list[dict[str, Any]]:
    """Take messages."""
    answer = await intake.client.get(PATH, params=query)
    assert answer.status_code == 200, answer.text
    messages: list[dict[str, Any]] = answer.json()["data"]
    return messages


async def settled(intake: Intake, verb: str, **body: object) -> list[dict[str, Any]]:
    """Acknowledge or refuse messages, and return the results."""
    answer = await intake.client.post(f"{PATH}/{verb}", json=body)
    assert answer.status_code == 200, answer.text
    results: list[dict[str, Any]] = answer.json()["data"]
    return results


@contextmanager
def busy(intake: Intake, namespace: str, number: int) -> Iterator[None]:
    """Count requests for messages of a namespace that wait."""
    intake.polls.take(namespace, number)
    try:
        yield
    finally:
        intake.polls.release(namespace, number)


@pytest.mark.usefixtures("inbox")
async def test_a_consumer_gets_the_signed_exact_bytes_and_acknowledges_them(intake: Intake) -> None:
    """A message has what a receiver would get: the headers, and the body byte for byte."""
    texts = [b'{"type":"bounced", "n": 1.50, "big": 12345678901234567890, "s": "\\u00e9\xc3\xa9"}', b"\xff\x00not text"]
    await send(intake, *texts)
    first, second = await taken(intake, limit=5, lease="1m")
    assert (first["body_encoding"], second["body_encoding"]) == ("utf-8", "base64")
    assert [first["body"].encode(), base64.b64decode(second["body"])] == texts
    for message, body in ((first, texts[0]), (second, texts[1])):
        headers = message["headers"]
        assert headers["X-Team"] == "billing"
        assert headers["Content-Type"] == "application/json"
        assert headers["webhook-timestamp"] == str(intake.clock() // 1000)
        assert headers["X-Service-Signature"] == hmac.new(OLDER.encode(), body, hashlib.sha256).hexdigest()
        prefix = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        key = base64.b64decode(SECRET.removeprefix("whsec_"))
        signature = base64.b64encode(hmac.new(key, prefix, hashlib.sha256).digest()).decode()
        assert f"v1,{signature}" in headers["webhook-signature"].split(" ")
    assert first["attempt"] == 1
    assert first["lease_until"] == "2026-01-01T00:01:00.000Z"
    results = await settled(intake, "ack", ids=[first["id"], second["id"]])
    assert [(result["id"], result["result"], result["status"]) for result in results] == [
        (first["id"], "acked", "delivered"),
        (second["id"], "acked", "delivered"),
    ]
    assert (await intake.engine.counts("uid-inbox")).delivered == 2
    document = (await intake.client.get(f"/deliveries/{first['delivery_id']}")).json()
    assert (document["status"], document["request"]["url"], document["attempts"][0]["statusCode"]) == (
        "delivered",
        None,
        200,
    )


@pytest.mark.usefixtures("inbox")
async def test_the_audit_log_says_who_acknowledged_and_refused_which_messages(intake: Intake, tokens: Tokens) -> None:
    """A line has the consumer and the ids that the request settled; a repetition names no other consumer for them."""
    await send(intake, b"1", b"2", b"3")
    first, two, three = await taken(intake, limit=3)
    with capture_logs() as logs:
        await settled(intake, "ack", ids=[first["id"], "nonsense"])
        await settled(intake, "nack", ids=[first["id"], two["id"]])
        await settled(intake, "ack", ids=["nonsense"])
        await settled(intake, "ack", ids=[first["id"], three["id"]])
    lines = [line for line in logs if line["event"] == "audit"]
    assert [(line["action"], line["target"], line["deliveries"]) for line in lines] == [
        ("message.ack", "inbox", [first["delivery_id"]]),
        ("message.nack", "inbox", [two["delivery_id"]]),
        ("message.ack", "inbox", [three["delivery_id"]]),
        ("message.ack_repeated", "inbox", [first["delivery_id"]]),
    ]
    assert {line["actor"] for line in lines} == {f"system:serviceaccount:{tokens.namespace}:sender"}


@pytest.mark.usefixtures("inbox")
async def test_the_results_name_unknown_ended_and_repeated_ids(intake: Intake) -> None:
    """A consumer learns for each id whether its work counts."""
    await send(intake, b"1", b"2", b"3")
    first_id, two, three = [message["id"] for message in await taken(intake, lease="1s")]
    assert [item["result"] for item in await settled(intake, "ack", ids=[first_id, "nonsense", first_id])] == [
        "acked", "unknown", "acked",
    ]  # fmt: skip
    [refusal] = await settled(intake, "nack", ids=[two], delay="10s", reason="queue full")
    assert refusal == {
        "id": two, "result": "nacked", "repeated": False, "status": "pending",
        "next_attempt_at": "2026-01-01T00:00:10.000Z",
    }  # fmt: skip
    assert (await settled(intake, "ack", ids=[two]))[0]["result"] == "lease_ended"
    intake.clock.advance(1000)
    assert await intake.services.messages.end_leases() == 1
    assert [item["result"] for verb in ("ack", "nack") for item in await settled(intake, verb, ids=[three])] == [
        "lease_ended", "lease_ended",
    ]  # fmt: skip
    record = await intake.engine.store.read_log(read.delivery, two.partition(".")[0])
    assert record is not None
    assert (record.state, record.attempts[0].error) == (State.PENDING, "queue full")


@pytest.mark.usefixtures("inbox")
async def test_a_waiting_consumer_gets_an_event_at_once(intake: Intake) -> None:
    """Without a query of the store in a loop: the acceptance wakes the consumer."""
    waiting = asyncio.ensure_future(taken(intake, wait="30s"))
    await polls(intake, 1)
    await send(intake, b"now")
    [message] = await waiting
    assert message["body"] == "now"


@pytest.mark.usefixtures("inbox")
async def test_a_wait_ends_empty_and_a_process_that_stops_ends_it(intake: Intake) -> None:
    """A consumer that waits does not delay the end of the process."""
    assert await taken(intake, wait="0s") == []
    waiting = asyncio.ensure_future(taken(intake, wait="30s"))
    await polls(intake, 1)
    intake.ending.set()
    assert await waiting == []


@pytest.mark.usefixtures("inbox")
async def test_a_consumer_that_leaves_frees_its_place_and_loses_nothing(intake: Intake) -> None:
    """The next consumer gets the event as its first attempt."""
    waiting = asyncio.ensure_future(taken(intake, wait="30s"))
    await polls(intake, 1)
    waiting.cancel()
    await polls(intake, 0)
    await send(intake, b"later")
    [message] = await taken(intake)
    assert (message["body"], message["attempt"]) == ("later", 1)


@pytest.mark.parametrize("ends", [False, True], ids=["the client leaves", "the process stops"])
@pytest.mark.usefixtures("inbox")
async def test_messages_that_are_not_sent_are_given_back(
    intake: Intake, monkeypatch: pytest.MonkeyPatch, *, ends: bool
) -> None:
    """The request ends while its messages are signed: the next consumer gets them at once, as the first attempt."""
    signing, document = asyncio.Event(), routes._document

    async def paused(*_: object) -> bytes:
        signing.set()
        await asyncio.Event().wait()
        return b""

    monkeypatch.setattr(routes, "_document", paused)
    await send(intake, b"1", b"2")
    request = asyncio.ensure_future(taken(intake))
    await signing.wait()
    if ends:
        intake.ending.set()
        assert await request == []
        intake.ending.clear()
    else:
        request.cancel()
    await polls(intake, 0)
    monkeypatch.setattr(routes, "_document", document)
    assert [(message["body"], message["attempt"]) for message in await taken(intake)] == [("1", 1), ("2", 1)]


async def polls(intake: Intake, number: int) -> None:
    """Wait until so many requests for messages are in progress."""
    await until(lambda: asyncio.sleep(0, intake.polls.count == number))


async def test_a_suspended_endpoint_gives_nothing_until_it_is_resumed(intake: Intake, inbox: Endpoint) -> None:
    """A consumer may wait meanwhile; leases from before can be settled."""
    await send(intake, b"1", b"2")
    [before] = await taken(intake, limit=1)
    intake.registry.put(replace(inbox, suspend=True))
    assert await taken(intake) == []
    assert (await settled(intake, "ack", ids=[before["id"]]))[0]["result"] == "acked"
    waiting = asyncio.ensure_future(taken(intake, wait="30s"))
    await polls(intake, 1)
    intake.registry.put(inbox)
    assert [message["body"] for message in await waiting] == ["2"]


@pytest.mark.usefixtures("inbox")
async def test_a_wrong_query_or_body_names_the_field(intake: Intake) -> None:
    """Nothing is taken, and the forms are those of /v1."""
    await send(intake, b"1")
    for query, field in (
        ("limit=0", "limit"), ("limit=1001", "limit"), ("limit=x", "limit"), ("wait=31s", "wait"), ("wait=5", "wait"),
        ("lease=1ms", "lease"), ("lease=0s", "lease"), ("lease=2h", "lease"),
    ):  # fmt: skip
        assert problem_of(await intake.client.get(f"{PATH}?{query}"), 422)["errors"][0]["field"] == field, query
    bodies: list[tuple[str, dict[str, Any], str]] = [
        ("ack", {"ids": []}, "ids"), ("ack", {}, "ids"), ("ack", {"ids": ["x"] * 1001}, "ids"),
        ("ack", {"ids": [1]}, "ids[0]"), ("ack", {"ids": ["x"], "delay": "1s"}, "delay"),
        ("nack", {"ids": ["x"], "delay": "25h"}, "delay"), ("nack", {"ids": ["x"], "reason": ""}, "reason"),
        ("nack", {"ids": ["x"], "reason": "a\nb"}, "reason"),
    ]  # fmt: skip
    for verb, body, field in bodies:
        answer = await intake.client.post(f"{PATH}/{verb}", json=body)
        assert problem_of(answer, 422)["errors"][0]["field"] == field, body
    assert len(await taken(intake)) == 1


async def test_an_endpoint_with_a_url_has_no_messages_to_take(intake: Intake) -> None:
    """The refusal names the missing field."""
    path = "/webhookendpoints/orders/messages"
    assert "only a webhook with pull" in problem_of(await intake.client.get(path), 409)["detail"]
    assert (await intake.client.head(PATH)).status_code == 405


async def test_a_test_of_an_endpoint_without_url_is_refused(intake: Intake, inbox: Endpoint) -> None:
    """A test posts to a URL."""
    answer = await intake.client.post(f"/webhookendpoints/{inbox.name}/test")
    assert "has no url" in problem_of(answer, 409)["detail"]


@pytest.mark.usefixtures("inbox")
async def test_a_stranger_is_told_the_missing_permission(intake: Intake, tokens: Tokens) -> None:
    """Every route needs `create webhookendpoints/pull`."""
    stranger = {"Authorization": f"Bearer {tokens.stranger}"}
    for method, path in (("GET", ""), ("POST", "/ack"), ("POST", "/nack")):
        refusal = problem_of(await intake.client.request(method, f"{PATH}{path}", headers=stranger), 403)
        assert "may not create webhookendpoints/pull" in refusal["detail"]


@pytest.mark.usefixtures("inbox")
async def test_a_namespace_that_waits_with_a_thousand_requests_leaves_places_for_others(intake: Intake) -> None:
    """Beyond its bound it gets 429 at once, and other namespaces take their messages."""
    await send(intake, b"1")
    with busy(intake, "hostile", POLLS.each):
        assert len(await taken(intake)) == 1
    with busy(intake, intake.orders.namespace, POLLS.each):
        answers = await asyncio.gather(*(intake.client.get(PATH, params={"wait": "30s"}) for _ in range(40)))
        assert {answer.status_code for answer in answers} == {429}
        assert {answer.headers["retry-after"] for answer in answers} == {"1"}
    assert await taken(intake) == []


async def test_messages_of_another_endpoint_cannot_be_settled(intake: Intake, inbox: Endpoint) -> None:
    """A tenant that knows a foreign id changes nothing with it."""
    intake.registry.put(replace(inbox, uid="uid-other", name="other"))
    await send(intake, b"1")
    [message] = await taken(intake)
    foreign = await intake.client.post("/webhookendpoints/other/messages/ack", json={"ids": [message["id"]]})
    assert foreign.json()["data"][0]["result"] == "unknown"
    assert (await settled(intake, "ack", ids=[message["id"]]))[0]["result"] == "acked"


@pytest.mark.usefixtures("inbox")
async def test_acknowledged_leases_do_not_delay_the_end_of_others(
    intake: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loop pauses only if no lease has ended, and not after leases without a message."""
    monkeypatch.setattr(pull, "ENDED_TAKES", pull.ENDED_TAKES.limit(2))
    await send(intake, *(b"%d" % number for number in range(5)))
    for _ in range(4):
        [message] = await taken(intake, lease="1s", limit=1)
        assert (await settled(intake, "ack", ids=[message["id"]]))[0]["result"] == "acked"
    assert len(await taken(intake, lease="1s", limit=1)) == 1
    intake.clock.advance(1000)
    assert [await intake.services.messages.end_leases() for _ in range(4)] == [2, 2, 1, 0]


@pytest.mark.usefixtures("inbox")
async def test_the_statistics_count_the_messages(intake: Intake) -> None:
    """Each message waits, is leased to a consumer, or is due later."""
    since = intake.clock()

    async def counts() -> tuple[int, str | None, int, int]:
        document = (await intake.client.get("/webhookendpoints/inbox/statistics")).json()["messages"]
        return document["waiting"], document["oldest_waiting_since"], document["leased"], document["delayed"]

    assert await counts() == (0, None, 0, 0)
    await send(intake, *[b"{}"] * 4)
    intake.clock.advance(5_000)
    assert await counts() == (4, timestamp(since), 0, 0)
    first, *_ = await taken(intake, limit=3)
    await settled(intake, "nack", ids=[first["id"]], delay="1h")
    assert await counts() == (1, timestamp(since), 2, 1)


async def test_an_answer_has_room_for_few_messages_with_large_headers(intake: Intake, inbox: Endpoint) -> None:
    """Each message repeats the headers of its endpoint, so their bytes in one answer have a bound; none is lost."""
    large = tuple((f"X-{number}", '"' * 4096) for number in range(32))
    intake.registry.put(replace(inbox, headers=large))
    await send(intake, *[b'{"n":%d}' % number for number in range(6)])
    first = await taken(intake, limit=6)
    assert len(first) == 3
    assert first[0]["headers"]["X-31"] == '"' * 4096
    assert len(await taken(intake, limit=6)) == 3

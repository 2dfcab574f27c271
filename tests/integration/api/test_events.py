"""Events from outside the cluster, and refused requests."""

import json
from collections.abc import Mapping

import httpx
import pytest
from support.api_processes import Organization, problem_of
from support.api_receiver import Received
from support.polling import eventually

EVENT = {"type": "delivered", "messageId": "m"}


def test_up_to_a_thousand_events_are_accepted_at_once(
    acme: Organization, client: httpx.Client, receiver: Received
) -> None:
    """All 1,000 events arrive; a request of 1,001 is refused as a whole."""
    key = acme.service_key()
    acme.webhook(key, f"{receiver.url}/e")
    events = [{**EVENT, "messageId": f"m{number}"} for number in range(1000)]
    accepted = client.post("/v1/events", json=events, headers=key)
    assert (accepted.status_code, accepted.json()["accepted"]) == (202, 1000)
    problem_of(client.post("/v1/events", json=[*events, EVENT], headers=key), 422)
    eventually(lambda: len(receiver.requests) == 1000, "all arrive", within=30)


def test_what_is_delivered_is_what_was_sent(acme: Organization, client: httpx.Client, receiver: Received) -> None:
    """Numbers keep their text through both processes."""
    key = acme.service_key()
    acme.webhook(key, f"{receiver.url}/e")
    body = b'{"type":"delivered","messageId":"m","price":1.10,"big":12345678901234567890123}'
    headers = {**key, "Content-Type": "application/json", "Idempotency-Key": "once"}
    assert client.post("/v1/events", content=body, headers=headers).json()["accepted"] == 1
    again = client.post("/v1/events", content=body, headers=headers)
    assert again.json() == {"accepted": 0, "duplicates": 1, "deliveries": 0}
    eventually(lambda: len(receiver.requests) == 1, "delivered")
    assert b'"price":1.10,"big":12345678901234567890123' in receiver.requests[0][2]


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        pytest.param(b"{", {}, 400, id="malformed JSON"),
        pytest.param(b"", {}, 400, id="nothing"),
        pytest.param(b'{"type":"nonsense","messageId":"m"}', {}, 422, id="unknown type"),
        pytest.param(b'{"type":"delivered"}', {}, 422, id="no messageId"),
        pytest.param(b"[]", {}, 422, id="no event"),
        pytest.param(b"{}", {"Content-Type": "text/plain"}, 415, id="another type"),
        pytest.param(b"{}", {"Content-Encoding": "gzip"}, 415, id="compressed"),
        pytest.param(b" " * (1024 * 1024 + 1), {}, 413, id="too large"),
        pytest.param(json.dumps({**EVENT, "x": "y" * 300_000}).encode(), {}, 413, id="one event too large"),
        pytest.param(json.dumps(EVENT).encode(), {"Idempotency-Key": "k" * 256}, 422, id="key too long"),
    ],
)
def test_what_is_wrong_is_said_as_a_problem_document(
    acme: Organization, client: httpx.Client, content: bytes, headers: Mapping[str, str], status: int
) -> None:
    """The API and the operator refuse in the same form; after a 413 the client can connect again."""
    sent = {**acme.service_key(), "Content-Type": "application/json", **headers}
    problem = problem_of(client.post("/v1/events", content=content, headers=sent), status)
    if status == 422:
        assert problem["errors"]

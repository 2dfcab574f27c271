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
    answer = client.post("/v1/events", json=events, headers=key)
    assert (answer.status_code, answer.json()["accepted"]) == (202, 1000)
    problem_of(client.post("/v1/events", json=[*events, EVENT], headers=key), 422)
    eventually(lambda: len(receiver.requests) == 1000, "all arrive", within=30)


def test_what_is_delivered_is_what_was_sent(acme: Organization, client: httpx.Client, receiver: Received) -> None:
    """Numbers keep their text through both processes, also with an added event id."""
    key = acme.service_key()
    acme.webhook(key, f"{receiver.url}/e")
    numbers = b'"n":[1.0,1e2,12345678901234567890,0.1000,-0,1E-7]'
    body = b'{"type":"delivered","messageId":"m",%s}' % numbers
    headers = {**key, "Content-Type": "application/json", "Idempotency-Key": "once"}
    first = client.post("/v1/events", content=body, headers=headers).json()
    again = client.post("/v1/events", content=body, headers=headers).json()
    ids = first["event_ids"]
    assert (first["accepted"], len(ids)) == (1, 1)
    assert again == {"accepted": 0, "duplicates": 1, "deliveries": 0, "event_ids": ids}
    eventually(lambda: len(receiver.requests) == 1, "delivered")
    without_key = {**key, "Content-Type": "application/json"}
    assert client.post("/v1/events", content=b"[%s]" % body, headers=without_key).json()["accepted"] == 1
    eventually(lambda: len(receiver.requests) == 2, "delivered without an id of the producer")
    assert all(numbers in request[2] for request in receiver.requests)


@pytest.mark.parametrize(
    ("body", "cause"),
    [(b'{"a":[{"b":1,"\\u0062":2}]}', "repeated in one object"), (b"\xef\xbb\xbf{}", "byte order mark")],
)
def test_every_route_reads_json_strictly(tenant: Organization, client: httpx.Client, body: bytes, cause: str) -> None:
    """Intake and API refuse with the same words what two readers of JSON may understand differently."""
    key, session = tenant.service_key(), tenant.session()
    for path, credential in (
        ("/v1/events", key),
        ("/v1/webhooks", key),
        ("/v1/projects/billing/keys", session),
        ("/v1/auth/login", {}),
    ):
        headers = {**credential, "Content-Type": "application/json"}
        assert cause in problem_of(client.post(path, content=body, headers=headers), 400)["detail"]


def test_an_id_with_other_content_is_a_409(acme: Organization, client: httpx.Client) -> None:
    """The API passes on the operator's refusal with the place of the event; the correct repetition is a duplicate."""
    key, event = acme.service_key(), {**EVENT, "id": "evt-1"}
    assert client.post("/v1/events", json=event, headers=key).json()["accepted"] == 1
    problem = problem_of(client.post("/v1/events", json=[EVENT, {**event, "n": 1}], headers=key), 409)
    assert [fault["field"] for fault in problem["errors"]] == ["[1].id"]
    assert "with other content" in problem["detail"]
    assert problem["code"] == "event_id_reused"
    assert client.post("/v1/events", json=event, headers=key).json()["duplicates"] == 1


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        pytest.param(b"{", {}, 400, id="malformed JSON"),
        pytest.param(b'{"type":"nonsense","messageId":"m"}', {}, 422, id="unknown type"),
        pytest.param(b"{}", {"Content-Type": "text/plain"}, 415, id="another type"),
        pytest.param(b"{}", {"Content-Encoding": "gzip"}, 415, id="compressed"),
        pytest.param(b" " * (1024 * 1024 + 1), {}, 413, id="too large"),
        pytest.param(json.dumps({**EVENT, "x": "y" * 300_000}).encode(), {}, 413, id="one event too large"),
        pytest.param(json.dumps(EVENT).encode(), {"Idempotency-Key": "k" * 256}, 422, id="key too long"),
    ],
)
def test_what_is_wrong_is_said_as_a_problem_document(
    tenant: Organization, client: httpx.Client, content: bytes, headers: Mapping[str, str], status: int
) -> None:
    """The API and the operator refuse in the same form; after a 413 the client can connect again."""
    request = {**tenant.service_key(), "Content-Type": "application/json", **headers}
    problem = problem_of(client.post("/v1/events", content=content, headers=request), status)
    if status == 422:
        assert problem["errors"]

"""The routes of one endpoint: test, secret, delivery log, retry."""

from dataclasses import replace
from typing import Any

import pytest
from support.api_processes import problem_of
from support.attacks import no_descriptors
from support.attempts import SECRET
from support.intake import ORDERS, Intake, Tokens
from support.receivers import answers, serve

from hookwright_dev.receiver import Receiver
from hookwright_operator.registry import Endpoint
from hookwright_operator.store.records import Attempt, NewDelivery, NewEvent, Settlement, State

LOG = "/webhookendpoints/orders/deliveries"
BODY = b'{"type":"delivered","messageId":"m-42","to":"ada@example.com"}'


def id_of(number: int) -> str:
    """Return the id of a delivery of the tests."""
    return f"dlv_{number:026}"


SINCE = {"since": "2025-12-31T23:00:00Z"}
ENDPOINT = "/webhookendpoints/{endpoint}"
ROUTES = [
    ("POST", f"{ENDPOINT}/test"),
    ("GET", f"{ENDPOINT}/secret"),
    ("GET", f"{ENDPOINT}/deliveries"),
    ("GET", f"{ENDPOINT}/deliveries/{id_of(1)}"),
    ("POST", f"{ENDPOINT}/replays"),
    ("GET", f"{ENDPOINT}/replays"),
    ("GET", f"{ENDPOINT}/replays/rec_1"),
    ("DELETE", f"{ENDPOINT}/replays/rec_1"),
    ("GET", f"{ENDPOINT}/messages"),
    ("POST", f"{ENDPOINT}/messages/ack"),
    ("POST", f"{ENDPOINT}/messages/nack"),
    ("GET", f"{ENDPOINT}/statistics"),
    ("GET", "/projects/{project}/statistics"),
    ("GET", f"/deliveries/{id_of(1)}"),
    ("GET", "/deliveries"),
    ("POST", "/search/deliveries"),
    ("GET", f"/events/msg_{1:026}"),
    ("POST", f"/deliveries/{id_of(1)}/retry"),
]


async def deliver(intake: Intake, number: int, state: State = State.FAILED, *, endpoint: str = ORDERS) -> str:
    """Write a delivery into the store, with one attempt unless it was discarded, and return its id."""
    store, now = intake.engine.store, intake.clock()
    delivery = NewDelivery(id_of(number), endpoint, claimed=True)
    event = NewEvent(f"msg_{number:026}", "acme", "billing", None, "delivered", BODY, (delivery,))
    await store.accept([event])
    if state is State.DISCARDED:
        await store.discard(endpoint, "endpoint deleted")
        return delivery.id
    status, error = (200, "") if state is State.DELIVERED else (500, "answered 500")
    attempt = Attempt(0, now + 877, 12, status, error, "no")
    await store.settle([Settlement(delivery.id, endpoint, attempt, state, now + 30_000)])
    return delivery.id


def neighbour(intake: Intake, namespace: str, name: str) -> Endpoint:
    """Add another endpoint."""
    endpoint = replace(intake.orders, uid=f"uid-{namespace}-{name}", namespace=namespace, name=name, secrets=())
    intake.registry.put(endpoint)
    return endpoint


async def test_every_route_asks_who_calls_and_whether_it_may(intake: Intake, tokens: Tokens) -> None:
    """The answer is 401 without a token, 403 without the permission, 404 for an unknown object; nothing is done."""
    delivery = await deliver(intake, 1)
    async with Receiver() as receiver:
        intake.registry.put(replace(intake.orders, url=receiver.url))
        for method, path in ROUTES:
            for authorization, status in (("", 401), (f"Bearer {tokens.stranger}", 403)):
                answer = await intake.client.request(
                    method, path.format(endpoint="orders", project="billing"), json=SINCE,
                    headers={"Authorization": authorization},
                )  # fmt: skip
                problem_of(answer, status)
            if "{" in path:
                unknown = await intake.client.request(
                    method, path.format(endpoint="ghost", project="ghost"), json=SINCE
                )
                assert problem_of(unknown, 404), path
        assert receiver.received == []
    assert await intake.state(delivery) is State.FAILED
    assert await intake.engine.store.running_replays() == []


async def test_credentials_need_the_right_and_a_replica_that_writes_secrets(intake: Intake, tokens: Tokens) -> None:
    """A caller without the right gets 403, and a replica that only delivers names the other way."""
    path = "/webhookendpoints/orders/credentials"
    for authorization, status in (("", 401), (f"Bearer {tokens.stranger}", 403), (f"Bearer {tokens.sender}", 409)):
        answer = await intake.client.put(path, json={"uid": "u"}, headers={"Authorization": authorization})
        detail = problem_of(answer, status)["detail"]
    assert "set the credential in YAML" in detail


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("200 OK\r\nContent-Length: 0\r\n\r\n", {"success": True, "statusCode": 200}),
        (
            "500 Broken\r\nContent-Length: 0\r\n\r\n",
            {"success": False, "statusCode": 500, "error": "HTTP 500 Internal Server Error"},
        ),
        (
            "302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n",
            {"success": False, "statusCode": 302, "error": "redirect not followed (HTTP 302)"},
        ),
        (
            "200 OK\r\nContent-Length: 10\r\n\r\nshort",
            {"success": False, "statusCode": 200, "error": "invalid HTTP answer: the body is malformed or cut short"},
        ),
    ],
)
async def test_a_test_tells_what_came_of_it(intake: Intake, answer: str, told: dict[str, Any]) -> None:
    """Only a complete 2xx answer is a success."""
    async with serve(answers(f"HTTP/1.1 {answer}".encode())) as server:
        intake.registry.put(replace(intake.orders, url=server.url))
        response = await intake.client.post("/webhookendpoints/orders/test")
    document = response.json()["delivery_id"]
    assert (response.status_code, response.json()) == (200, {**told, "delivery_id": document})
    assert server.connections == 1
    body = (await intake.client.get(f"{LOG}/{document}")).json()
    assert (body["test"], body["status"]) == (True, "delivered" if told["success"] else "failed")
    assert [attempt["statusCode"] for attempt in body["attempts"]] == [told["statusCode"]]


WRONG_TESTS: list[tuple[bytes, int, list[str] | None]] = [
    (b"{", 400, []),
    (b"[" * 5000, 400, []),
    (b'{"payload": ' + b'{"a":' * 5000 + b"1" + b"}" * 5001, 400, []),
    (b"[]", 422, [""]),
    (b'{"type": "nonsense"}', 422, ["type"]),
    (b'{"type": "*"}', 422, ["type"]),
    (b'{"type": null}', 422, ["type"]),
    (b'{"payload": []}', 422, ["payload"]),
    (b'{"payload": {"messageId": 1}}', 422, ["payload.messageId"]),
    (b'{"type": "opened", "payload": {"type": "clicked"}}', 422, ["payload.type"]),
    (b'{"events": [], "a": 1}', 422, ["'events'", "'a'"]),
    (b'{"payload": {"a": "' + b"x" * 256 * 1024 + b'"}}', 413, [""]),
    (b" " * (1024 * 1024 + 1), 413, None),
]


async def test_a_wrong_test_is_refused_with_its_field(intake: Intake) -> None:
    """Nothing is sent and nothing is recorded."""
    for body, status, fields in WRONG_TESTS:
        problem = problem_of(await intake.client.post("/webhookendpoints/orders/test", content=body), status)
        assert fields is None or [fault["field"] for fault in problem.get("errors", [])] == fields, body[:80]
    assert (await intake.client.get(LOG)).json()["data"] == []


async def test_a_test_in_the_log_is_never_sent_again(intake: Intake) -> None:
    """It cannot be retried or replayed; a page of one status has no tests."""
    document = (await intake.client.post("/webhookendpoints/orders/test")).json()["delivery_id"]
    detail = problem_of(await intake.client.post(f"/deliveries/{document}/retry"), 409)["detail"]
    assert "is a test" in detail
    replay = await intake.client.post("/webhookendpoints/orders/replays", json={"since": "2020-01-01T00:00:00Z"})
    assert (replay.status_code, replay.json()["total"]) == (202, 0)
    assert [row["id"] for row in (await intake.client.get(LOG)).json()["data"]] == [document]
    for status in ("failed", "discarded", "pending"):
        assert (await intake.client.get(f"{LOG}?status={status}")).json()["data"] == []


async def test_a_test_that_the_operator_could_not_make_is_503_and_no_failure_of_the_endpoint(intake: Intake) -> None:
    """The caller can retry; the answer names the reason and has no field "success"."""
    # The first test opens the connections of the client and of the reviews.
    await intake.client.post("/webhookendpoints/orders/test")
    async with Receiver() as receiver:
        intake.registry.put(replace(intake.orders, url=receiver.url))
        with no_descriptors():
            answer = await intake.client.post("/webhookendpoints/orders/test")
        assert receiver.received == []
    problem_of(answer, 503)
    assert int(answer.headers["retry-after"]) > 0
    assert answer.json()["detail"] == "the test was not sent: too many open files in this process"
    assert "success" not in answer.json()
    assert len((await intake.client.get(LOG)).json()["data"]) == 1, "the test that was not sent is not recorded"


async def test_the_newest_secret_is_told_and_not_to_be_stored(intake: Intake) -> None:
    """The answer forbids caching of the secret."""
    response = await intake.client.get("/webhookendpoints/orders/secret")
    assert response.json() == {"secret": SECRET, "rotation": 0, "previous_signs_until": None}
    assert response.headers["cache-control"] == "no-store"


async def test_an_endpoint_without_secret_is_503_and_may_be_asked_again(intake: Intake, tokens: Tokens) -> None:
    """The operator is creating the secret; until then a test could not be signed."""
    fresh = neighbour(intake, tokens.namespace, "fresh")
    async with Receiver() as receiver:
        intake.registry.put(replace(fresh, url=receiver.url))
        for method, route in (("GET", "secret"), ("POST", "test")):
            answer = await intake.client.request(method, f"/webhookendpoints/fresh/{route}")
            problem_of(answer, 503)
            assert int(answer.headers["retry-after"]) > 0
        assert receiver.received == []


async def test_the_log_tells_a_delivery_with_its_attempts(intake: Intake) -> None:
    """Times are ISO 8601 in UTC with milliseconds; only a pending delivery has a next attempt."""
    intake.clock.advance(123)
    discards = await deliver(intake, 3, State.DISCARDED)
    delivery, pending = await deliver(intake, 1), await deliver(intake, 2, State.PENDING)
    document = (await intake.client.get(f"{LOG}/{delivery}")).json()
    assert document == {
        "id": delivery,
        "event_id": f"msg_{1:026}",
        "message_id": "m-42",
        "recipient": "ada@example.com",
        "webhook": "orders",
        "type": "delivered",
        "status": "failed",
        "reason": "",
        "accepted_at": "2026-01-01T00:00:00.123Z",
        "attempts": [
            {
                "number": 1,
                "started_at": "2026-01-01T00:00:01.000Z",
                "duration_ms": 12,
                "statusCode": 500,
                "error": "answered 500",
                "response": "no",
                "request_headers": None,
                "signature_known": False,
                "endpoint_changed": None,
                "response_headers": None,
            }
        ],
        "request": {"method": "POST", "url": intake.orders.url, "body": BODY.decode()},
    }
    document = (await intake.client.get(f"{LOG}/{pending}")).json()
    assert document["next_attempt_at"] == "2026-01-01T00:00:30.123Z"
    document = (await intake.client.get(f"{LOG}/{discards}")).json()
    assert (document["status"], document["reason"], document["attempts"]) == ("discarded", "endpoint deleted", [])


async def test_the_log_comes_in_pages(intake: Intake) -> None:
    """A client that follows ``next`` until null gets every delivery once."""
    for number in range(1, 8):
        await deliver(intake, number)
    await deliver(intake, 8, endpoint="uid-other")
    ids: list[str] = []
    params: dict[str, str] = {"limit": "3"}
    while True:
        page = (await intake.client.get(LOG, params=params)).json()
        ids += [row["id"] for row in page["data"]]
        if page["next"] is None:
            break
        params["cursor"] = page["next"]
    assert ids == [id_of(number) for number in range(7, 0, -1)]


async def test_the_log_can_be_narrowed_to_a_status(intake: Intake) -> None:
    """The filter uses the state names of deliveries."""
    await deliver(intake, 1)
    deliveries = await deliver(intake, 2, State.DELIVERED)
    page = (await intake.client.get(f"{LOG}?status=delivered")).json()
    assert [row["id"] for row in page["data"]] == [deliveries]


WRONG_QUERIES = [
    ("status=lost", ["status"]),
    ("limit=0", ["limit"]),
    ("limit=251", ["limit"]),
    ("limit=-1", ["limit"]),
    ("limit=٣", ["limit"]),
    ("cursor=%00", ["cursor"]),
    ("cursor=1", ["cursor"]),
    ("cursor=dlv_01", ["cursor"]),
    (f"cursor=msg_{1:026}", ["cursor"]),
    (f"cursor=dlv_{1:027}", ["cursor"]),
    (f"cursor=dlv_{1:026}%0A", ["cursor"]),
    (f"cursor={id_of(1).upper()}", ["cursor"]),
    (f"cursor=dlv_{'u' * 26}", ["cursor"]),
    (f"cursor=dlv_8{'0' * 25}", ["cursor"]),
    (f"cursor={'x' * 4000}", ["cursor"]),
    ("status=x&limit=y&other=1", ["status", "limit", "other"]),
]


async def test_a_wrong_query_is_422_with_its_fields(intake: Intake) -> None:
    """The answer names each fault; an empty cursor is none."""
    for query, fields in WRONG_QUERIES:
        problem = problem_of(await intake.client.get(f"{LOG}?{query}"), 422)
        assert [fault["field"] for fault in problem["errors"]] == fields, query
    for cursor in ("", id_of(1)):
        assert (await intake.client.get(f"{LOG}?cursor={cursor}")).json() == {"data": [], "next": None}


async def test_a_delivery_of_another_endpoint_is_404(intake: Intake, tokens: Tokens) -> None:
    """The delivery must belong to the endpoint of the path."""
    neighbour(intake, tokens.namespace, "other")
    delivery = await deliver(intake, 1)
    problem_of(await intake.client.get(f"/webhookendpoints/other/deliveries/{delivery}"), 404)
    problem_of(await intake.client.get(f"{LOG}/{id_of(99)}"), 404)
    problem_of(await intake.client.get(f"{LOG}/%00"), 404)


@pytest.mark.parametrize("state", [State.FAILED, State.DELIVERED])
async def test_an_ended_delivery_is_sent_again(intake: Intake, state: State) -> None:
    """The answer is 202, and the delivery is pending again."""
    delivery = await deliver(intake, 1, state)
    answer = await intake.client.post(f"/deliveries/{delivery}/retry")
    assert (answer.status_code, answer.json()) == (202, {"id": delivery, "status": "pending"})
    assert await intake.state(delivery) is State.PENDING


async def test_a_retry_is_attempted_at_once(intake: Intake) -> None:
    """The dispatcher claims the delivery without waiting for its next search of the store."""
    delivery = await deliver(intake, 1)
    async with Receiver() as receiver:
        intake.registry.put(replace(intake.orders, url=receiver.url, suspend=False))
        assert (await intake.client.post(f"/deliveries/{delivery}/retry")).status_code == 202
        await receiver.wait_for(1)
        await intake.engine.ended(ORDERS, 1)
    assert await intake.state(delivery) is State.DELIVERED


async def test_a_discarded_delivery_is_not_sent_again(intake: Intake) -> None:
    """The answer is a 409 that names the state."""
    delivery = await deliver(intake, 1, State.DISCARDED)
    assert "discarded" in problem_of(await intake.client.post(f"/deliveries/{delivery}/retry"), 409)["detail"]
    assert await intake.state(delivery) is State.DISCARDED


async def test_a_pending_delivery_is_tried_now(intake: Intake) -> None:
    """The dispatcher claims it, although its retry is due later."""
    delivery = await deliver(intake, 1, State.PENDING)
    async with Receiver() as receiver:
        intake.registry.put(replace(intake.orders, url=receiver.url, suspend=False))
        answer = await intake.client.post(f"/deliveries/{delivery}/retry")
        assert (answer.status_code, answer.json()) == (202, {"id": delivery, "status": "pending"})
        await receiver.wait_for(1)
        await intake.engine.ended(ORDERS, 1)
    assert [attempt.number for attempt in (await intake.delivery(delivery)).attempts] == [1, 2]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"suspend": True}, 'webhook "orders" is suspended; resume it'),
        ({"suspend": False, "block_reason": "InsecureUrl"}, 'webhook "orders" is not ready (InsecureUrl)'),
        ({"suspend": False, "secrets": ()}, 'webhook "orders" is not ready;'),
    ],
)
async def test_a_pending_delivery_to_an_endpoint_that_sends_nothing_is_409(
    intake: Intake, change: dict[str, Any], says: str
) -> None:
    """The refusal has the cause, and the delivery keeps its time."""
    intake.registry.put(replace(intake.orders, **change))
    delivery = await deliver(intake, 1, State.PENDING)
    due_ms = (await intake.delivery(delivery)).due_ms
    assert says in problem_of(await intake.client.post(f"/deliveries/{delivery}/retry"), 409)["detail"]
    assert (await intake.delivery(delivery)).due_ms == due_ms


async def test_a_delivery_is_found_by_its_id_alone(intake: Intake) -> None:
    """The answer is that of the endpoint's log; a project that is not the endpoint's finds nothing."""
    delivery = await deliver(intake, 1)
    foreign_ids = await intake.client.get(f"/deliveries/{delivery}?project=billing")
    assert (foreign_ids.status_code, foreign_ids.json()) == (200, (await intake.client.get(f"{LOG}/{delivery}")).json())
    problem_of(await intake.client.get(f"/deliveries/{delivery}?project=shipping"), 404)


@pytest.mark.parametrize(("method", "suffix"), [("GET", ""), ("POST", "/retry")])
async def test_a_delivery_of_another_organization_is_as_none(
    intake: Intake, tokens: Tokens, namespace: str, method: str, suffix: str
) -> None:
    """A missing delivery, a foreign one and one without an endpoint get the same 404, and no retry."""
    abroad = neighbour(intake, namespace, "orders")
    foreign_ids = [await deliver(intake, 1, endpoint=abroad.uid), await deliver(intake, 2, endpoint="uid-gone")]
    stranger = {"Authorization": f"Bearer {tokens.stranger}"}
    for delivery in (*foreign_ids, id_of(3)):
        problem = problem_of(await intake.client.request(method, f"/deliveries/{delivery}{suffix}"), 404)
        assert problem["detail"] == f'delivery "{delivery}" in namespace "{tokens.namespace}" does not exist'
        problem_of(await intake.client.request(method, f"/deliveries/{delivery}{suffix}", headers=stranger), 403)
    assert [await intake.state(delivery) for delivery in foreign_ids] == [State.FAILED] * 2


@pytest.mark.parametrize("state", [State.PENDING, State.FAILED, State.DELIVERED])
async def test_an_expired_endpoint_gets_nothing_more(intake: Intake, state: State) -> None:
    """A test, a retry, a replay and a take are 409 with the reason; the log and the secret stay readable."""
    intake.registry.put(replace(intake.orders, suspend=False, block_reason="Expired", events=frozenset()))
    delivery = await deliver(intake, 1, state)
    for path, body in (
        ("/webhookendpoints/orders/test", {}),
        (f"/deliveries/{delivery}/retry", {}),
        ("/webhookendpoints/orders/replays", {"since": "2030-01-01T00:00:00Z"}),
    ):
        text = problem_of(await intake.client.post(path, json=body), 409)["detail"]
        assert 'webhook "orders" has expired' in text, path
    intake.registry.put(replace(intake.orders, suspend=True, block_reason="Expired", url="", pull_lease=30.0))
    answer = await intake.client.get("/webhookendpoints/orders/messages?wait=20s")
    assert "has expired" in problem_of(answer, 409)["detail"]
    assert await intake.state(delivery) is state
    assert (await intake.client.get(LOG)).status_code == 200
    assert (await intake.client.get("/webhookendpoints/orders/secret")).status_code == 200


async def test_a_successful_test_and_a_retry_resume_an_endpoint_that_the_operator_suspended(intake: Intake) -> None:
    """A failed test does not. A retry is accepted, also of a pending delivery, which waits otherwise."""
    unpublished = intake.services.events.reporter._unpublished
    delivery = await deliver(intake, 1, State.PENDING)
    async with Receiver() as receiver:
        receiver.answer = lambda _: status
        suspended = replace(intake.orders, url=receiver.url, suspend=False, block_reason="SuspendedAfterFailures")
        intake.registry.put(suspended)
        for status, path in ((500, "/webhookendpoints/orders/test"), (200, "/webhookendpoints/orders/test"), (200, "")):
            unpublished.clear()
            answer = await intake.client.post(path or f"/deliveries/{delivery}/retry")
            assert answer.status_code == (200 if path else 202)
            assert [results.report.resumed for results in unpublished.values()] == ([True] if status == 200 else [])

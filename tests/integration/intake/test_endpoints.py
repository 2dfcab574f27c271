"""The routes of one endpoint: test, secret, delivery log, retry."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from support.intake_recorder import ORDERS, Intake, Log, Result, Tokens, refused

from hookwright_operator.registry import Endpoint
from hookwright_operator.store.records import Attempt, DeliveryRecord, State

ACCEPTED_MS = 1_767_225_600_123
ROUTES = [
    ("POST", "/webhookendpoints/{name}/test"),
    ("GET", "/webhookendpoints/{name}/secret"),
    ("GET", "/webhookendpoints/{name}/deliveries"),
    ("GET", "/webhookendpoints/{name}/deliveries/dlv_01"),
    ("POST", "/deliveries/dlv_01/retry"),
]


def record(number: int, state: State = State.FAILED, *, endpoint: str = ORDERS) -> DeliveryRecord:
    """Return a delivery of an endpoint, with one attempt."""
    attempt = Attempt(1, ACCEPTED_MS + 877, 12, 500, "answered 500", "no")
    return DeliveryRecord(
        id=f"dlv_{number:02}",
        event_id=f"msg_{number:02}",
        event_type="delivered",
        endpoint_uid=endpoint,
        state=state,
        reason="attempts exhausted" if state is State.FAILED else "",
        accepted_ms=ACCEPTED_MS,
        due_ms=ACCEPTED_MS + 30_000,
        attempts=(attempt,),
    )


def keep(intake: Intake, *records: DeliveryRecord) -> None:
    """Add deliveries to the log."""
    intake.log.records.update({record.id: record for record in records})


def neighbour(intake: Intake, namespace: str, name: str) -> Endpoint:
    """Add another endpoint."""
    orders = intake.registry.get(ORDERS)
    assert orders is not None
    endpoint = replace(orders, uid=f"uid-{namespace}-{name}", namespace=namespace, name=name, secrets=())
    intake.registry.put(endpoint)
    return endpoint


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_every_route_asks_who_calls_and_whether_it_may(
    intake: Intake, tokens: Tokens, method: str, path: str
) -> None:
    """The answer is 401 without a token and 403 without the permission, and nothing is done."""
    keep(intake, record(1))
    route = path.format(name="orders")
    for authorization, status in (("", 401), (f"Bearer {tokens.stranger}", 403)):
        refused(await intake.client.request(method, route, headers={"Authorization": authorization}), status)
    assert intake.tester.tested == []
    assert intake.log.records["dlv_01"].state is State.FAILED


@pytest.mark.parametrize(("method", "path"), ROUTES[:4])
async def test_an_unknown_endpoint_is_404(intake: Intake, method: str, path: str) -> None:
    """The caller has the permission to read endpoints."""
    refused(await intake.client.request(method, path.format(name="ghost")), 404)


@pytest.mark.parametrize(
    ("result", "answer"),
    [
        (Result(200), {"success": True, "statusCode": 200}),
        (Result(500, "answered 500"), {"success": False, "statusCode": 500, "error": "answered 500"}),
        (Result(302, "redirected"), {"success": False, "statusCode": 302, "error": "redirected"}),
        (Result(0, "connection refused"), {"success": False, "statusCode": 0, "error": "connection refused"}),
        (Result(200, "cut short"), {"success": False, "statusCode": 200, "error": "cut short"}),
    ],
)
async def test_a_test_tells_what_came_of_it(intake: Intake, result: Result, answer: dict[str, Any]) -> None:
    """Only a complete 2xx answer is a success; without an answer the status is 0 and the error has a reason."""
    intake.tester.result = result
    response = await intake.client.post("/webhookendpoints/orders/test")
    assert (response.status_code, response.json()) == (200, answer)
    assert [endpoint.uid for endpoint in intake.tester.tested] == [ORDERS]


async def test_a_test_that_the_operator_could_not_make_is_503_and_no_failure_of_the_endpoint(intake: Intake) -> None:
    """The caller can retry; the answer names the reason and has no field "success"."""
    intake.tester.result = Result(0, "too many open files in this process", "descriptors")
    answer = await intake.client.post("/webhookendpoints/orders/test")
    refused(answer, 503)
    assert int(answer.headers["retry-after"]) > 0
    assert answer.json()["detail"] == "the test was not sent, the operator lacks resources now: descriptors"
    assert "success" not in answer.json()


async def test_the_newest_secret_is_told_and_not_to_be_stored(intake: Intake) -> None:
    """The answer forbids caching of the secret."""
    response = await intake.client.get("/webhookendpoints/orders/secret")
    assert response.json() == {"secret": "whsec_new"}
    assert response.headers["cache-control"] == "no-store"


async def test_an_endpoint_without_secret_is_503_and_may_be_asked_again(intake: Intake, tokens: Tokens) -> None:
    """The operator is creating the secret; until then a test could not be signed."""
    neighbour(intake, tokens.namespace, "fresh")
    for method, route in (("GET", "secret"), ("POST", "test")):
        answer = await intake.client.request(method, f"/webhookendpoints/fresh/{route}")
        refused(answer, 503)
        assert int(answer.headers["retry-after"]) > 0
    assert intake.tester.tested == []


async def test_the_log_tells_a_delivery_with_its_attempts(intake: Intake) -> None:
    """Times are ISO 8601 in UTC with milliseconds; only a pending delivery has a next attempt."""
    keep(intake, record(1), record(2, State.PENDING))
    told = (await intake.client.get("/webhookendpoints/orders/deliveries/dlv_01")).json()
    assert told == {
        "id": "dlv_01",
        "eventId": "msg_01",
        "type": "delivered",
        "status": "failed",
        "reason": "attempts exhausted",
        "acceptedAt": "2026-01-01T00:00:00.123Z",
        "attempts": [
            {
                "number": 1,
                "startedAt": "2026-01-01T00:00:01.000Z",
                "durationMs": 12,
                "statusCode": 500,
                "error": "answered 500",
                "response": "no",
            }
        ],
    }
    pending = (await intake.client.get("/webhookendpoints/orders/deliveries/dlv_02")).json()
    assert pending["nextAttemptAt"] == "2026-01-01T00:00:30.123Z"


async def test_the_log_comes_in_pages(intake: Intake) -> None:
    """A client that follows ``next`` until null gets every delivery once."""
    keep(intake, *(record(number) for number in range(1, 8)))
    keep(intake, record(8, endpoint="uid-other"))
    seen: list[str] = []
    params: dict[str, str] = {"limit": "3"}
    while True:
        page = (await intake.client.get("/webhookendpoints/orders/deliveries", params=params)).json()
        seen += [told["id"] for told in page["data"]]
        if page["next"] is None:
            break
        params["cursor"] = page["next"]
    assert seen == [f"dlv_{number:02}" for number in range(7, 0, -1)]


async def test_a_namespace_reads_its_logs_one_page_at_a_time(intake: Intake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Further reads wait, requests to other routes do not, and each read gets its page."""
    under_way = most = 0
    go_on = asyncio.Event()
    read = Log.deliveries

    async def slow(
        log: Log, endpoint_uid: str, *, state: State | None, limit: int, cursor: str | None
    ) -> tuple[Sequence[DeliveryRecord], str | None]:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await go_on.wait()
        under_way -= 1
        return await read(log, endpoint_uid, state=state, limit=limit, cursor=cursor)

    monkeypatch.setattr(Log, "deliveries", slow)
    keep(intake, record(1))
    pages = [asyncio.create_task(intake.client.get("/webhookendpoints/orders/deliveries")) for _ in range(3)]
    for _ in range(20):
        assert (await intake.client.get("/webhookendpoints/orders/deliveries/dlv_01")).status_code == 200
    go_on.set()
    assert [len((await page).json()["data"]) for page in pages] == [1, 1, 1]
    assert most == 1


async def test_the_log_can_be_narrowed_to_a_status(intake: Intake) -> None:
    """The filter uses the state names of deliveries."""
    keep(intake, record(1), record(2, State.DELIVERED))
    page = (await intake.client.get("/webhookendpoints/orders/deliveries?status=delivered")).json()
    assert [told["id"] for told in page["data"]] == ["dlv_02"]


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("status=lost", ["status"]),
        ("limit=0", ["limit"]),
        ("limit=251", ["limit"]),
        ("limit=-1", ["limit"]),
        ("limit=٣", ["limit"]),
        ("cursor=%00", ["cursor"]),
        ("status=x&limit=y&cursor=%20", ["status", "limit", "cursor"]),
    ],
)
async def test_a_wrong_query_is_422_with_its_fields(intake: Intake, query: str, fields: list[str]) -> None:
    """The answer names each fault."""
    problem = refused(await intake.client.get(f"/webhookendpoints/orders/deliveries?{query}"), 422)
    assert [fault["field"] for fault in problem["errors"]] == fields


async def test_a_delivery_of_another_endpoint_is_404(intake: Intake, tokens: Tokens) -> None:
    """The delivery must belong to the endpoint of the path."""
    neighbour(intake, tokens.namespace, "other")
    keep(intake, record(1))
    refused(await intake.client.get("/webhookendpoints/other/deliveries/dlv_01"), 404)
    refused(await intake.client.get("/webhookendpoints/orders/deliveries/dlv_99"), 404)
    refused(await intake.client.get("/webhookendpoints/orders/deliveries/%00"), 404)


@pytest.mark.parametrize("state", [State.FAILED, State.DELIVERED])
async def test_an_ended_delivery_is_sent_again(intake: Intake, state: State) -> None:
    """The answer is 202, and the delivery is pending again."""
    keep(intake, record(1, state))
    answer = await intake.client.post("/deliveries/dlv_01/retry")
    assert (answer.status_code, answer.json()) == (202, {"id": "dlv_01", "status": "pending"})
    assert intake.log.records["dlv_01"].state is State.PENDING


@pytest.mark.parametrize("state", [State.PENDING, State.DISCARDED])
async def test_what_has_not_ended_or_was_discarded_is_not_sent_again(intake: Intake, state: State) -> None:
    """The answer is a 409 that names the state."""
    keep(intake, record(1, state))
    assert state in refused(await intake.client.post("/deliveries/dlv_01/retry"), 409)["detail"]


async def test_a_retry_of_another_organizations_delivery_is_as_of_none(
    intake: Intake, tokens: Tokens, namespace: str
) -> None:
    """A missing delivery, one of another project and one without an endpoint get the same 404, and no retry."""
    abroad = neighbour(intake, namespace, "orders")
    keep(intake, record(1, endpoint=abroad.uid), record(2, endpoint="uid-gone"))
    for number in (1, 2, 3):
        problem = refused(await intake.client.post(f"/deliveries/dlv_0{number}/retry"), 404)
        assert problem["detail"] == f'delivery "dlv_0{number}" in namespace "{tokens.namespace}" does not exist'
    assert {record.state for record in intake.log.records.values()} == {State.FAILED}
    stranger = {"Authorization": f"Bearer {tokens.stranger}"}
    for number in (1, 2, 3):
        refused(await intake.client.post(f"/deliveries/dlv_0{number}/retry", headers=stranger), 403)

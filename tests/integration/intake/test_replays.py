"""Replays of failed deliveries since a time: permissions, requests and answers."""

import pytest
from structlog.testing import capture_logs
from support.intake import BEGUN_MS, ORDERS, Intake, Tokens, refused
from support.polling import until
from support.store_factories import event, settlement

from hookwright_operator.store.records import State

ROUTES = [("POST", "/webhookendpoints/{name}/recover"), ("GET", "/webhookendpoints/{name}/recoveries/rec_1")]
SINCE = {"since": "2025-12-31T00:00:00Z"}


async def fail(intake: Intake, count: int) -> list[str]:
    """Write failed deliveries of the endpoint into the store, and return their ids."""
    events = [event(ORDERS, claimed=True) for _ in range(count)]
    await intake.engine.store.accept(events)
    deliveries = [delivery for new in events for delivery in new.deliveries]
    await intake.engine.store.settle([settlement(delivery, State.FAILED, status=500) for delivery in deliveries])
    return [delivery.id for delivery in deliveries]


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_a_recovery_asks_who_calls_and_whether_it_may(
    intake: Intake, tokens: Tokens, method: str, path: str
) -> None:
    """The answer is 401 without a token and 403 without the permission, and no replay begins."""
    body = {"since": "2026-01-01T00:00:00Z"}
    for authorization, status in (("", 401), (f"Bearer {tokens.stranger}", 403)):
        headers = {"Authorization": authorization}
        refused(await intake.client.request(method, path.format(name="orders"), json=body, headers=headers), status)
    refused(await intake.client.request(method, path.format(name="ghost"), json=body), 404)
    assert await intake.engine.store.running_replays() == []


async def test_a_recovery_is_begun_and_told_where_to_look(intake: Intake) -> None:
    """The answer is 202 with the replay and its address, which returns the same."""
    await fail(intake, 7)
    intake.clock.advance(1000)
    answer = await intake.client.post(
        "/webhookendpoints/orders/recover",
        json={"since": "2025-12-31T23:00:00.5+01:00", "until": "2026-01-01T00:00:00.123456789z"},
    )

    assert answer.status_code == 202
    (replay,) = await intake.engine.store.running_replays()
    assert answer.json() == {
        "id": replay.id,
        "status": "running",
        "since": "2025-12-31T22:00:00.500Z",
        "until": "2026-01-01T00:00:00.123Z",
        "total": 7,
        "totalIsExact": True,
        "done": 0,
        "begunAt": "2026-01-01T00:00:01.000Z",
    }
    told = await intake.client.get(str(intake.client.base_url.join(answer.headers["location"])))
    assert (told.status_code, told.json()) == (200, answer.json())


async def test_without_until_a_recovery_goes_up_to_now(intake: Intake) -> None:
    """Later failures are not part of the replay."""
    answer = await intake.client.post(
        "/webhookendpoints/orders/recover", json={"since": "2025-12-31T00:00:00Z", "until": None}
    )

    assert answer.json()["until"] == "2026-01-01T00:00:00.000Z"


async def test_a_second_recovery_is_refused_with_the_first_ones_id(intake: Intake) -> None:
    """The answer is a 409 with the id, so that the caller can follow the running replay."""
    first = await intake.client.post("/webhookendpoints/orders/recover", json=SINCE)

    problem = refused(await intake.client.post("/webhookendpoints/orders/recover", json=SINCE), 409)

    assert first.json()["id"] in problem["detail"]


@pytest.mark.parametrize(
    ("body", "faults"),
    [
        ("{}", {"since": "missing"}),
        ('{"since": null}', {"since": "missing"}),
        ('{"since": "yesterday"}', {"since": "wrong; send a time from 1970 to 9999 with its zone"}),
        ('{"since": "2025-12-31"}', {"since": "wrong"}),
        ('{"since": "2025-12-31T00:00:00"}', {"since": "wrong"}),
        ('{"since": "2025-02-30T00:00:00Z"}', {"since": "wrong"}),
        ('{"since": "2025-12-31T00:00:00Z "}', {"since": "wrong"}),
        ('{"since": 1767225600}', {"since": "wrong"}),
        ('{"since": "2026-01-01T00:00:00.001Z"}', {"since": "in the future; the time is now 2026-01-01T00:00:00.000Z"}),
        ('{"since": "2025-12-31T00:00:00Z", "until": "soon"}', {"until": "wrong"}),
        ('{"since": "2025-12-31T00:00:00Z", "until": "2025-12-30T00:00:00Z"}', {"until": "before since"}),
        ('{"from": "2025-12-31T00:00:00Z"}', {"from": "unknown", "since": "missing"}),
        ("[]", {"": "a JSON object {since, until?}"}),
    ],
)
async def test_a_wrong_time_is_422_with_its_field(intake: Intake, body: str, faults: dict[str, str]) -> None:
    """The answer names each fault and the correct form, and no replay begins."""
    problem = refused(await intake.client.post("/webhookendpoints/orders/recover", content=body), 422)

    assert [fault["field"] for fault in problem["errors"]] == list(faults)
    assert all(says in fault["message"] for fault, says in zip(problem["errors"], faults.values(), strict=True))
    assert await intake.engine.store.running_replays() == []


@pytest.mark.parametrize(("body", "status"), [(b"", 400), (b"{", 400), (b" " * 5000, 413)])
async def test_a_body_that_is_no_json_or_too_long_is_refused(intake: Intake, body: bytes, status: int) -> None:
    """The body is refused before any look-up."""
    refused(await intake.client.post("/webhookendpoints/orders/recover", content=body), status)


async def test_an_ended_recovery_tells_when_it_ended(intake: Intake) -> None:
    """The replay has its final counts; a delivery that was retried by hand meanwhile is not done by it."""
    first, *_ = await fail(intake, 7)
    begun = await intake.client.post("/webhookendpoints/orders/recover", json=SINCE)
    assert (await intake.client.post(f"/deliveries/{first}/retry")).status_code == 202
    intake.clock.advance(60_001)
    intake.engine.loops.start("replays", intake.services.replays.run)

    async def ended() -> bool:
        return await intake.engine.store.running_replays() == []

    await until(ended)
    told = (await intake.client.get(str(intake.client.base_url.join(begun.headers["location"])))).json()
    assert (told["status"], told["total"], told["done"]) == ("completed", 7, 6)
    assert (told["begunAt"], told["endedAt"]) == ("2026-01-01T00:00:00.000Z", "2026-01-01T00:01:00.001Z")
    assert (await intake.engine.counts(ORDERS)).pending == 7


@pytest.mark.parametrize("wanted", ["rec_2", "rec_other", "%00", "a" * 500])
async def test_a_recovery_that_is_not_the_endpoints_is_404(intake: Intake, wanted: str) -> None:
    """A missing replay and one of another endpoint get the same answer."""
    await intake.engine.store.begin_replay("rec_other", "uid-other", since_ms=BEGUN_MS)

    refused(await intake.client.get(f"/webhookendpoints/orders/recoveries/{wanted}"), 404)


async def test_secret_reads_retries_and_replays_have_an_audit_line(intake: Intake, tokens: Tokens) -> None:
    """A line has the ServiceAccount and its address; refused requests have none."""
    (delivery, *_) = await fail(intake, 2)
    with capture_logs() as logs:
        assert (await intake.client.get("/webhookendpoints/orders/secret")).status_code == 200
        assert (await intake.client.post(f"/deliveries/{delivery}/retry")).status_code == 202
        assert (await intake.client.post("/webhookendpoints/orders/recover", json=SINCE)).status_code == 202
        stranger = {"Authorization": f"Bearer {tokens.stranger}"}
        refused(await intake.client.get("/webhookendpoints/orders/secret", headers=stranger), 403)
    lines = [line for line in logs if line["event"] == "audit"]
    assert [(line["action"], line["target"]) for line in lines] == [
        ("secret.read", "orders"),
        ("delivery.retry", delivery),
        ("endpoint.replay", "orders"),
    ]
    for line in lines:
        assert line["actor"] == f"system:serviceaccount:{tokens.namespace}:sender"
        assert (line["client"], line["organization"], line["project"]) == ("127.0.0.1", tokens.namespace, "billing")
    assert all(secret not in str(logs) for secret in (*intake.orders.secrets, tokens.sender))

"""Replays of failed deliveries since a time: permissions, requests and answers."""

import pytest
from support.intake_recorder import ORDERS, Intake, Tokens, refused

from hookwright_operator.store.records import Replay, ReplayState

ROUTES = [("POST", "/webhookendpoints/{name}/recover"), ("GET", "/webhookendpoints/{name}/recoveries/rec_1")]
JOB = Replay("rec_1", ORDERS, ReplayState.COMPLETED, 1_767_225_000_000, 1_767_225_500_500, 7, 6, 0, 60_001)


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
    assert intake.jobs.known == {}


async def test_a_recovery_is_begun_and_told_where_to_look(intake: Intake) -> None:
    """The answer is 202 with the replay and its address, which returns the same."""
    answer = await intake.client.post(
        "/webhookendpoints/orders/recover",
        json={"since": "2025-12-31T23:00:00.5+01:00", "until": "2026-01-01T00:00:00.123456789z"},
    )

    assert answer.status_code == 202
    assert answer.json() == {
        "id": "rec_1",
        "status": "running",
        "since": "2025-12-31T22:00:00.500Z",
        "until": "2026-01-01T00:00:00.123Z",
        "total": 7,
        "done": 0,
        "begunAt": "2026-01-01T00:00:00.000Z",
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
    body = {"since": "2025-12-31T00:00:00Z"}
    await intake.client.post("/webhookendpoints/orders/recover", json=body)

    problem = refused(await intake.client.post("/webhookendpoints/orders/recover", json=body), 409)

    assert "rec_1" in problem["detail"]


@pytest.mark.parametrize(
    ("body", "faults"),
    [
        ("{}", {"since": "missing"}),
        ('{"since": null}', {"since": "missing"}),
        ('{"since": "yesterday"}', {"since": "wrong; send a time with its zone"}),
        ('{"since": "2025-12-31"}', {"since": "wrong"}),
        ('{"since": "2025-12-31T00:00:00"}', {"since": "wrong"}),
        ('{"since": "2025-02-30T00:00:00Z"}', {"since": "wrong"}),
        ('{"since": "2025-12-31T00:00:00Z "}', {"since": "wrong"}),
        ('{"since": 1767225600}', {"since": "wrong"}),
        ('{"since": "2026-01-01T00:00:00.001Z"}', {"since": "in the future; the time is now 2026-01-01T00:00:00.000Z"}),
        ('{"since": "2025-12-31T00:00:00Z", "until": "soon"}', {"until": "wrong"}),
        ('{"since": "2025-12-31T00:00:00Z", "until": "2025-12-30T00:00:00Z"}', {"until": "before since"}),
        ('{"from": "2025-12-31T00:00:00Z"}', {"from": "unknown", "since": "missing"}),
        ("[]", {"": "such as"}),
    ],
)
async def test_a_wrong_time_is_422_with_its_field(intake: Intake, body: str, faults: dict[str, str]) -> None:
    """The answer names each fault and the correct form, and no replay begins."""
    problem = refused(await intake.client.post("/webhookendpoints/orders/recover", content=body), 422)

    assert [fault["field"] for fault in problem["errors"]] == list(faults)
    assert all(says in fault["message"] for fault, says in zip(problem["errors"], faults.values(), strict=True))
    assert intake.jobs.known == {}


@pytest.mark.parametrize(("body", "status"), [(b"", 400), (b"{", 400), (b" " * 5000, 413)])
async def test_a_body_that_is_no_json_or_too_long_is_refused(intake: Intake, body: bytes, status: int) -> None:
    """The body is refused before any look-up."""
    refused(await intake.client.post("/webhookendpoints/orders/recover", content=body), status)


async def test_an_ended_recovery_tells_when_it_ended(intake: Intake) -> None:
    """The replay has its final counts."""
    intake.jobs.known[JOB.id] = JOB

    told = (await intake.client.get("/webhookendpoints/orders/recoveries/rec_1")).json()

    assert (told["status"], told["total"], told["done"]) == ("completed", 7, 6)
    assert (told["begunAt"], told["endedAt"]) == ("1970-01-01T00:00:00.000Z", "1970-01-01T00:01:00.001Z")


@pytest.mark.parametrize("wanted", ["rec_2", "rec_other", "%00", "a" * 500])
async def test_a_recovery_that_is_not_the_endpoints_is_404(intake: Intake, wanted: str) -> None:
    """A missing replay and one of another endpoint get the same answer."""
    intake.jobs.known["rec_other"] = Replay("rec_other", "uid-other", ReplayState.RUNNING, 0, 1, 1, 0, 1)

    refused(await intake.client.get(f"/webhookendpoints/orders/recoveries/{wanted}"), 404)

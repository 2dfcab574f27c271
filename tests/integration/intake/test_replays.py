"""Replays by state, type and time of acceptance: requests and answers of the intake, and its audit lines."""

from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.api_processes import problem_of
from support.intake import BEGUN_MS, ORDERS, Intake, Tokens
from support.polling import until
from support.store_factories import failures_of, settlement

from hookwright_crds.timestamps import timestamp
from hookwright_operator.ids import first_delivery_id, message_id
from hookwright_operator.registry import ProjectSettings
from hookwright_operator.store.records import NewDelivery, NewEvent, ReplayState, State

REPLAYS = "/webhookendpoints/orders/replays"
SINCE = {"since": "2025-12-31T23:00:00Z"}


async def end(intake: Intake, *endings: tuple[State, str]) -> list[str]:
    """Write a delivery for each state and event type, accepted a minute before the test, and return the ids."""
    store = intake.engine.store
    ids = [f"{first_delivery_id(BEGUN_MS - 60_000)[:14]}{number:016}" for number in range(len(endings))]
    deliveries = [NewDelivery(item, ORDERS, claimed=True) for item in ids]
    await store.accept(
        [
            NewEvent(message_id(), "acme", "billing", None, kind, b"{}", (delivery,))
            for delivery, (_, kind) in zip(deliveries, endings, strict=True)
        ]
    )
    await store.settle([settlement(delivery, state) for delivery, (state, _) in zip(deliveries, endings, strict=True)])
    return ids


async def begun(intake: Intake, **body: object) -> dict[str, Any]:
    """Begin a replay and return the answer."""
    answer = await intake.client.post(REPLAYS, json={**SINCE, **body})
    assert answer.status_code == 202, answer.text
    document: dict[str, Any] = answer.json()
    return document


async def test_a_replay_is_begun_listed_and_shown(intake: Intake) -> None:
    """The 202, the list and the address in Location have the same document."""
    await end(intake, (State.DELIVERED, "opened"), (State.FAILED, "opened"), (State.FAILED, "clicked"))

    answer = await intake.client.post(
        REPLAYS, json={**SINCE, "until": None, "state": "all", "types": ["opened", "opened"]}
    )

    (replay,) = await intake.engine.store.running_replays()
    assert (answer.status_code, answer.json()) == (
        202,
        {
            "id": replay.id,
            "status": "running",
            "since": "2025-12-31T23:00:00.000Z",
            "until": "2026-01-01T00:00:00.000Z",
            "state": "all",
            "types": ["opened"],
            "total": 2,
            "total_is_exact": True,
            "done": 0,
            "begun_at": "2026-01-01T00:00:00.000Z",
            "ended_at": None,
        },
    )
    response = await intake.client.get(str(intake.client.base_url.join(answer.headers["location"])))
    assert response.json() == answer.json()
    assert (await intake.client.get(REPLAYS)).json() == {"data": [answer.json()]}


@pytest.mark.parametrize(("body", "total"), [({}, 2), ({"state": "delivered"}, 1), ({"types": ["wa_read"]}, 0)])
async def test_a_dry_run_counts_and_begins_nothing(intake: Intake, body: dict[str, object], total: int) -> None:
    """Failed deliveries of all types are the default."""
    await end(intake, (State.DELIVERED, "opened"), (State.FAILED, "opened"), (State.FAILED, "clicked"))

    answer = await intake.client.post(REPLAYS, json={**SINCE, **body, "dry_run": True})

    assert (answer.status_code, answer.json()) == (
        200,
        {
            "dry_run": True,
            "since": "2025-12-31T23:00:00.000Z",
            "until": "2026-01-01T00:00:00.000Z",
            "state": "failed",
            "types": [],
            "total": total,
            "total_is_exact": True,
            **body,
        },
    )
    assert (await intake.client.get(REPLAYS)).json() == {"data": []}


async def test_a_delivered_delivery_is_sent_again(intake: Intake) -> None:
    """The running service makes it pending, and the job has the time of its end."""
    (delivery,) = await end(intake, (State.DELIVERED, "opened"))
    replay = await begun(intake, state="delivered")
    intake.clock.advance(60_001)
    intake.engine.loops.start("replays", intake.services.replays.run)

    async def ended() -> bool:
        return await intake.engine.store.running_replays() == []

    await until(ended)
    answer = (await intake.client.get(f"{REPLAYS}/{replay['id']}")).json()
    assert (answer["status"], answer["total"], answer["done"]) == ("completed", 1, 1)
    assert answer["ended_at"] == "2026-01-01T00:01:00.001Z"
    assert await intake.state(delivery) is State.PENDING
    problem = problem_of(await intake.client.delete(f"{REPLAYS}/{replay['id']}"), 409)
    assert "is completed" in problem["detail"]


async def test_a_cancelled_replay_sends_nothing_more(intake: Intake) -> None:
    """The answer is 204, also the second time, and another replay can begin."""
    (delivery,) = await end(intake, (State.FAILED, "opened"))
    replay = await begun(intake)
    problem = problem_of(await intake.client.post(REPLAYS, json=SINCE), 409)
    assert replay["id"] in problem["detail"]

    for _ in range(2):
        assert (await intake.client.delete(f"{REPLAYS}/{replay['id']}")).status_code == 204

    assert await intake.engine.store.chosen_replays.advance(replay["id"], limit=10) is None
    assert await intake.state(delivery) is State.FAILED
    second = await begun(intake)
    rows = (await intake.client.get(REPLAYS)).json()["data"]
    assert [(row["id"], row["status"]) for row in rows] == [(second["id"], "running"), (replay["id"], "cancelled")]


async def test_begin_and_cancellation_have_an_audit_line(intake: Intake) -> None:
    """A dry run and a refused request have none."""
    with capture_logs() as logs:
        await intake.client.post(REPLAYS, json={**SINCE, "dry_run": True})
        replay = await begun(intake)
        problem_of(await intake.client.post(REPLAYS, json=SINCE), 409)
        for _ in range(2):
            await intake.client.delete(f"{REPLAYS}/{replay['id']}")
    lines = [(line["action"], line["target"]) for line in logs if line["event"] == "audit"]
    assert lines == [("endpoint.replay", "orders"), ("replay.cancel", replay["id"])]


async def test_secret_reads_retries_and_replays_have_an_audit_line(intake: Intake, tokens: Tokens) -> None:
    """A line has the ServiceAccount and its address; refused requests have none."""
    (delivery, *_) = await end(intake, (State.FAILED, "opened"), (State.FAILED, "opened"))
    with capture_logs() as logs:
        assert (await intake.client.get("/webhookendpoints/orders/secret")).status_code == 200
        assert (await intake.client.post(f"/deliveries/{delivery}/retry")).status_code == 202
        await begun(intake)
        stranger = {"Authorization": f"Bearer {tokens.stranger}"}
        problem_of(await intake.client.get("/webhookendpoints/orders/secret", headers=stranger), 403)
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


async def test_a_replay_that_is_not_the_endpoints_is_404(intake: Intake) -> None:
    """A missing replay and one of another endpoint get the same answer, and neither is cancelled."""
    store = intake.engine.store
    await store.chosen_replays.begin("rec_other", failures_of("uid-other"))

    for replay in ("rec_2", "rec_other", "%00", "a" * 500):
        for method in ("GET", "DELETE"):
            problem_of(await intake.client.request(method, f"{REPLAYS}/{replay}"), 404)

    assert [job.id for job in await store.running_replays()] == ["rec_other"]


WRONG_BODIES: list[tuple[str, dict[str, str]]] = [
    ("{}", {"since": "is missing"}),
    ('{"since": null}', {"since": "must be a valid string"}),
    ('{"since": "2025-12-31"}', {"since": "wrong; send a time from 1970 to 9999 with its zone"}),
    ('{"since": 1767225600}', {"since": "must be a valid string"}),
    ('{"since": "2026-01-01T00:00:00.001Z"}', {"since": "in the future; the time is now 2026-01-01T00:00:00.000Z"}),
    ('{"since": "2025-12-31T00:00:00Z", "until": "2025-12-30T00:00:00Z"}', {"until": "before since"}),
    (
        '{"since": "2025-12-31T00:00:00Z", "state": "pending"}',
        {"state": "must be 'failed', 'delivered', 'all' or 'missed'"},
    ),
    ('{"since": "2025-12-31T00:00:00Z", "state": ["failed"]}', {"state": "must be 'failed'"}),
    ('{"since": "2025-12-31T00:00:00Z", "types": "opened"}', {"types": "must be a valid array"}),
    ('{"since": "2025-12-31T00:00:00Z", "types": ["opened", "Open", 7]}', {"types[1]": "", "types[2]": ""}),
    ('{"since": "2025-12-31T00:00:00Z", "dry_run": "yes"}', {"dry_run": "must be a valid boolean"}),
    ('{"since": "2025-12-31T00:00:00Z", "from": 1}', {"from": "is unknown; omit it"}),
    ('{"until": "2025-12-31", "state": 1}', {"since": "missing", "until": "wrong", "state": "must be"}),
    ("[]", {"": "must be an object"}),
]


async def test_a_wrong_request_is_422_with_its_fields(intake: Intake) -> None:
    """The answer names each fault and the correct form, and no replay begins."""
    for body, faults in WRONG_BODIES:
        problem = problem_of(await intake.client.post(REPLAYS, content=body), 422)
        assert [fault["field"] for fault in problem["errors"]] == list(faults)
        assert all(says in fault["message"] for fault, says in zip(problem["errors"], faults.values(), strict=True))
    assert await intake.engine.store.running_replays() == []


async def test_a_body_that_is_no_json_or_too_long_is_refused(intake: Intake) -> None:
    """The body is refused before any look-up."""
    for body, status in ((b"", 400), (b"{", 400), (b" " * 17_000, 413)):
        problem_of(await intake.client.post(REPLAYS, content=body), status)


async def test_a_replay_of_a_deleted_endpoint_ends_at_once(intake: Intake) -> None:
    """The endpoint may be deleted while its replay begins."""
    replay, new = await intake.services.replays.begin(failures_of("uid-gone"))

    assert new
    assert await intake.engine.store.running_replays() == []
    progress = await intake.services.store.replay(replay.id)
    assert progress is not None
    assert progress.state is ReplayState.CANCELLED


async def test_a_replay_of_missed_events_names_the_types_of_the_endpoint(intake: Intake) -> None:
    """Without types it takes those to which the endpoint subscribes; a choice without any of them is refused."""
    subscribed = sorted(intake.orders.events)
    answer = await intake.client.post(REPLAYS, json={**SINCE, "state": "missed", "dry_run": True})
    assert (answer.json()["state"], answer.json()["types"], answer.json()["total"]) == ("missed", subscribed, 0)

    intake.registry.put(replace(intake.orders, events=frozenset({"opened"})))
    problem = problem_of(
        await intake.client.post(REPLAYS, json={**SINCE, "state": "missed", "types": ["clicked"]}), 422
    )
    [fault] = problem["errors"]
    assert (fault["field"], "subscribes to none" in fault["message"]) == ("types", True)
    text = await begun(intake, state="missed", types=["clicked", "opened"])
    assert (text["state"], text["types"]) == ("missed", ["opened"])


@pytest.mark.parametrize("keeps", [True, False])
async def test_the_project_decides_whether_an_event_without_a_subscriber_is_stored(
    intake: Intake, *, keeps: bool
) -> None:
    """A kept event is shown without deliveries; otherwise its id is unknown."""
    intake.registry.put(replace(intake.orders, events=frozenset({"opened"})))
    intake.registry.put_project(intake.orders.namespace, "billing", ProjectSettings(keeps_missed=keeps))
    answer = await intake.client.post("/projects/billing/events", json={"type": "bounced", "messageId": "m-9"})
    assert (answer.status_code, answer.json()["deliveries"]) == (202, 0)
    document = await intake.client.get(f"/events/{answer.json()['event_ids'][0]}")
    assert document.status_code == (200 if keeps else 404)
    if keeps:
        assert (document.json()["deliveries"], "m-9" in document.json()["body"]) == ([], True)


async def test_a_project_has_no_events_of_an_earlier_one_with_its_name(intake: Intake) -> None:
    """Its owner may be another one, so a replay of missed events begins with its creation, and the event is unknown."""
    keeps = ProjectSettings(keeps_missed=True)
    intake.registry.put(replace(intake.orders, events=frozenset({"opened"})))
    intake.registry.put_project(intake.orders.namespace, "billing", keeps)
    answer = await intake.client.post("/projects/billing/events", json={"type": "opened", "messageId": "m-9"})
    event = f"/events/{answer.json()['event_ids'][0]}"
    accepted_at = timestamp(intake.clock())
    intake.clock.advance(5000)
    intake.registry.remove_project(intake.orders.namespace, "billing")
    problem_of(await intake.client.post(REPLAYS, json={**SINCE, "state": "missed"}), 404)

    created_ms = intake.clock()
    intake.registry.put_project(intake.orders.namespace, "billing", replace(keeps, uid="uid-2", created_ms=created_ms))
    intake.registry.put(replace(intake.orders, uid="uid-new", name="new", events=frozenset({"opened"})))
    assert (await intake.client.get(event)).status_code == 404
    replays = REPLAYS.replace("/orders/", "/new/")
    missed_event = {**SINCE, "state": "missed", "dry_run": True}
    document = (await intake.client.post(replays, json=missed_event)).json()
    assert (document["since"], document["total"]) == (timestamp(created_ms), 0)
    problem = problem_of(await intake.client.post(replays, json={**missed_event, "until": accepted_at}), 422)
    assert problem["errors"] == [
        {
            "field": "until",
            "message": f'Project "billing" was created at {timestamp(created_ms)}; choose a later time',
        }
    ]

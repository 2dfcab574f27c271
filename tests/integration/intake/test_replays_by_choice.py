"""Replays by state, type and time of acceptance: permissions, requests and answers of the intake."""

import json
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.intake import BEGUN_MS, ORDERS, Intake, Tokens, refused
from support.polling import until
from support.store_factories import settlement

from hookwright_operator.ids import first_delivery_id, message_id
from hookwright_operator.intake.timestamps import timestamp
from hookwright_operator.registry import ProjectSettings
from hookwright_operator.store.chosen_replays import Wanted
from hookwright_operator.store.records import Choice, NewDelivery, NewEvent, ReplayState, State

REPLAYS = "/webhookendpoints/orders/replays"
SINCE = {"since": "2025-12-31T23:00:00Z"}
ROUTES = [
    ("POST", "/webhookendpoints/{name}/replays"),
    ("GET", "/webhookendpoints/{name}/replays"),
    ("GET", "/webhookendpoints/{name}/replays/rec_1"),
    ("DELETE", "/webhookendpoints/{name}/replays/rec_1"),
]


async def end(intake: Intake, *endings: tuple[State, str]) -> list[str]:
    """Write a delivery for each state and event type, accepted a minute before the test, and return the ids."""
    store = intake.engine.store
    ids = [f"{first_delivery_id(BEGUN_MS - 60_000)[:14]}{number:016}" for number in range(len(endings))]
    deliveries = [NewDelivery(one, ORDERS, claimed=True) for one in ids]
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
    told: dict[str, Any] = answer.json()
    return told


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_each_route_asks_who_calls_and_whether_it_may(
    intake: Intake, tokens: Tokens, method: str, path: str
) -> None:
    """The answer is 401 without a token, 403 without the permission, and 404 for an unknown endpoint."""
    for authorization, status in (("", 401), (f"Bearer {tokens.stranger}", 403)):
        headers = {"Authorization": authorization}
        content = json.dumps(SINCE)
        refused(
            await intake.client.request(method, path.format(name="orders"), content=content, headers=headers), status
        )
    refused(await intake.client.request(method, path.format(name="ghost"), content=json.dumps(SINCE)), 404)
    assert await intake.engine.store.running_replays() == []


async def test_a_replay_is_begun_listed_and_shown(intake: Intake) -> None:
    """The 202, the list and the address in Location have the same document."""
    await end(intake, (State.DELIVERED, "opened"), (State.FAILED, "opened"), (State.FAILED, "clicked"))

    answer = await intake.client.post(REPLAYS, json={**SINCE, "state": "all", "types": ["opened", "opened"]})

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
    shown = await intake.client.get(str(intake.client.base_url.join(answer.headers["location"])))
    assert shown.json() == answer.json()
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
    told = (await intake.client.get(f"{REPLAYS}/{replay['id']}")).json()
    assert (told["status"], told["total"], told["done"]) == ("completed", 1, 1)
    assert told["ended_at"] == "2026-01-01T00:01:00.001Z"
    assert await intake.state(delivery) is State.PENDING
    problem = refused(await intake.client.delete(f"{REPLAYS}/{replay['id']}"), 409)
    assert "is completed" in problem["detail"]


async def test_a_cancelled_replay_sends_nothing_more(intake: Intake) -> None:
    """The answer is 204, also the second time, and another replay can begin."""
    (delivery,) = await end(intake, (State.FAILED, "opened"))
    replay = await begun(intake)
    problem = refused(await intake.client.post(REPLAYS, json=SINCE), 409)
    assert replay["id"] in problem["detail"]
    recover = await intake.client.post("/webhookendpoints/orders/recover", json=SINCE)
    assert replay["id"] in refused(recover, 409)["detail"]

    for _ in range(2):
        assert (await intake.client.delete(f"{REPLAYS}/{replay['id']}")).status_code == 204

    assert await intake.engine.store.chosen_replays.advance(replay["id"], limit=10) is None
    assert await intake.state(delivery) is State.FAILED
    second = await begun(intake)
    listed = (await intake.client.get(REPLAYS)).json()["data"]
    assert [(one["id"], one["status"]) for one in listed] == [(second["id"], "running"), (replay["id"], "cancelled")]


async def test_replays_of_failures_by_the_older_route_are_in_the_list(intake: Intake) -> None:
    """Both routes show both sorts of replays, each in its own form."""
    older = (await intake.client.post("/webhookendpoints/orders/recover", json=SINCE)).json()

    (listed,) = (await intake.client.get(REPLAYS)).json()["data"]

    assert (listed["id"], listed["state"], listed["types"]) == (older["id"], "failed", [])
    assert (await intake.client.get(f"/webhookendpoints/orders/recoveries/{listed['id']}")).json() == older


async def test_begin_and_cancellation_have_an_audit_line(intake: Intake) -> None:
    """A dry run and a refused request have none."""
    with capture_logs() as logs:
        await intake.client.post(REPLAYS, json={**SINCE, "dry_run": True})
        replay = await begun(intake)
        refused(await intake.client.post(REPLAYS, json=SINCE), 409)
        for _ in range(2):
            await intake.client.delete(f"{REPLAYS}/{replay['id']}")
    lines = [(line["action"], line["target"]) for line in logs if line["event"] == "audit"]
    assert lines == [("endpoint.replay", "orders"), ("replay.cancel", replay["id"])]


@pytest.mark.parametrize("wanted", ["rec_2", "rec_other", "%00", "a" * 500])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_a_replay_that_is_not_the_endpoints_is_404(intake: Intake, method: str, wanted: str) -> None:
    """A missing replay and one of another endpoint get the same answer, and neither is cancelled."""
    store = intake.engine.store
    await store.begin_replay("rec_other", "uid-other", since_ms=BEGUN_MS)

    refused(await intake.client.request(method, f"{REPLAYS}/{wanted}"), 404)

    assert [job.id for job in await store.running_replays()] == ["rec_other"]


@pytest.mark.parametrize(
    ("body", "faults"),
    [
        ("{}", {"since": "missing"}),
        (
            '{"since": "2025-12-31T00:00:00Z", "state": "pending"}',
            {"state": "send one of failed, delivered, all, missed"},
        ),
        ('{"since": "2025-12-31T00:00:00Z", "state": ["failed"]}', {"state": "unknown"}),
        ('{"since": "2025-12-31T00:00:00Z", "types": "opened"}', {"types": "an array of event types"}),
        ('{"since": "2025-12-31T00:00:00Z", "types": ["opened", "open", 7]}', {"types[1]": "", "types[2]": ""}),
        ('{"since": "2025-12-31T00:00:00Z", "dry_run": "yes"}', {"dry_run": "true or false"}),
        ('{"since": "2025-12-31T00:00:00Z", "from": 1}', {"from": "send since, until, state, types and dry_run"}),
        ('{"until": "2025-12-31", "state": 1}', {"since": "missing", "until": "wrong", "state": "unknown"}),
        ("[]", {"": "a JSON object {since, until?, state?, types?, dry_run?}"}),
    ],
)
async def test_a_wrong_request_is_422_with_its_fields(intake: Intake, body: str, faults: dict[str, str]) -> None:
    """The answer names each fault and the correct form, and no replay begins."""
    problem = refused(await intake.client.post(REPLAYS, content=body), 422)

    assert [fault["field"] for fault in problem["errors"]] == list(faults)
    assert all(says in fault["message"] for fault, says in zip(problem["errors"], faults.values(), strict=True))
    assert await intake.engine.store.running_replays() == []


async def test_a_replay_of_a_deleted_endpoint_ends_at_once(intake: Intake) -> None:
    """The endpoint may be deleted while its replay begins."""
    wanted = Wanted("uid-gone", Choice((State.FAILED,)), 0, BEGUN_MS)

    replay, new = await intake.services.replays.begin_chosen(wanted)

    assert new
    assert await intake.engine.store.running_replays() == []
    found = await intake.services.replays.find(replay.id)
    assert found is not None
    assert found.state is ReplayState.CANCELLED


async def test_a_replay_of_missed_events_names_the_types_of_the_endpoint(intake: Intake) -> None:
    """Without types it takes those to which the endpoint subscribes; a choice without any of them is refused."""
    subscribed = sorted(intake.orders.events)
    counted = await intake.client.post(REPLAYS, json={**SINCE, "state": "missed", "dry_run": True})
    assert (counted.json()["state"], counted.json()["types"], counted.json()["total"]) == ("missed", subscribed, 0)

    intake.registry.put(replace(intake.orders, events=frozenset({"opened"})))
    problem = refused(await intake.client.post(REPLAYS, json={**SINCE, "state": "missed", "types": ["clicked"]}), 422)
    [fault] = problem["errors"]
    assert (fault["field"], "subscribes to none" in fault["message"]) == ("types", True)
    told = await begun(intake, state="missed", types=["clicked", "opened"])
    assert (told["state"], told["types"]) == ("missed", ["opened"])


@pytest.mark.parametrize("keeps", [True, False])
async def test_the_project_decides_whether_an_event_without_a_subscriber_is_stored(
    intake: Intake, *, keeps: bool
) -> None:
    """A kept event is shown without deliveries; otherwise its id is unknown."""
    intake.registry.put(replace(intake.orders, events=frozenset({"opened"})))
    intake.registry.put_project(intake.orders.namespace, "billing", ProjectSettings(keeps_missed=keeps))
    accepted = await intake.client.post("/projects/billing/events", json={"type": "bounced", "messageId": "m-9"})
    assert (accepted.status_code, accepted.json()["deliveries"]) == (202, 0)
    shown = await intake.client.get(f"/events/{accepted.json()['eventIds'][0]}")
    assert shown.status_code == (200 if keeps else 404)
    if keeps:
        assert (shown.json()["deliveries"], "m-9" in shown.json()["body"]) == ([], True)


async def test_a_project_has_no_events_of_an_earlier_one_with_its_name(intake: Intake) -> None:
    """Its owner may be another one, so a replay of missed events begins with its creation, and the event is unknown."""
    keeps = ProjectSettings(keeps_missed=True)
    intake.registry.put(replace(intake.orders, events=frozenset({"opened"})))
    intake.registry.put_project(intake.orders.namespace, "billing", keeps)
    accepted = await intake.client.post("/projects/billing/events", json={"type": "opened", "messageId": "m-9"})
    event = f"/events/{accepted.json()['eventIds'][0]}"
    accepted_at = timestamp(intake.clock())
    intake.clock.advance(5000)
    intake.registry.remove_project(intake.orders.namespace, "billing")
    refused(await intake.client.post(REPLAYS, json={**SINCE, "state": "missed"}), 404)

    created_ms = intake.clock()
    intake.registry.put_project(intake.orders.namespace, "billing", replace(keeps, uid="uid-2", created_ms=created_ms))
    intake.registry.put(replace(intake.orders, uid="uid-new", name="new", events=frozenset({"opened"})))
    assert (await intake.client.get(event)).status_code == 404
    replays = REPLAYS.replace("/orders/", "/new/")
    missed = {**SINCE, "state": "missed", "dry_run": True}
    counted = (await intake.client.post(replays, json=missed)).json()
    assert (counted["since"], counted["total"]) == (timestamp(created_ms), 0)
    problem = refused(await intake.client.post(replays, json={**missed, "until": accepted_at}), 422)
    assert problem["errors"] == [
        {
            "field": "until",
            "message": f'Project "billing" was created at {timestamp(created_ms)}; choose a later time',
        }
    ]

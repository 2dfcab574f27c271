"""The intake's searches of the delivery log, and its answer about one event."""

import asyncio
from dataclasses import replace

from support.api_processes import problem_of
from support.intake import ORDERS, Intake, Tokens
from support.polling import PATIENCE

from hookwright_operator.ids import delivery_id, message_id
from hookwright_operator.registry import ProjectSettings
from hookwright_operator.store.records import Attempt, NewDelivery, NewEvent, Settlement, State

RIVAL = "uid-rival"


async def accept(
    intake: Intake, message: str, *uids: str, namespace: str, project: str = "billing", name: str | None = None
) -> NewEvent:
    """Write an event with failed deliveries into the store."""
    deliveries = tuple(NewDelivery(delivery_id(), uid, claimed=True) for uid in uids)
    body = f'{{"type":"delivered","messageId":"{message}","n":1.10,"recipient":"ada@example.com"}}'.encode()
    ids = (message_id(), namespace, project, name)
    new = NewEvent(*ids, "delivered", body, deliveries, message_id=message, project_uid=project)
    await intake.engine.store.accept([new])
    attempt = Attempt(0, intake.clock(), 12, 500, "answered 500", "no")
    await intake.engine.store.settle(
        [Settlement(delivery.id, delivery.endpoint_uid, attempt, State.FAILED) for delivery in deliveries]
    )
    return new


async def test_a_message_is_found_with_its_deliveries_and_its_event(intake: Intake, tokens: Tokens) -> None:
    """The search names the delivery, its webhook and its event; the event has the exact body."""
    await accept(intake, "m-41", ORDERS, namespace=tokens.namespace)
    new = await accept(intake, "m-42", ORDERS, namespace=tokens.namespace, name="evt-42")

    for query in ({"message_id": "m-42"}, {"event_id": "evt-42"}, {"event_id": new.id, "status_code": "500"}):
        answer = await intake.client.get("/deliveries", params=query)
        assert answer.status_code == 200
        [document] = answer.json()["data"]
        assert (document["id"], document["event_id"], document["webhook"]) == (new.deliveries[0].id, new.id, "orders")
        assert [attempt["statusCode"] for attempt in document["attempts"]] == [500]
        assert answer.json()["next"] is None
    second_document = (await intake.client.get(f"/events/{new.id}")).json()
    assert second_document["body"] == new.body.decode()
    assert [row["id"] for row in second_document["deliveries"]] == [new.deliveries[0].id]
    assert (second_document["id"], second_document["type"], second_document["project"], second_document["next"]) == (
        new.id,
        "delivered",
        "billing",
        None,
    )


async def test_a_search_shows_nothing_of_another_namespace_or_project(intake: Intake, tokens: Tokens) -> None:
    """Equal ids in two namespaces and two projects stay apart, and an unknown project has no deliveries."""
    intake.registry.put(replace(intake.orders, uid=RIVAL, namespace="rival", name="orders"))
    intake.registry.put(replace(intake.orders, uid="uid-ship", name="ship", project="shipping"))
    ours = await accept(intake, "m-1", ORDERS, namespace=tokens.namespace, name="evt-1")
    theirs = await accept(intake, "m-1", RIVAL, namespace="rival", name="evt-1")
    shipping = await accept(intake, "m-1", "uid-ship", namespace=tokens.namespace, project="shipping", name="evt-1")

    async def found(**query: str) -> list[str]:
        answer = await intake.client.get("/deliveries", params=query)
        assert answer.status_code == 200
        return [row["event_id"] for row in answer.json()["data"]]

    async def to(recipient: str, **query: str) -> list[str]:
        answer = await intake.client.post("/search/deliveries", params=query, json={"recipient": recipient})
        assert (answer.status_code, answer.json()["next"]) == (200, None)
        return [row["event_id"] for row in answer.json()["data"]]

    for query in ({"message_id": "m-1"}, {"event_id": "evt-1"}, {"status": "failed"}, {}):
        assert await found(**query) == [shipping.id, ours.id]
        assert await found(**query, project="billing") == [ours.id]
        assert await found(**query, project="rivalry") == []
    for project in ("billing", "shipping"):
        intake.registry.put_project(tokens.namespace, project, ProjectSettings())
    assert await to("ada@example.com") == [shipping.id, ours.id]
    assert await to("ada@example.com", project="billing") == [ours.id]
    assert await to("bob@example.com") == await to("ada@example.com", project="rivalry") == []
    intake.registry.put_project(tokens.namespace, "shipping", ProjectSettings(omits_payloads=True))
    assert await to("ada@example.com") == [ours.id]
    assert await found(event_id=theirs.id) == []
    assert await found(event_id=ours.id, project="shipping") == []
    problem_of(await intake.client.get(f"/events/{theirs.id}"), 404)
    problem_of(await intake.client.get(f"/events/{ours.id}", params={"project": "shipping"}), 404)
    unknown = await intake.client.get("/deliveries", params={"webhook": "ship", "project": "billing"})
    assert '"ship"' in problem_of(unknown, 404)["detail"]


WRONG_VALUES = [
    ("type", "Nonsense"),
    ("status", "lost"),
    ("status_code", "1000"),
    ("status_code", "ok"),
    ("since", "yesterday"),
    ("until", "2026-01-31T12:00:00"),
    ("limit", "0"),
    ("limit", "251"),
    ("cursor", "abc"),
    ("cursor", "dlv_8ZZZZZZZZZZZZZZZZZZZZZZZZZ"),
    ("message_id", "m" * 257),
    ("event_id", "a\nb"),
    ("messageId", "m-42"),
]


async def test_a_wrong_value_is_422_and_names_its_field(intake: Intake) -> None:
    """A parameter that is not known is wrong too, and so is an end before the beginning."""
    for field, value in WRONG_VALUES:
        problem = problem_of(await intake.client.get("/deliveries", params={field: value}), 422)
        assert [fault["field"] for fault in problem["errors"]] == [field]
    times = {"since": "2026-02-01T00:00:00Z", "until": "2026-01-31T00:00:00Z"}
    assert problem_of(await intake.client.get("/deliveries", params=times), 422)["errors"][0]["field"] == "until"


async def test_the_pages_of_a_search_have_each_delivery_once(intake: Intake, tokens: Tokens) -> None:
    """The cursors lead through all pages of a combined search."""
    new = [await accept(intake, f"m-{number}", ORDERS, namespace=tokens.namespace) for number in range(5)]
    query = {"type": "delivered", "status_code": "500", "since": "2020-01-01T00:00:00Z", "limit": "2"}

    ids: list[str] = []
    cursor: dict[str, str] = {}
    async with asyncio.timeout(PATIENCE):
        while True:
            page = (await intake.client.get("/deliveries", params={**query, **cursor})).json()
            ids += [row["event_id"] for row in page["data"]]
            if page["next"] is None:
                break
            cursor = {"cursor": page["next"]}
    assert ids == [event.id for event in new[::-1]]
    assert (await intake.client.get("/deliveries", params={"until": "2020-01-01T00:00:00Z"})).json()["data"] == []


async def test_too_many_searches_of_a_namespace_are_429(intake: Intake) -> None:
    """Searches and pages of one endpoint share the turns of the delivery log of their namespace."""
    paths = ["/deliveries", "/webhookendpoints/orders/deliveries"] * 20
    answers = await asyncio.gather(*map(intake.client.get, paths))
    assert {answer.status_code for answer in answers} <= {200, 429}
    assert [answer.status_code for answer in answers].count(200) >= 16

"""Own event types at the intake: an organization sends events of its EventTypes."""

import json
from dataclasses import replace

import pytest
import pytest_asyncio
from support.api_processes import problem_of
from support.intake import Intake, Tokens

ROUTE = "/projects/billing/events"
REPLAYS = "/webhookendpoints/orders/replays"
PAID = {"type": "invoice.paid", "invoice": {"id": 42, "total": 19.50}}


@pytest_asyncio.fixture
async def shop(intake: Intake, tokens: Tokens) -> Intake:
    """Return an intake whose namespace has the EventType invoice.paid, to which the endpoint subscribes."""
    intake.registry.put_event_type(tokens.namespace, "invoice.paid", "")
    intake.registry.put(replace(intake.orders, events=frozenset({"invoice.paid"})))
    return intake


async def test_an_event_of_an_own_type_is_accepted_as_it_is(shop: Intake) -> None:
    """It needs neither id nor messageId, and the receiver gets its fields alone."""
    answer = await shop.client.post(ROUTE, json=[PAID, {**PAID, "messageId": "m-1", "id": "e-1"}])
    assert (answer.status_code, answer.json()["deliveries"]) == (202, 2)
    bodies = [json.loads(body) for *_, body in await shop.events()]
    assert bodies == [PAID, {**PAID, "messageId": "m-1", "id": "e-1"}]


async def test_every_cloudevents_mode_carries_an_own_type(shop: Intake) -> None:
    """The prefix of Hookwright may stand before the type or not; the data is a free object."""
    data = {"invoice": 42}
    common = {"specversion": "1.0", "source": "/shop", "type": "dev.hookwright.invoice.paid"}
    requests: list[tuple[dict[str, str], object]] = [
        (
            {"content-type": "application/json", "ce-id": "1", **{f"ce-{name}": text for name, text in common.items()}},
            data,
        ),
        ({"content-type": "application/cloudevents+json"}, {**common, "id": "2", "data": data}),
        (
            {"content-type": "application/cloudevents-batch+json"},
            [{**common, "type": "invoice.paid", "id": "3", "data": data}],
        ),
    ]
    for headers, content in requests:
        answer = await shop.client.post(ROUTE, content=json.dumps(content), headers=headers)
        assert answer.status_code == 202, answer.text
    assert [body for *_, body in await shop.events()] == [b'{"type":"invoice.paid","invoice":42}'] * 3


async def test_a_type_of_nobody_is_refused_with_the_nearest(shop: Intake, tokens: Tokens) -> None:
    """The answer names field and nearest types; after its EventType is gone, a type is refused too."""
    problem = problem_of(await shop.client.post(ROUTE, json=[PAID, {**PAID, "type": "invoice.payed"}]), 422)
    assert problem["errors"] == [
        {"field": "[1].type", "message": "unknown event type 'invoice.payed'; the nearest is invoice.paid"}
    ]
    shop.registry.remove_event_type(tokens.namespace, "invoice.paid")
    [fault] = problem_of(await shop.client.post(ROUTE, json=PAID), 422)["errors"]
    assert fault["message"].startswith("unknown event type 'invoice.paid'; built in are delivered, bounced")
    assert await shop.events() == []


async def test_the_type_of_another_organization_is_unknown(intake: Intake) -> None:
    """An EventType is of its namespace alone, and no refusal names it."""
    intake.registry.put_event_type("elsewhere", "invoice.paid", "")
    [fault] = problem_of(await intake.client.post(ROUTE, json={**PAID, "type": "invoice.payed"}), 422)["errors"]
    assert "invoice.paid" not in fault["message"]
    problem_of(await intake.client.post(ROUTE, json=PAID), 422)


@pytest.mark.parametrize("message_id", [7, "", None, "a\nb"])
async def test_a_message_id_of_an_own_type_is_one_if_it_is_there(shop: Intake, message_id: object) -> None:
    """The delivery log is searched by it, so it has the form of every messageId."""
    [fault] = problem_of(await shop.client.post(ROUTE, json={**PAID, "messageId": message_id}), 422)["errors"]
    assert fault["field"] == "messageId"


async def test_the_wildcard_for_all_includes_own_types(shop: Intake) -> None:
    """Wildcards of channels do not, and no wildcard includes a type that is Hookwright's."""
    for events, deliveries in (({"*"}, 1), ({"delivered", "wa_sent"}, 0)):
        shop.registry.put(replace(shop.orders, events=frozenset(events)))
        answer = await shop.client.post(ROUTE, json=PAID)
        assert (answer.status_code, answer.json()["deliveries"]) == (202, deliveries)
    shop.registry.put(replace(shop.orders, events=frozenset({"*"})))
    assert list(shop.registry.subscribers(shop.orders.namespace, "billing", "hookwright.delivery.failed")) == []


async def test_a_replay_of_missed_events_chooses_own_types(shop: Intake) -> None:
    """An endpoint with the wildcard for all has missed all types, also those whose EventType is gone."""
    shop.registry.remove_event_type(shop.orders.namespace, "invoice.paid")
    shop.registry.put(replace(shop.orders, events=frozenset({"*", "delivered"})))
    missed = {"since": "2025-12-31T23:00:00Z", "state": "missed", "dry_run": True}
    for choice, types in (({}, []), ({"types": ["invoice.paid"]}, ["invoice.paid"])):
        assert (await shop.client.post(REPLAYS, json={**missed, **choice})).json()["types"] == types
    problem_of(await shop.client.post(REPLAYS, json={**missed, "types": ["hookwright.delivery.failed"]}), 422)


async def test_deliveries_of_an_own_type_are_found(shop: Intake) -> None:
    """A search by type takes every name in the form of one."""
    await shop.client.post(ROUTE, json=PAID)
    for name, number in (("invoice.paid", 1), ("dev.hookwright.invoice.paid", 1), ("invoice.sent", 0)):
        answer = await shop.client.get("/deliveries", params={"type": name})
        assert (answer.status_code, len(answer.json()["data"])) == (200, number), answer.text


async def test_a_test_of_an_own_type_has_no_message_id(shop: Intake) -> None:
    """It has the payload of its caller and the mark of a test; an unknown type is refused."""
    answer = await shop.client.post(
        "/webhookendpoints/orders/test", json={"type": "invoice.paid", "payload": {"invoice": 42}}
    )
    assert answer.status_code == 200, answer.text
    problem_of(await shop.client.post("/webhookendpoints/orders/test", json={"type": "invoice.payed"}), 422)
    [(*_, body)] = await shop.events()
    assert body == b'{"type":"invoice.paid","invoice":42,"test":true}'

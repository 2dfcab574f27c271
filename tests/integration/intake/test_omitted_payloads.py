"""A Project can keep payloads out of its delivery log; its deliveries have the same bytes as before."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from aiohttp import web
from support.attempts import SECRET
from support.intake import ORDERS, Intake

from hookwright_dev.receiver import Received, Receiver
from hookwright_operator.registry import ProjectSettings

BODY = b'{"type":"delivered","messageId":"m-42","to":"+491701234567"}'
PERSONAL = "+491701234567"
OMIT, KEEP = ProjectSettings(omits_payloads=True), ProjectSettings()


def echoed(received: Received) -> web.Response:
    """Answer with the body of the request, as a careless receiver does."""
    return web.Response(status=200, body=received.body)


async def reads(intake: Intake, event: str, delivery: str) -> dict[str, Mapping[str, Any]]:
    """Return the answers of all routes that read the log."""
    paths = {
        "page": "/webhookendpoints/orders/deliveries",
        "one": f"/webhookendpoints/orders/deliveries/{delivery}",
        "find": f"/deliveries/{delivery}",
        "search": "/deliveries?message_id=m-42",
        "event": f"/events/{event}",
    }
    answers = {name: await intake.client.get(path) for name, path in paths.items()}
    assert {answer.status_code for answer in answers.values()} == {200}
    return {name: {"text": answer.text, **answer.json()} for name, answer in answers.items()}


async def sent(intake: Intake, receiver: Receiver) -> tuple[str, str]:
    """Deliver one event to the receiver, and return the ids of the event and of its delivery."""
    receiver.answer = echoed
    intake.registry.put(replace(intake.orders, url=f"{receiver.url}/hooks", suspend=False, secrets=(SECRET,)))
    headers = {"Content-Type": "application/json"}
    response = await intake.client.post("/projects/billing/events", content=BODY, headers=headers)
    await intake.engine.ended(ORDERS, 1)
    [record] = await intake.engine.log(ORDERS)
    return response.json()["event_ids"][0], record.id


def put_project(intake: Intake, settings: ProjectSettings) -> None:
    """Set the settings of the project, as reconciling does."""
    intake.registry.put_project(intake.orders.namespace, "billing", settings)


async def test_no_read_shows_a_payload_and_every_delivery_has_it(intake: Intake) -> None:
    """Each omitted body has the reason beside it; a retry by hand sends the same bytes; no answer is stored."""
    put_project(intake, OMIT)
    async with Receiver() as receiver:
        event, delivery = await sent(intake, receiver)
        answers = await reads(intake, event, delivery)
        assert (await intake.client.post(f"/deliveries/{delivery}/retry")).status_code == 202
        await receiver.wait_for(2)
        assert [received.body for received in receiver.received] == [BODY, BODY]

    assert [name for name, answer in answers.items() if PERSONAL in answer["text"]] == []
    for request in (answers["one"]["request"], answers["find"]["request"], answers["event"]):
        assert request["body"] is None
        assert "spec.deliveryLog.payloads is Omit" in request["body_omitted"]
    pages = (answers["page"]["data"], answers["search"]["data"], answers["event"]["deliveries"])
    for value in (answers["one"], answers["find"], *(row for page in pages for row in page)):
        [attempt] = value["attempts"]
        assert (attempt["statusCode"], attempt["response"]) == (200, "")
        assert "spec.deliveryLog.payloads is Omit" in attempt["response_omitted"]
    first = (await intake.delivery(delivery)).attempts[0]
    assert first.response == ""


async def test_a_change_of_the_setting_is_in_effect_at_once_for_earlier_deliveries(intake: Intake) -> None:
    """Omit hides stored payloads, Keep shows them again; without the Project nobody knows, so they are hidden."""
    async with Receiver() as receiver:
        event, delivery = await sent(intake, receiver)
    for settings in (OMIT, None):
        if settings is not None:
            put_project(intake, settings)
        else:
            intake.registry.remove_project(intake.orders.namespace, "billing")
        secret = await reads(intake, event, delivery)
        assert [name for name, answer in secret.items() if PERSONAL in answer["text"]] == []
    put_project(intake, KEEP)
    page = await reads(intake, event, delivery)
    assert [name for name, answer in page.items() if PERSONAL not in answer["text"]] == []
    assert page["event"]["body"] == BODY.decode()
    assert not {"body_omitted", "response_omitted"} & {*page["event"], *page["find"]["attempts"][0]}


async def test_a_test_of_an_endpoint_is_recorded_without_its_payload(intake: Intake) -> None:
    """The log of tests follows the same setting."""
    put_project(intake, OMIT)
    async with Receiver() as receiver:
        receiver.answer = echoed
        intake.registry.put(replace(intake.orders, url=f"{receiver.url}/hooks", secrets=(SECRET,)))
        second_answer = await intake.client.post("/webhookendpoints/orders/test", json={"payload": {"to": PERSONAL}})
        assert PERSONAL.encode() in receiver.received[0].body
    delivery = second_answer.json()["delivery_id"]
    answer = await intake.client.get(f"/deliveries/{delivery}")
    assert PERSONAL not in answer.text
    assert (await intake.delivery(delivery)).attempts[0].response == ""

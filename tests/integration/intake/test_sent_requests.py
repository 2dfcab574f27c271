"""A delivery is shown with its request as the receiver got it, and with the headers of each attempt."""

import asyncio
import threading
from dataclasses import replace

import pytest
from aiohttp import web
from support.attempts import OLDER, SECRET
from support.intake import ORDERS, Intake
from support.polling import until

from hookwright_crds.endpoint_fields import ExtraSignature
from hookwright_dev.receiver import Received, Receiver
from hookwright_operator.services.delivery_log import DeliveryLog
from hookwright_operator.store.records import DeliveryRecord
from hookwright_runtime.bounds import SIGNINGS

NEWER = "whsec_" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY="
BODY = b'{"type":"delivered","messageId":"m-42","n":1.10}'
CREDENTIAL = "Bearer of-the-receiver"
EXTRA = ExtraSignature(form="stripe", header="Stripe-Signature")


def answered(_: Received) -> web.Response:
    """Answer with a cookie, and with a header twice."""
    response = web.Response(status=200, text="thanks", headers={"X-Request-Id": "r-17", "Set-Cookie": "session=s3cr3t"})
    response.headers.add("Via", "1.1 a")
    response.headers.add("Via", "1.1 b")
    return response


async def delivered(intake: Intake, receiver: Receiver, **change: object) -> DeliveryRecord:
    """Deliver one event to the receiver, and return the delivery."""
    receiver.answer = answered
    container = (("Authorization", CREDENTIAL), ("X-Tenant", "acme"))
    endpoint = replace(
        intake.orders, url=f"{receiver.url}/hooks?x=1", suspend=False, headers=container, secrets=(SECRET,)
    )
    intake.registry.put(replace(endpoint, **change))  # type: ignore[arg-type]
    path = "/projects/billing/events"
    await intake.client.post(path, content=BODY, headers={"Content-Type": "application/json"})
    await intake.engine.ended(ORDERS, 1)
    [record] = await intake.engine.log(ORDERS)
    return record


async def shown(intake: Intake, record: DeliveryRecord) -> tuple[dict[str, object], dict[str, object]]:
    """Return the request and the only attempt of the answer."""
    answer = await intake.client.get(f"/deliveries/{record.id}")
    assert answer.status_code == 200
    assert SECRET not in answer.text
    assert CREDENTIAL not in answer.text
    document = answer.json()
    [attempt] = document["attempts"]
    return document["request"], attempt


async def test_the_request_is_shown_as_the_receiver_got_it(intake: Intake) -> None:
    """Body and signatures are equal; the values of the endpoint's own headers and of cookies are hidden."""
    async with Receiver() as receiver:
        record = await delivered(intake, receiver, extra_signature=EXTRA)
        [received] = receiver.received
        request, attempt = await shown(intake, record)

    assert request == {"method": "POST", "url": f"{receiver.url}/hooks?x=1", "body": received.body.decode()}
    headers = attempt["request_headers"]
    assert isinstance(headers, dict)
    result = {name.lower(): value for name, value in received.headers.items()}
    secret = {"authorization": "(hidden)", "x-tenant": "(hidden)"}
    assert {name.lower(): value for name, value in headers.items()} == {**result, **secret}
    assert {"x-service-signature", "webhook-signature", "webhook-timestamp", "stripe-signature"} <= set(result)
    assert (attempt["signature_known"], attempt["endpoint_changed"]) == (True, False)
    answer = attempt["response_headers"]
    assert isinstance(answer, dict)
    assert (answer["X-Request-Id"], answer["Via"], answer["Set-Cookie"]) == ("r-17", "1.1 a, 1.1 b", "(hidden)")


async def test_a_signature_whose_secret_was_rotated_away_is_not_shown(intake: Intake) -> None:
    """During the overlap the old secret still computes it; afterwards the answer says that it is not known."""
    async with Receiver() as receiver:
        record = await delivered(intake, receiver)
        signature = receiver.received[0].headers["webhook-signature"]
        endpoint = intake.orders

        intake.registry.put(replace(endpoint, secrets=(NEWER, SECRET)))
        _, attempt = await shown(intake, record)
        assert attempt["signature_known"] is True
        assert attempt["request_headers"]["webhook-signature"] == signature  # type: ignore[index]

        intake.registry.put(replace(endpoint, secrets=(NEWER,)))
        _, attempt = await shown(intake, record)
        assert attempt["signature_known"] is False
        headers = attempt["request_headers"]
        assert isinstance(headers, dict)
        assert not {"webhook-signature", "X-Service-Signature"} & set(headers)
        assert headers["webhook-timestamp"] == receiver.received[0].headers["webhook-timestamp"]


async def test_headers_of_a_changed_endpoint_are_not_shown(intake: Intake) -> None:
    """The URL is that of now; the answer says that the endpoint has changed, also if only the extra signature has."""
    async with Receiver() as receiver:
        record = await delivered(intake, receiver, secrets=(SECRET, OLDER))
        intake.registry.put(replace(intake.orders, extra_signature=EXTRA))
        _, attempt = await shown(intake, record)
        assert (attempt["signature_known"], attempt["endpoint_changed"]) == (True, True)
        assert "Stripe-Signature" not in attempt["request_headers"]  # type: ignore[operator]
        intake.registry.put(replace(intake.orders, url="https://example.com/new"))
        request, attempt = await shown(intake, record)

    assert request["url"] == "https://example.com/new"
    assert (attempt["signature_known"], attempt["endpoint_changed"]) == (True, True)
    assert "Host" not in attempt["request_headers"]  # type: ignore[operator]


@pytest.mark.parametrize("path", ["/deliveries/{}", "/webhookendpoints/orders/deliveries/{}"])
async def test_attempts_are_signed_again_beside_the_event_loop(
    intake: Intake, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """A namespace signs one delivery at a time, so that it cannot use all threads; 15 of its requests wait."""
    threads, go_on = [], threading.Event()
    body = DeliveryLog.sent

    def held(*given: object) -> object:
        threads.append(threading.current_thread())
        assert go_on.wait(60)
        return body(*given)  # type: ignore[arg-type]

    async with Receiver() as receiver:
        record = await delivered(intake, receiver)
    monkeypatch.setattr(DeliveryLog, "sent", held)
    # The first request is authorized alone, so that the others have a grant.
    assert (await intake.client.get(path.format("unknown"))).status_code == 404
    asks = [intake.client.get(path.format(record.id)) for _ in range(SIGNINGS.each + 3)]
    requests = [asyncio.ensure_future(ask) for ask in asks]
    try:
        await until(lambda: sum(request.done() for request in requests) == 3)
        assert len(threads) == 1
    finally:
        go_on.set()
    statuses = [answer.status_code for answer in await asyncio.gather(*requests)]
    assert sorted(statuses) == [200] * SIGNINGS.each + [429] * 3
    assert threading.main_thread() not in threads

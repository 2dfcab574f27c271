"""From an accepted event to a signed delivery, on a real cluster, with a real operator and real receivers."""

import json
import subprocess
import threading
from collections.abc import Iterator
from itertools import pairwise

import pytest
from cluster.conftest import SCHEDULE
from support.cluster_actions import Organization, delivered, endpoint, manifest, message_ids, receiving
from support.polling import eventually

from hookwright_operator.delivery.attempt import RetrySchedule

DELAYS = [delay / 1000 for delay in RetrySchedule.parse(SCHEDULE).delays_ms]
BODY = '{"type":"delivered","messageId":"m1","größe":1.50}'


def test_an_event_arrives_signed_byte_for_byte_as_openssl_computes_it(org: Organization) -> None:
    """The receiver's check is one line of shell over the raw body and the Secret's field."""
    with receiving() as receiver:
        org.with_endpoint(endpoint("orders", receiver.url))
        answer = org.post(BODY.encode())
        assert answer.status_code == 202
        (event_id,) = answer.json().pop("event_ids")
        assert answer.json() == {"accepted": 1, "duplicates": 0, "deliveries": 1, "event_ids": [event_id]}
        (request,) = eventually(lambda: receiver.received, "the delivery")
    assert request.headers["webhook-id"] == event_id
    assert json.loads(request.body) == json.loads(BODY)
    field = (org.get("secret", "orders-signing") or {})["data"]["secret"]
    result = subprocess.run(
        ["bash", "-c", 'openssl dgst -sha256 -hmac "$(printf %s "$FIELD" | base64 -d)"'],
        input=request.body,
        env={"FIELD": field, "PATH": "/usr/bin:/bin:/usr/local/bin"},
        capture_output=True,
        check=True,
    )
    assert result.stdout.decode().split()[-1] == request.headers["X-Service-Signature"]
    assert request.headers["Content-Type"] == "application/json"
    assert request.headers["webhook-id"].startswith("msg_")
    assert request.headers["User-Agent"].startswith("Hookwright/")


def test_a_failing_receiver_sees_every_attempt_at_the_schedule_s_delays_and_then_no_more(org: Organization) -> None:
    """After 1 + 5 attempts with one ``webhook-id`` the delivery is failed in status, Events, reports and a metric."""
    count = org.metric("hookwright_deliveries_total", outcome="failed")
    with receiving(lambda _: 500) as receiver, receiving() as on_call:
        org.with_endpoint(endpoint("on-call", on_call.url, events=["hookwright.delivery.failed"]))
        org.with_endpoint(endpoint("flaky", receiver.url))
        org.send(delivered(1))
        eventually(lambda: org.status("hwep", "flaky")["deliveries"]["failed"] == 1, "the status shows that it failed")
        arrivals = [request.at for request in receiver.received]
        assert len(arrivals) == 1 + len(DELAYS)
        assert len({request.id for request in receiver.received}) == 1
        for (sooner, later), delay in zip(pairwise(arrivals), DELAYS, strict=True):
            assert delay - 0.02 <= later - sooner <= delay + 0.75
        (event,) = eventually(lambda: org.events("DeliveryFailed"), "an Event")
        assert event["type"] == "Warning"
        assert "500" in event["message"]
        (notice,) = eventually(lambda: on_call.received, "the operational event")
        body = json.loads(notice.body)
        assert (body["type"], body["endpoint"], body["count"]) == ("hookwright.delivery.failed", "flaky", 1)
        assert body["message"] == event["message"]
        assert org.metric("hookwright_deliveries_total", outcome="failed") - count == 1
        assert org.condition("hwep", "flaky", "Reachable") == "False AttemptFailed"
        assert len(receiver.received) == 1 + len(DELAYS), "nothing is sent after the last attempt"
        receiver.answer = lambda _: 200
        org.send(delivered(2))
        org.wait_for("hwep", "flaky", "True Delivered", type_="Reachable")


def test_suspending_holds_deliveries_and_resuming_lets_them_go_in_order_of_age(org: Organization) -> None:
    """No delivery is sent or lost during the suspension, and the oldest is sent first after it."""
    with receiving() as receiver:
        org.with_endpoint(endpoint("orders", receiver.url, maxInFlight=1))
        org.patch("hwep", "orders", {"spec": {"suspend": True}})
        org.wait_for("hwep", "orders", "True Suspended")
        for number in range(100):
            assert org.send(delivered(number))["deliveries"] == 1
        eventually(lambda: org.status("hwep", "orders")["deliveries"]["pending"] == 100, "the status shows them")
        assert receiver.received == []
        org.patch("hwep", "orders", {"spec": {"suspend": False}})
        eventually(lambda: len(receiver.received) == 100, "all are delivered")
        assert message_ids(receiver.received) == [str(number) for number in range(100)]


def test_many_producers_at_once_lose_and_repeat_nothing(org: Organization) -> None:
    """Concurrent requests share transactions; each subscriber gets each event once, and no other endpoint gets it."""
    with receiving() as orders, receiving() as audits, receiving() as bounces:
        org.apply(
            manifest("Project", "billing"),
            endpoint("orders", orders.url),
            endpoint("audits", audits.url, events=["delivered", "bounced"]),
            endpoint("bounces", bounces.url, events=["bounced"]),
        )
        for name in ("orders", "audits", "bounces"):
            org.wait_for("hwep", name, "True Delivering")
        for thread in (threads := list(producers(org))):
            thread.start()
        for thread in threads:
            thread.join(30)
        eventually(lambda: len(audits.received) >= 200, "the audits have everything")
        eventually(lambda: len(orders.received) >= 200, "the orders have everything")
        assert sorted(map(int, message_ids(orders.received))) == list(range(200))
        assert sorted(map(int, message_ids(audits.received))) == list(range(200))
        assert bounces.received == []


def producers(org: Organization) -> Iterator[threading.Thread]:
    """Yield eight threads that send 25 events each."""

    def produce(first: int) -> None:
        for number in range(first, first + 25):
            org.send(delivered(number))

    for first in range(0, 200, 25):
        yield threading.Thread(target=produce, args=(first,))


def test_an_endpoint_that_nobody_can_connect_to_is_reported_in_plain_words(org: Organization) -> None:
    """A closed port is a normal attempt: recorded, retried, and shown in the condition."""
    org.with_endpoint(endpoint("gone", "http://127.0.0.1:9/"))
    org.send(delivered(1))
    org.wait_for("hwep", "gone", "False AttemptFailed", type_="Reachable")
    message = next(
        condition["message"]
        for condition in org.status("hwep", "gone")["conditions"]
        if condition["type"] == "Reachable"
    )
    assert "refused" in message.lower()
    assert org.status("hwep", "gone")["deliveries"]["lastStatusCode"] == 0


@pytest.mark.parametrize("url", ["http://169.254.169.254/latest/meta-data", "http://10.0.0.1/"])
def test_the_guard_lets_nothing_out_to_special_networks(org: Organization, url: str) -> None:
    """The endpoint is accepted, because admission knows no settings; its condition has the reason, and events wait."""
    org.apply(manifest("Project", "billing"), endpoint("inside", url))
    org.wait_for("hwep", "inside", "False AddressRefused")
    (ready, *_) = org.status("hwep", "inside")["conditions"]
    assert "HOOKWRIGHT_ALLOWED_NETWORKS" in ready["message"]
    assert org.send(delivered(1))["deliveries"] == 1
    eventually(lambda: org.status("hwep", "inside")["deliveries"]["pending"] == 1, "the delivery waits")
    assert org.condition("hwep", "inside", "Reachable") == "Unknown NotTried"

"""Replays through the API, with a real operator."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
from support.api_processes import Organization, problem_of
from support.api_receiver import Received
from support.polling import eventually

HOUR_AGO = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
CHOSEN = {"since", "until", "state", "types", "total", "total_is_exact"}
REPLAY = {"id", "status", "done", "begun_at", "ended_at", *CHOSEN}


def test_delivered_events_arrive_again(acme: Organization, client: httpx.Client, receiver: Received) -> None:
    """A dry run counts, a replay sends only the chosen type, and its progress has an address."""
    key = acme.service_key()
    name = acme.webhook(key, f"{receiver.url}/again", events=["delivered", "opened"])["id"]
    events = [{"type": kind, "messageId": f"{acme.name}-{kind}"} for kind in ("delivered", "opened")]
    client.post("/v1/events", json=events, headers=key)
    log = f"/v1/webhooks/{name}/deliveries?status=delivered"
    eventually(lambda: len(client.get(log, headers=key).json()["data"]) == 2, "both are delivered")
    replays = f"/v1/webhooks/{name}/replays"
    expected = {"since": HOUR_AGO, "state": "delivered", "types": ["opened"]}

    response = client.post(replays, json={**expected, "dry_run": True}, headers=key)
    assert (response.status_code, set(response.json())) == (200, {"dry_run", *CHOSEN})
    assert (response.json()["total"], response.json()["total_is_exact"]) == (1, True)
    assert client.get(replays, headers=key).json() == {"data": []}

    answer = client.post(replays, json=expected, headers=key)
    assert (answer.status_code, set(answer.json())) == (202, REPLAY)
    place = answer.headers["location"]
    assert place == f"{replays}/{answer.json()['id']}"

    def told() -> Any:
        return client.get(place, headers=acme.session()).json()

    eventually(lambda: told()["status"] == "completed", "the replay has ended")
    assert (told()["total"], told()["done"]) == (1, 1)
    assert client.get(replays, headers=key).json() == {"data": [told()]}

    def arrived(kind: str) -> int:
        return sum(f"{acme.name}-{kind}".encode() in body for _, _, body in receiver.requests)

    eventually(lambda: arrived("opened") == 2, "the second delivery")
    assert arrived("delivered") == 1
    assert "is completed" in problem_of(client.delete(place, headers=key), 409)["detail"]


def test_a_webhook_that_is_made_later_gets_the_events_that_it_missed(
    acme: Organization, client: httpx.Client, receiver: Received
) -> None:
    """The Project keeps events without a subscriber; a replay sends them once, with the bytes of their acceptance."""
    key = acme.service_key(acme.project("early"))
    acme.apply({"kind": "Project", "metadata": {"name": "early"}, "spec": {"deliveryLog": {"missedEvents": "Keep"}}})

    def kept() -> bool:
        event = {"type": "delivered", "messageId": f"{acme.name}-missed"}
        [event_id] = client.post("/v1/events", json=event, headers=key).json()["event_ids"]
        return client.get(f"/v1/events/{event_id}", headers=key).is_success

    eventually(kept, "an event that is stored")
    name = acme.webhook(key, f"{receiver.url}/late")["id"]
    replays = f"/v1/webhooks/{name}/replays"
    expected = {"since": HOUR_AGO, "state": "missed"}
    document = client.post(replays, json={**expected, "dry_run": True}, headers=key).json()
    assert (document["total"], document["types"]) == (1, ["delivered"])
    answer = client.post(replays, json=expected, headers=key)
    assert answer.status_code == 202

    def arrived() -> int:
        return sum(f"{acme.name}-missed".encode() in body for _, _, body in receiver.requests)

    log = f"/v1/webhooks/{name}/deliveries?status=delivered"
    eventually(lambda: len(client.get(log, headers=key).json()["data"]) == 1, "the delivery")
    assert arrived() == 1
    assert client.post(replays, json={**expected, "dry_run": True}, headers=key).json()["total"] == 0

"""A replay by a real operator that is killed and started again during the replay."""

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from support.cluster_actions import Organization, delivered, endpoint, message_ids, receiving
from support.polling import eventually

from hookwright_operator.services.replays import REPLAYED_AT_ONCE

EVENTS = REPLAYED_AT_ONCE + 50


@pytest.mark.slow
def test_a_replay_survives_a_kill_of_the_operator(org: Organization) -> None:
    """The replay continues at its last position, and at the end the receiver has every failed delivery."""
    since = datetime.now(UTC).isoformat()
    with receiving(lambda _: 500) as receiver:
        org.with_endpoint(endpoint("orders", f"http://127.0.0.1:{receiver.port}", maxInFlight=64))
        org.send(*[delivered(number) for number in range(EVENTS)])
        eventually(lambda: failures(org) == EVENTS, "everything has failed", within=60)
        suspend(org, suspended=True)
        receiver.received.clear()
        receiver.answer = lambda _: 200

        body = call(org, "POST", "replays", json={"since": since})
        assert (body.status_code, body.json()["total"]) == (202, EVENTS)
        job = f"replays/{body.json()['id']}"
        eventually(lambda: told(org, job)["done"] == REPLAYED_AT_ONCE, "the first batch is pending")
        org.operator.kill()
        org.operator.start()

        assert told(org, job).items() >= {"status": "running", "done": REPLAYED_AT_ONCE, "total": EVENTS}.items()
        assert call(org, "POST", "replays", json={"since": since}).status_code == 409
        suspend(org, suspended=False)
        eventually(lambda: told(org, job)["status"] == "completed", "the job has ended", within=60)
        assert told(org, job)["done"] == EVENTS
        eventually(lambda: len(set(message_ids(receiver.received))) == EVENTS, "all have arrived", within=60)
        eventually(lambda: failures(org) == 0, "nothing is failed any more")


def call(org: Organization, method: str, path: str, **options: Any) -> httpx.Response:
    """Send a request about the endpoint to the intake."""
    url = f"{org.operator.intake_url}/v1alpha1/namespaces/{org.namespace}/webhookendpoints/orders/{path}"
    headers = {"Authorization": f"Bearer {org.token}"}
    return httpx.request(method, url, headers=headers, timeout=30, trust_env=False, **options)


def told(org: Organization, job: str) -> dict[str, Any]:
    """Return the state of a replay."""
    answer = call(org, "GET", job)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def failures(org: Organization) -> int:
    """Return how many failed deliveries the log has."""
    query = {"status": "failed", "limit": "250"}
    count = 0
    while True:
        page = call(org, "GET", "deliveries", params=query).json()
        count += len(page["data"])
        if page["next"] is None:
            return count
        query["cursor"] = page["next"]


def suspend(org: Organization, *, suspended: bool) -> None:
    """Suspend or resume the endpoint, and return when the operator has seen it."""
    org.patch("hwep", "orders", {"spec": {"suspend": suspended}})

    def observed() -> bool:
        document = org.get("hwep", "orders") or {}
        return bool(document["status"].get("observedGeneration") == document["metadata"]["generation"])

    eventually(observed, "the operator has seen the change")

"""Statistics through the API, with a real operator."""

from typing import Any

import httpx
from support.api_processes import Organization
from support.api_receiver import Received
from support.polling import eventually

NUMBERS = {"delivered", "failed", "attempts", "failed_attempts", "latency_p50_ms", "latency_p95_ms"}


def test_a_delivery_is_in_the_statistics_of_its_webhook_and_project(
    acme: Organization, client: httpx.Client, receiver: Received
) -> None:
    """A key and a session get the same numbers, by name and by uid of the project."""
    key, session = acme.service_key(), acme.session()
    name = acme.webhook(key, f"{receiver.url}/a")["id"]
    second_webhook = acme.webhook(key, f"{receiver.url}/b", events=["opened"])["id"]
    client.post("/v1/events", json={"type": "delivered", "messageId": "m"}, headers=key)

    def counted() -> Any:
        document = client.get(f"/v1/webhooks/{name}/statistics?window=1h", headers=key).json()
        return document if document["total"]["attempts"] else None

    document = eventually(counted, "the attempt in the statistics")
    assert set(document) == {"window", "bucket_seconds", "since", "until", "total", "buckets", "messages"}
    assert (document["total"]["delivered"], document["total"]["failed"], len(document["buckets"])) == (1, 0, 60)
    assert set(document["total"]) == NUMBERS
    assert set(document["buckets"][0]) == {"since", *NUMBERS}
    assert document["total"]["latency_p50_ms"] >= 0
    for headers in (key, session):
        of_project = client.get("/v1/projects/billing/statistics?window=1h", headers=headers).json()
        assert of_project["total"] == document["total"]
    assert client.get(f"/v1/webhooks/{second_webhook}/statistics", headers=session).json()["total"]["attempts"] == 0

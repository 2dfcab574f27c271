"""Event types through the API."""

import httpx
from support.api_processes import Organization

from hookwright_crds.events import ALL_TYPES, EVENT_TYPES, SUBSCRIPTIONS


def test_the_catalogue_has_every_type_and_its_wildcards_can_be_subscribed_to(
    acme: Organization, client: httpx.Client
) -> None:
    """A client builds the `events` of a webhook from the answer alone."""
    key = acme.service_key()
    types = client.get("/v1/event-types", headers=key).json()["data"]
    assert [entry["type"] for entry in types] == [*ALL_TYPES]
    assert set(types[0]) == {"type", "channel", "meaning", "example", "wildcards"}
    wildcards = [*dict.fromkeys(wildcard for entry in types for wildcard in entry["wildcards"])]
    assert {*wildcards, *ALL_TYPES} == {*SUBSCRIPTIONS}
    subscriptions = [*wildcards, ALL_TYPES[-1]]
    assert acme.webhook(key, events=subscriptions)["events"] == subscriptions


def test_the_examples_are_accepted_as_events(acme: Organization, client: httpx.Client) -> None:
    """A producer can copy each example of a type that producers send, which is one with a wildcard."""
    key = acme.service_key()
    rows = client.get("/v1/event-types", headers=key).json()["data"]
    examples = [row["example"] for row in rows if row["wildcards"]]
    answer = client.post("/v1/events", json=examples, headers=key)
    assert (answer.status_code, answer.json()["accepted"]) == (202, len(EVENT_TYPES))

"""Event types and the AsyncAPI description through the API."""

import httpx
from support.api_processes import Organization, problem_of

from hookwright_crds.events import EVENT_TYPES, SUBSCRIPTIONS


def test_the_catalogue_has_every_type_and_its_wildcards_can_be_subscribed_to(
    acme: Organization, client: httpx.Client
) -> None:
    """A client builds the `events` of a webhook from the answer alone."""
    key = acme.service_key()
    types = client.get("/v1/event-types", headers=key).json()["data"]
    assert [one["type"] for one in types] == [*EVENT_TYPES]
    assert set(types[0]) == {"type", "channel", "meaning", "example", "wildcards"}
    offered = [*dict.fromkeys(wildcard for one in types for wildcard in one["wildcards"])]
    assert {*offered, *EVENT_TYPES} == {*SUBSCRIPTIONS}
    assert acme.webhook(key, events=offered)["events"] == offered


def test_the_examples_are_accepted_as_events(acme: Organization, client: httpx.Client) -> None:
    """A producer can copy each example."""
    key = acme.service_key()
    examples = [one["example"] for one in client.get("/v1/event-types", headers=key).json()["data"]]
    answer = client.post("/v1/events", json=examples, headers=key)
    assert (answer.status_code, answer.json()["accepted"]) == (202, len(EVENT_TYPES))


def test_asyncapi_describes_the_webhooks_of_the_callers_project_only(acme: Organization, client: httpx.Client) -> None:
    """A key gets its own project, a session the project that it names."""
    acme.project("shipping")
    billing, shipping = acme.service_key(), acme.service_key("shipping")
    mine = acme.webhook(billing, "https://billing.example.com/path", events=["wa_*", "bounced"])["id"]
    other = acme.webhook(shipping, "https://shipping.example.com/path")["id"]
    told = client.get("/v1/asyncapi.json", headers=billing).json()
    assert told["info"]["title"] == "Webhooks of billing"
    assert told["servers"] == {mine: {"host": "billing.example.com", "protocol": "https"}}
    assert set(told["channels"][mine]["messages"]) == {
        "bounced",
        "wa_sent",
        "wa_delivered",
        "wa_read",
        "wa_failed",
        "wa_replied",
    }
    named = client.get("/v1/asyncapi.json?project=shipping", headers=acme.session()).json()
    assert set(named["channels"]) == {other}
    assert problem_of(client.get("/v1/asyncapi.json", headers=acme.session()), 422)["errors"][0]["field"] == "project"

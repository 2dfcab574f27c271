"""The AsyncAPI description of a project against the official JSON schema of AsyncAPI 3.0.0."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from hookwright_api.http.asyncapi import MAX_WEBHOOKS, asyncapi_document
from hookwright_crds.events import CATALOGUE, EVENT_TYPES, example, expanded
from hookwright_crds.resources import WebhookEndpoint

SUBSCRIPTIONS = (["delivered"], ["*"], ["bounced", "wa_*"])


def webhook(number: int, **spec: Any) -> WebhookEndpoint:
    """Return a webhook; the number chooses its subscriptions."""
    url = f"https://hooks{number}.example.com:8443/secret-path?token=secret-query"
    events = SUBSCRIPTIONS[number % len(SUBSCRIPTIONS)]
    return WebhookEndpoint.model_validate(
        {
            "metadata": {"name": f"wh-{number}.a", "namespace": "acme", "uid": f"u{number}"},
            "spec": {"projectRef": {"name": "billing"}, "url": url, "events": events, **spec},
        }
    )


def document(*webhooks: WebhookEndpoint) -> dict[str, Any]:
    """Return the description as a client reads it."""
    read: dict[str, Any] = json.loads(json.dumps(asyncapi_document("billing", "0.1.0", webhooks)))
    return read


@pytest.fixture(scope="module")
def official(node_packages: Path) -> jsonschema_rs.Validator:
    """Return the validator of AsyncAPI 3.0.0; Spectral brings the schemas of the specification."""
    path = node_packages / "@asyncapi" / "specs" / "schemas" / "3.0.0-without-$id.json"
    return jsonschema_rs.validator_for(json.loads(path.read_text()))


@pytest.mark.parametrize("count", [0, 1, 3, MAX_WEBHOOKS + 1])
def test_the_description_is_valid(official: jsonschema_rs.Validator, count: int) -> None:
    """A project without webhooks, with some, and with more than the document describes."""
    described = document(*map(webhook, range(count)), webhook(count, format="cloudevents", description="Orders"))
    assert [error.message for error in official.iter_errors(described)] == []


@pytest.mark.parametrize("part", ["asyncapi", "info"])
def test_the_official_schema_refuses_a_fault(official: jsonschema_rs.Validator, part: str) -> None:
    """The test above can fail."""
    assert not official.is_valid({name: value for name, value in document(webhook(0)).items() if name != part})
    wrong = document(webhook(0))
    wrong["operations"]["wh-0.a"]["action"] = "post"
    assert not official.is_valid(wrong)


def test_every_reference_has_a_target() -> None:
    """A parser resolves each reference within the document."""
    described = document(*map(webhook, range(3)))
    found = []

    def collect(part: object) -> None:
        match part:
            case {"$ref": str(reference)}:
                found.append(reference)
            case dict():
                for value in part.values():
                    collect(value)
            case list():
                for value in part:
                    collect(value)

    collect(described)
    assert len(found) > 20
    for reference in found:
        target: Any = described
        for name in reference.removeprefix("#/").split("/"):
            target = target[name]
        assert target


def test_each_webhook_is_a_channel_with_its_event_types_and_its_host_alone() -> None:
    """Path and query of a URL can be credentials, and such a document is passed on."""
    webhooks = [webhook(number) for number in range(3)]
    described = document(*webhooks)
    assert set(described["channels"]) == set(described["servers"]) == {"wh-0.a", "wh-1.a", "wh-2.a"}
    for one in webhooks:
        assert set(described["channels"][one.metadata.name]["messages"]) == expanded(one.spec.events)
    assert described["servers"]["wh-1.a"] == {"host": "hooks1.example.com:8443", "protocol": "https"}
    assert "secret-" not in json.dumps(described)


def test_the_payload_schema_of_each_type_accepts_its_example_and_no_other_type() -> None:
    """The examples of the catalogue follow the schemas; the four signing headers are required."""
    messages = document()["components"]["messages"]
    assert list(messages) == [*EVENT_TYPES]
    for channel, types in CATALOGUE.items():
        for name, meaning in types.items():
            assert (messages[name]["summary"], messages[name]["tags"]) == (meaning, [{"name": channel}])
            payload = jsonschema_rs.validator_for(messages[name]["payload"])
            assert payload.is_valid(example(name))
            assert not payload.is_valid({**example(name), "type": "another"})
            assert not payload.is_valid({"type": name})
    headers = document()["components"]["schemas"]["Headers"]
    assert set(headers["required"]) == {
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
        "X-Service-Signature",
    }


def test_the_description_of_many_webhooks_is_small_and_says_how_many_are_missing() -> None:
    """10,000 webhooks with the longest descriptions and all event types do not make a large answer."""
    many = [webhook(1, description="x" * 1024)] * 99 + [webhook(number) for number in range(9_901)]
    many = [one.model_copy(update={"metadata": webhook(number).metadata}) for number, one in enumerate(many)]
    described = document(*many)
    assert len(described["channels"]) == MAX_WEBHOOKS
    assert len(json.dumps(described)) < 512 * 1024
    assert "10000 webhooks; this document has the oldest 100" in described["info"]["description"]
    assert "oldest" not in document(*many[:MAX_WEBHOOKS])["info"]["description"]

"""The three kinds: the fields that their models accept, fill in and refuse.

tests/cluster/test_crds.py shows with many more cases that the API server agrees.
"""

from typing import Any

import pytest
from pydantic import ValidationError

from hookwright_crds.base import ObjectMeta, ProjectRef
from hookwright_crds.endpoint_fields import RESERVED_HEADERS
from hookwright_crds.event_type_fields import EventTypeSpec
from hookwright_crds.events import SUBSCRIPTIONS
from hookwright_crds.resources import (
    KINDS,
    ApiKey,
    ApiKeySpec,
    EventType,
    Handover,
    Project,
    WebhookEndpoint,
    WebhookEndpointSpec,
)
from hookwright_crds.signing_fields import Signing

DIGEST = "sha256:" + "0" * 64


def endpoint(**spec: object) -> WebhookEndpointSpec:
    """Return the spec of an endpoint, from its JSON form."""
    minimum = {"projectRef": {"name": "billing"}, "url": "https://example.com/hooks", "events": ["delivered"]}
    return WebhookEndpointSpec.model_validate(minimum | spec)


def apikey(**spec: object) -> ApiKeySpec:
    """Return the spec of a key, from its JSON form."""
    return ApiKeySpec.model_validate({"projectRef": {"name": "billing"}} | spec)


def test_an_endpoint_has_sensible_defaults() -> None:
    """An endpoint needs only project, URL and events."""
    plain = endpoint()
    assert (plain.suspend, plain.timeout, plain.max_in_flight, plain.headers) == (False, "15s", 8, {})
    assert plain.format == "json"
    assert (plain.rate_limit, plain.signing) == (None, Signing(rotation=0, overlap="24h"))


def test_an_endpoint_may_say_everything() -> None:
    """An endpoint may have every event, the limits' extreme values, and custom headers."""
    full = endpoint(
        events=[*SUBSCRIPTIONS, "invoice.paid"],
        description="Orders",
        suspend=True,
        timeout="30s",
        maxInFlight=64,
        headers={"X-Team": "billing"},
    )
    assert full.events == (*SUBSCRIPTIONS, "invoice.paid")
    assert full.description == "Orders"
    assert full.headers == {"X-Team": "billing"}


@pytest.mark.parametrize(
    ("spec", "place", "message"),
    [
        (
            {"events": ["delivered", "failed", "delivered"]},
            "events",
            "events must not name an event type twice: delivered",
        ),
        ({"events": ["delivered", "soft_bounced"]}, "events.1", "match pattern"),
        ({"events": ["email_*"]}, "events.0", "match pattern"),
        ({"url": "ftp://example.com"}, "url", "url must be an absolute https URL"),
        ({"timeout": "31s"}, "timeout", "timeout must be from 1s to 30s"),
        ({"maxInFlight": "8"}, "maxInFlight", "valid integer"),
        ({"suspend": 1}, "suspend", "valid boolean"),
        ({"headers": {"Content-Type": "a"}}, "headers", "headers must not set Content-Type"),
        ({"format": "cloudevents", "headers": {"CE-Source": "a"}}, "", "headers must not set ce- headers"),
        ({"headers": {"X-Team": "a\r\nX-Injected: b"}}, "headers.X-Team", "match pattern"),
        ({"extraSignature": {"form": "hex"}}, "extraSignature.header", "Field required"),
        ({"extraSignature": {"form": "md5", "header": "X-Sum"}}, "extraSignature.form", "'github', 'stripe' or 'hex'"),
        ({"extraSignature": {"form": "hex", "header": "TE"}}, "", "the extra signature needs a header of its own"),
        ({"projectRef": {"name": "Billing"}}, "projectRef.name", "match pattern"),
        ({"maxInflight": 8}, "maxInflight", "not permitted"),
        ({"rateLimit": {}}, "rateLimit.perMinute", "Field required"),
        ({"signing": {"overlap": "169h"}}, "signing.overlap", "overlap must be from 0s to 168h"),
    ],
)
def test_a_bad_endpoint_is_refused_at_its_field(spec: dict[str, Any], place: str, message: str) -> None:
    """The error location is the field's JSON name, which a 422 response shows."""
    with pytest.raises(ValidationError) as refusal:
        endpoint(**spec)
    error = refusal.value.errors()[0]
    assert ".".join(map(str, error["loc"])) == place
    assert message in error["msg"]


@pytest.mark.parametrize("name", sorted(RESERVED_HEADERS))
def test_a_reserved_header_is_refused_however_it_is_written(name: str) -> None:
    """Header names are case-insensitive (RFC 9110, section 5.1)."""
    for spelling in (name, name.upper(), name.title()):
        with pytest.raises(ValidationError, match="which Hookwright or HTTP itself sets"):
            endpoint(headers={spelling: "mine"})


def test_every_header_of_a_delivery_is_reserved() -> None:
    """No endpoint can replace a signature, an id or the body's length and type."""
    set_by_us = {
        "content-length", "content-type", "host", "transfer-encoding", "user-agent", "webhook-id", "webhook-signature",
        "webhook-timestamp", "x-service-signature",
    }  # fmt: skip
    assert set_by_us <= RESERVED_HEADERS


def test_a_key_is_handed_over_or_declared_by_its_digest() -> None:
    """A key needs either a digest or a handover; a handover lasts one hour by default."""
    assert apikey(handover={"secretName": "ci-key"}).handover == Handover(secret_name="ci-key", ttl="1h")
    assert apikey(digest=DIGEST).digest == DIGEST


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "exactly one of handover and digest must be set"),
        ({"digest": DIGEST, "rotation": 1}, "rotation needs handover"),
        ({"digest": DIGEST, "scopes": ["send", "send"]}, "must not name a scope twice"),
        ({"handover": {"secretName": "a", "ttl": "169h"}}, "ttl must be from 1m to 168h"),
        ({"digest": DIGEST, "expiresAt": "2030-01-31"}, "a time with its zone"),
    ],
)
def test_a_bad_key_is_refused(spec: dict[str, Any], message: str) -> None:
    """A wrong spec is refused, and the error message names the correct form."""
    with pytest.raises(ValidationError, match=message):
        apikey(**spec)


@pytest.mark.parametrize("name", ["team.ci", "k" * 64])
def test_a_declared_key_is_named_after_its_id(name: str) -> None:
    """An ApiKey with a digest needs a key id as its name, because the name is its key id."""
    manifest, handed_over = apikey(digest=DIGEST), apikey(handover={"secretName": "ci"})
    with pytest.raises(ValidationError, match="the name of an ApiKey with a digest is its keyId"):
        ApiKey(metadata=ObjectMeta(name=name), spec=manifest)
    assert ApiKey(metadata=ObjectMeta(name=name), spec=handed_over)
    assert ApiKey(metadata=ObjectMeta(name="k7qx2m0v9abc"), spec=manifest)


def test_a_project_needs_nothing_but_its_name() -> None:
    """A Project without a spec is valid."""
    assert Project.model_validate({"metadata": {"name": "billing"}}).spec.display_name == ""


@pytest.mark.parametrize("name", ["delivered", "hookwright.paid", "dev.hookwright.paid", "endpoint.failing", "p" * 129])
def test_an_own_type_has_a_name_of_its_own(name: str) -> None:
    """An EventType cannot take the place of a built-in type."""
    with pytest.raises(ValidationError, match="the name of an EventType has at most 128 characters"):
        EventType.model_validate({"metadata": {"name": name}, "spec": {"meaning": "An invoice is paid."}})


@pytest.mark.parametrize("field", ["example", "payloadSchema"])
@pytest.mark.parametrize("text", ["[1]", "{", '{"a": NaN}', '{"a": ' + 300 * "[" + 300 * "]" + "}"])
def test_an_own_type_has_texts_of_json_objects(field: str, text: str) -> None:
    """A wrong or very deep text is a fault of its field, and not of the process that reads it."""
    assert EventTypeSpec.model_validate({"meaning": "Paid.", field: '{"amount": 129.9}'})
    with pytest.raises(ValidationError, match="must be the text of a JSON object"):
        EventTypeSpec.model_validate({"meaning": "Paid.", field: text})


def test_an_object_is_read_as_the_server_gives_it() -> None:
    """apiVersion, kind, managedFields and the fields of a newer version's status are ignored."""
    read = WebhookEndpoint.model_validate(
        {
            "apiVersion": "hookwright.dev/v1alpha1",
            "kind": "WebhookEndpoint",
            "metadata": {"name": "orders", "namespace": "acme", "uid": "u", "generation": 2, "managedFields": []},
            "spec": endpoint().to_kubernetes(),
            "status": {"observedGeneration": 1, "fromTheFuture": True},
        }
    )
    assert read.metadata.generation == 2
    assert read.status.observed_generation == 1
    assert read.spec.project_ref == ProjectRef(name="billing")


def test_the_names_of_kinds_are_distinct() -> None:
    """No two plural, singular or short names are the same, because kubectl resolves all of them together."""
    names = [name for kind in KINDS for name in (kind.names.plural, kind.names.singular, kind.names.short)]
    assert len(set(names)) == len(names)

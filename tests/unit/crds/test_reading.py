"""Objects of a newer version are read as far as this version understands them, and the rest is reported."""

from typing import Any

import pytest

from hookwright_crds.events import EVENT_TYPES
from hookwright_crds.reading import UNDERSTOOD, Unsupported, read
from hookwright_crds.resources import ApiKey, Project, WebhookEndpoint

META = {"name": "orders", "namespace": "acme", "uid": "u", "resourceVersion": "1"}
SPEC: dict[str, Any] = {"projectRef": {"name": "billing"}, "url": "https://example.com/", "events": ["delivered"]}
READY = {"type": "Ready", "status": "True", "reason": "Delivering", "lastTransitionTime": "2030-01-01T00:00:00Z"}


def endpoint(spec: Any = None, **body: Any) -> tuple[WebhookEndpoint, Unsupported]:
    """Read an endpoint with these fields added to a plain spec; None removes a field."""
    fields = {name: value for name, value in {**SPEC, **(spec or {})}.items() if value is not None}
    return read(WebhookEndpoint, {"metadata": META, "spec": fields, **body})


def test_what_this_version_has_written_is_understood() -> None:
    """An object of this version reports nothing, and the model equals that of a strict validation."""
    resource, unsupported_parts = endpoint()
    assert unsupported_parts == UNDERSTOOD
    assert resource == WebhookEndpoint.model_validate({"metadata": META, "spec": SPEC})


TOLERATED: dict[str, tuple[dict[str, Any], Unsupported, tuple[str, ...]]] = {
    "an unknown field": ({"priority": "high"}, Unsupported(fields=("spec.priority",)), ("delivered",)),
    "an unknown field within a known one": (
        {"projectRef": {"name": "billing", "group": "a"}, "signing": {"rotation": 1, "algorithm": "ed25519"}},
        Unsupported(fields=("spec.signing.algorithm", "spec.projectRef.group")),
        ("delivered",),
    ),
    "an unknown event type": (
        {"events": ["rcs_read", "opened", "rcs_sent", "clicked"]},
        Unsupported(events=("rcs_read", "rcs_sent")),
        ("opened", "clicked"),
    ),
    "more event types than this version has": (
        {"events": [*EVENT_TYPES, "rcs_read"]},
        Unsupported(events=("rcs_read",)),
        EVENT_TYPES,
    ),
    "a wildcard beside an unknown one": ({"events": ["wa_*", "rcs_*"]}, Unsupported(events=("rcs_*",)), ("wa_*",)),
    "unknown event types alone": ({"events": ["rcs_read"]}, Unsupported(events=("rcs_read",)), ()),
    "an event type of another form": ({"events": [{"type": "x"}]}, Unsupported(events=("{'type': 'x'}",)), ()),
}


@pytest.mark.parametrize(("spec", "expected", "events"), TOLERATED.values(), ids=TOLERATED.keys())
def test_what_is_unknown_does_not_cost_what_is_known(
    spec: dict[str, Any], expected: Unsupported, events: tuple[str, ...]
) -> None:
    """Unknown parts are reported, and the rest of the spec is used unchanged."""
    resource, unsupported_parts = endpoint({"maxInFlight": 3, **spec})
    assert unsupported_parts == expected
    assert (resource.spec.events, resource.spec.max_in_flight, resource.spec.url) == (events, 3, SPEC["url"])


STRANGE: dict[str, tuple[dict[str, Any], str, tuple[str, ...]]] = {
    "a value of another form": ({"timeout": "1d"}, "spec.timeout", ("delivered",)),
    "a value beyond the bounds": ({"maxInFlight": 1000}, "spec.maxInFlight", ("delivered",)),
    "a nested value": ({"rateLimit": {"perMinute": "fast"}}, "spec.rateLimit", ("delivered",)),
    "neither of two fields of which one is required": ({"url": None}, "spec", ("delivered",)),
    "a rule over a whole field": ({"headers": {"Host": "a"}}, "spec.headers", ("delivered",)),
    "a rule over several fields": ({"format": "cloudevents", "headers": {"ce-id": "a"}}, "spec", ("delivered",)),
    "events that are no list": ({"events": {"match": "*"}}, "spec.events", ("*",)),
    "no events": ({"events": None}, "spec.events", ("*",)),
    "an empty list of events": ({"events": []}, "spec.events", ("*",)),
    "a strange value beside an unknown event type": (
        {"events": ["opened", "rcs_read"], "suspend": "maybe"},
        "spec.suspend",
        ("opened",),
    ),
}


@pytest.mark.parametrize(("spec", "field", "events"), STRANGE.values(), ids=STRANGE.keys())
def test_a_spec_that_is_not_understood_names_the_field_and_keeps_the_subscriptions(
    spec: dict[str, Any], field: str, events: tuple[str, ...]
) -> None:
    """The project and the events of an unusable spec are read. An unreadable list of events means every type."""
    resource, unsupported_parts = endpoint(spec)
    assert len(unsupported_parts.faults) == 1
    assert unsupported_parts.faults[0].startswith(f"{field} (")
    assert resource.spec.events == events
    assert resource.spec.project_ref.name == "billing"
    assert resource.metadata.name == "orders"


def test_the_project_of_a_strange_reference_is_that_of_the_owner() -> None:
    """A spec without a readable project belongs to the Project that the operator set as the owner."""
    owner = {"apiVersion": "hookwright.dev/v1alpha1", "kind": "Project", "name": "billing", "uid": "p"}
    resource, unsupported_parts = read(
        WebhookEndpoint, {"metadata": {**META, "ownerReferences": [owner]}, "spec": {**SPEC, "projectRef": "billing"}}
    )
    assert unsupported_parts.faults
    assert resource.spec.project_ref.name == "billing"


def test_what_is_not_understood_of_a_status_costs_the_rest_nothing() -> None:
    """A known part of a status is kept; a condition with an unknown status and an invalid count are ignored."""
    strange = {**READY, "type": "Synced", "status": "Maybe"}
    newer = {**READY, "type": "Newer", "severity": "Info"}
    status = {"conditions": [strange, newer, READY], "deliveries": {"pending": "many", "failed": 2}}
    resource, unsupported_parts = endpoint(status=status)
    assert unsupported_parts == UNDERSTOOD
    assert [condition.type for condition in resource.status.conditions] == ["Newer", "Ready"]
    assert resource.status.deliveries is not None
    assert (resource.status.deliveries.pending, resource.status.deliveries.failed) == (0, 2)


def test_a_key_of_a_new_origin_is_not_understood_and_keeps_its_status() -> None:
    """An ApiKey with neither handover nor digest is unusable, and its status is still read."""
    status = {"keyId": "k", "digest": "sha256:" + "0" * 64, "handover": {"state": "Rotating"}}
    spec = {"projectRef": {"name": "billing"}, "oidc": {"issuer": "x"}}
    resource, unsupported_parts = read(ApiKey, {"metadata": META, "spec": spec, "status": status})
    assert unsupported_parts.faults
    assert unsupported_parts.fields == ("spec.oidc",)
    assert (resource.spec.handover, resource.spec.digest, resource.spec.project_ref.name) == (None, None, "billing")
    assert (resource.status.key_id, resource.status.digest, resource.status.handover) == ("k", status["digest"], None)


def test_a_project_with_a_strange_name_is_a_project() -> None:
    """A Project accepts events with any spec, because no field of the spec is needed for that."""
    resource, unsupported_parts = read(Project, {"metadata": META, "spec": {"displayName": ["a"], "color": "red"}})
    assert resource.spec.display_name == ""
    assert unsupported_parts.fields == ("spec.color",)
    assert unsupported_parts.faults


def test_sentences_are_bounded() -> None:
    """The message names a limited number of fields."""
    _, unsupported_parts = endpoint({f"field{number}": "x" for number in range(1000)} | {"events": ["y" * 5000]})
    assert len(unsupported_parts.sentence) < 1000
    assert "and 995 more" in unsupported_parts.sentence


def test_an_object_without_readable_metadata_is_refused() -> None:
    """An object with unreadable metadata raises an error."""
    with pytest.raises(ValueError, match="Timestamp"):
        read(Project, {"metadata": {**META, "creationTimestamp": "yesterday"}})

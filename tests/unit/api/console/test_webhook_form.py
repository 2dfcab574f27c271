"""The form of an endpoint, derived from the fields of the contract."""

from typing import Any, Literal

import pytest
from pydantic import Field

from hookwright_api.console.form_fields import Form, fields_of, validated
from hookwright_api.console.webhook_form import (
    FIELDS,
    FIRST,
    applied_fields,
    document_in,
    event_groups,
    form_of,
    hidden_names,
    patch_in,
    subscription_groups,
)
from hookwright_api.webhook_document import merged
from hookwright_crds.base import Timestamp
from hookwright_crds.documents.credential_bodies import GIVEN_FIELDS
from hookwright_crds.documents.webhook_bodies import WebhookPatch, WebhookRequest
from hookwright_crds.endpoint_fields import HIDDEN_FIELDS, PUSH_FIELDS, EndpointFields
from hookwright_crds.events import SUBSCRIPTIONS, described_types
from hookwright_crds.resources import WebhookEndpointSpec

ENDPOINT = WebhookRequest(url="https://example.com/hooks", events=("delivered",)).model_dump(
    mode="json", exclude=set(GIVEN_FIELDS)
)


def sent(form: Form, **changes: list[str]) -> Form:
    """Return a form as a browser sends it, with other values of some fields."""
    return Form({**form, **changes})


def test_the_form_has_every_field_that_people_set() -> None:
    """Buttons suspend an endpoint, so that is no field of the form."""
    text = {name.partition(".")[0] for name in FIELDS}
    assert text == WebhookRequest.model_fields.keys() - {"enabled"}
    assert {name.partition(".")[0] for name in FIRST} < text


def test_a_new_field_of_the_contract_appears_in_the_form() -> None:
    """Its label, help, kind, bounds and default are those of the contract; no template and no function has its name."""

    class Limits(WebhookEndpointSpec):
        attempts: int = Field(default=7, title="Attempts at most", description="See maxInFlight.", ge=1, le=9)
        order_of_events: Literal["none", "each"] | None = None
        quiet: bool = False
        begins_at: Timestamp | None = None
        networks: tuple[str, ...] = ()

    fields = fields_of(Limits)
    attempts = fields["attempts"]
    assert (attempts.label, attempts.help) == ("Attempts at most", "See max_in_flight.")
    assert (attempts.kind, attempts.bounds, attempts.default) == ("number", {"min": 1, "max": 9}, 7)
    names = ("order_of_events", "quiet", "begins_at", "networks")
    assert [fields[name].kind for name in names] == ["choice", "flag", "time", "lines"]
    assert (fields["order_of_events"].label, fields["order_of_events"].options) == ("Order of events", ["none", "each"])
    values: dict[str, Any] = {"attempts": 3, "quiet": True, "begins_at": "2030-01-31T12:00:00Z", "networks": ["a", "b"]}
    form = Form({name: fields[name].values(values) for name in values})
    assert {name: fields[name].read(form) for name in ("attempts", "quiet", "networks")} == {
        name: values[name] for name in ("attempts", "quiet", "networks")
    }
    assert fields["begins_at"].read(form).isoformat() == "2030-01-31T12:00:00+00:00"


def test_a_new_endpoint_has_the_defaults_of_the_contract() -> None:
    """What the form shows is what an omitted field means."""
    form = form_of({})
    text = document_in(sent(form, url=["https://example.com/hooks"], events=["delivered"]))
    request = WebhookRequest.model_validate(merged({}, text))
    assert request.model_dump(mode="json", exclude=set(GIVEN_FIELDS)) == ENDPOINT
    pull_document = document_in(sent(form, target=["pull"], events=["delivered"]))
    assert merged({}, pull_document)["pull"] == {"lease": "30s"}
    assert not {"url", *PUSH_FIELDS, *GIVEN_FIELDS} & merged({}, pull_document).keys()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"rate_limit": {"per_minute": 60}, "timeout": "5s", "labels": {"team": "crm"}, "description": "Orders"},
        {"expires_at": "2030-01-31T12:00:00Z", "format": "cloudevents", "max_in_flight": 3},
        {"url": None, "pull": {"lease": "2m"}, "extra_signature": {"form": "hex", "header": "X-Old"}},
        {"retry": {"schedule": ["30s", "1h"], "retry_after_max": None, "end_on": [404, 410]}},
    ],
)
def test_a_form_that_is_sent_unchanged_changes_nothing(changes: dict[str, Any]) -> None:
    """Also hidden headers stay."""
    present = {**ENDPOINT, **changes, "headers": {"X-Key": "a secret"}}
    form = form_of(present)
    assert "a secret" not in str(form)
    patch = validated(WebhookPatch, patch_in(form, present)).model_dump(mode="json", exclude_unset=True)
    after = EndpointFields.model_validate({**_fields(merged(present, patch))})
    assert after == EndpointFields.model_validate(_fields(present))


def _fields(document: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name in EndpointFields.model_fields}


def test_headers_and_labels_are_removed_by_name() -> None:
    """A label that is missing in the form is removed; a hidden header only if its box is checked."""
    present = {**ENDPOINT, "labels": {"team": "crm", "stage": "test"}, "headers": {"X-A": "1", "X-B": "2"}}
    form = sent(form_of(present), labels=["team=billing"], headers=["X-C: 3"], removed_headers=["X-A"])
    patch = patch_in(form, present)
    assert patch["labels"] == {"team": "billing", "stage": None}
    assert patch["headers"] == {"X-A": None, "X-C": "3"}


def test_credentials_stay_are_replaced_and_are_removed_one_by_one() -> None:
    """A form without them changes none; another target removes all. No form shows a value."""
    header = {"Authorization": {"prefix": "Bearer ", "value": "a secret"}}
    oauth2 = {"client_id": "a client", "client_secret": "a secret", "token_url": "https://auth.example.com/"}
    present = {**ENDPOINT, "secret_headers": header, "oauth2": oauth2, "tls": {"client_key": "a secret"}}
    form = form_of(present)
    assert "a secret" not in str(form)
    assert not patch_in(form, present).keys() & {*GIVEN_FIELDS}
    assert hidden_names(present) == {
        "headers": [],
        "secret_headers": ["Authorization"],
        "oauth2": ["https://auth.example.com/"],
        "tls": ["certificates"],
    }
    entry = {"secret_headers.name": ["X-Key"], "secret_headers.value": ["new"], "oauth2.client_secret": ["new"]}
    patch = patch_in(sent(form, removed_secret_headers=["Authorization"], **entry), present)
    assert patch["secret_headers"] == {"Authorization": None, "X-Key": {"value": "new"}}
    assert patch["oauth2"] == {"client_secret": "new"}
    removed = {"removed_secret_headers": ["Authorization"], "removed_oauth2": ["x"], "removed_tls": ["x"]}
    patch = patch_in(sent(form, **removed), present)
    assert (patch["secret_headers"], patch["oauth2"], patch["tls"]) == ({"Authorization": None}, None, None)
    assert patch_in(sent(form, **{"tls.client_key": ["pem"]}), present)["tls"] == {"client_key": "pem"}
    patch = patch_in(sent(form, target=["pull"], **entry), present)
    assert {patch[name] for name in GIVEN_FIELDS} == {None}


def test_an_emptied_field_is_reset_and_another_target_resets_the_fields_of_the_first() -> None:
    """Null resets a field to its default (RFC 7396)."""
    present = {**ENDPOINT, "rate_limit": {"per_minute": 60}, "expires_at": "2030-01-31T12:00:00Z"}
    emptied_form = Form({**form_of(present), "rate_limit.per_minute": [""], "timeout": [""], "expires_at": [""]})
    reset = validated(WebhookPatch, patch_in(emptied_form, present)).model_dump(exclude_unset=True)
    assert {reset[name] for name in ("rate_limit", "timeout", "expires_at", "pull")} == {None}
    pull_document = Form({**form_of(present), "target": ["pull"], "pull.lease": [""]})
    patch = patch_in(pull_document, present)
    assert patch["pull"] == {"lease": None}
    assert {patch[name] for name in ("url", *PUSH_FIELDS)} == {None}


def test_the_page_of_an_endpoint_shows_the_fields_of_its_target() -> None:
    """The other ones do not apply."""
    of_url = {field.name for field in applied_fields(ENDPOINT)}
    of_pull = {field.name for field in applied_fields({**ENDPOINT, "url": None, "pull": {"lease": "30s"}})}
    assert {name.partition(".")[0] for name in of_url - of_pull} == {"url", *PUSH_FIELDS}
    assert of_pull - of_url == {"pull.lease"}
    assert set(HIDDEN_FIELDS) <= of_url & of_pull


def test_own_types_come_first_and_missing_ones_last() -> None:
    """Each type and wildcard has one box; a type whose EventType is gone keeps its box, so saving removes nothing."""
    built_in = {str(document["type"]): document for document in described_types()}
    assert {name for options in subscription_groups(built_in, ["*", "wa_*"]).values() for name in options} == {
        *SUBSCRIPTIONS
    }
    own = {"type": "invoice.paid", "channel": "own", "meaning": "A customer paid an invoice.", "deprecated": True}
    groups = event_groups({**built_in, "invoice.paid": own}, ["*", "delivered", "invoice.due"])
    assert [*groups] == ["Own types", "Email", "WhatsApp", "SMS", "Other endpoints of the project", "Missing types"]
    assert groups["Own types"] == {"invoice.paid": "Deprecated. A customer paid an invoice."}
    assert [*groups["Missing types"]] == ["invoice.due"]

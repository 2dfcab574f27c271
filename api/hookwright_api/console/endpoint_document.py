"""Pure: the form of an endpoint as the documents of `/v1`, and the other way."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from hookwright_api.console.delivery_filters import moment_of
from hookwright_api.console.form_fields import Form
from hookwright_crds.endpoint_fields import DEFAULT_LEASE, PUSH_FIELDS, EndpointFields
from hookwright_crds.resources import WebhookEndpoint
from hookwright_runtime.problems import FieldFault, invalid

PULL: Final = "pull"
"""The value of the field ``target`` of an endpoint whose messages wait for consumers; the other one is ``url``."""
_MOMENT: Final = "%Y-%m-%dT%H:%M:%S"
"""A time in UTC as the value of a field of the type ``datetime-local``."""
_OF_REQUESTS: Final = ("url", *PUSH_FIELDS)
"""The fields that only an endpoint with a URL has."""
_DEFAULTS: Final = ("timeout", "max_in_flight", "format")
"""The fields of a new endpoint whose form shows the default."""


def empty_form() -> Form:
    """Return the fields of a new endpoint."""
    return Form(
        {
            "target": ["url"],
            "lease": [DEFAULT_LEASE],
            **{name: [str(EndpointFields.model_fields[name].default)] for name in _DEFAULTS},
        }
    )


def form_of_endpoint(endpoint: WebhookEndpoint, labels: Mapping[str, str]) -> Form:
    """Return the fields of an endpoint; of its headers only the names, because a value may be a credential."""
    spec = endpoint.spec
    return Form(
        {
            "target": [PULL if spec.pull else "url"],
            "url": [spec.url or ""],
            "lease": [spec.pull.lease if spec.pull else DEFAULT_LEASE],
            "events": [*spec.events],
            "description": [spec.description],
            "timeout": [spec.timeout],
            "max_in_flight": [str(spec.max_in_flight)],
            "per_minute": [str(spec.rate_limit.per_minute) if spec.rate_limit else ""],
            "format": [spec.format],
            "labels": ["\n".join(f"{name}={value}" for name, value in labels.items())],
            "expires_at": [spec.expires_at.astimezone(UTC).strftime(_MOMENT) if spec.expires_at else ""],
        }
    )


def document_in(form: Form) -> dict[str, Any]:
    """Return the fields of a form as those of a request; fields that do not fit the chosen target are left out.

    Raises:
        ProblemError: 422, the text of a number or of a time is not valid, or a line of a text area has no name.
    """
    return {
        **({PULL: {"lease": form.text("lease")}} if form.text("target") == PULL else _requests_in(form)),
        "events": form.all("events"),
        "description": form.text("description"),
        "format": form.text("format"),
        "headers": form.pairs("headers", ":"),
        "labels": form.pairs("labels", "="),
        "expires_at": _moment(form, "expires_at"),
    }


def _requests_in(form: Form) -> dict[str, Any]:
    return {
        "url": form.text("url"),
        "timeout": form.text("timeout"),
        "max_in_flight": _number(form, "max_in_flight"),
        "rate_limit": {"per_minute": _number(form, "per_minute")} if form.text("per_minute") else None,
    }


def patch_in(form: Form, present: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a form as a merge patch: headers and labels that are missing in it are removed.

    Args:
        form: the form of the endpoint. A header stays unless its box "remove" is checked.
        present: the labels of the endpoint.

    Raises:
        ProblemError: as `document_in`.
    """
    document = document_in(form)
    removed: Iterable[str] = form.all("removed_headers")
    headers: dict[str, str | None] = {**dict.fromkeys(removed), **document["headers"]}
    labels: dict[str, str | None] = {**dict.fromkeys(present), **document["labels"]}
    # null resets the fields of the other target.
    other = dict.fromkeys(_OF_REQUESTS) if PULL in document else {PULL: None}
    return {**other, **document, "headers": headers, "labels": labels}


def _number(form: Form, name: str) -> int:
    written = form.text(name)
    if not (written.isascii() and written.isdecimal() and len(written) < 10):
        raise invalid(FieldFault(name, "must be a whole number"))
    return int(written)


def _moment(form: Form, name: str) -> datetime | None:
    """Return the time in a field in UTC, None if it is empty."""
    written = form.text(name)
    return moment_of(name, written, "0") if written else None

"""Pure: the form of an endpoint as the documents of `/v1`, and the other way."""

from collections.abc import Iterable, Mapping
from typing import Any

from hookwright_api.console.form_fields import Form
from hookwright_crds.resources import WebhookEndpoint
from hookwright_runtime.problems import FieldFault, invalid


def empty_form() -> Form:
    """Return the fields of a new endpoint."""
    return Form({"timeout": ["15s"], "max_in_flight": ["8"], "format": ["json"]})


def form_of_endpoint(endpoint: WebhookEndpoint, labels: Mapping[str, str]) -> Form:
    """Return the fields of an endpoint; of its headers only the names, because a value may be a credential."""
    spec = endpoint.spec
    return Form(
        {
            "url": [spec.url or ""],
            "events": [*spec.events],
            "description": [spec.description],
            "timeout": [spec.timeout],
            "max_in_flight": [str(spec.max_in_flight)],
            "per_minute": [str(spec.rate_limit.per_minute) if spec.rate_limit else ""],
            "format": [spec.format],
            "labels": ["\n".join(f"{name}={value}" for name, value in labels.items())],
        }
    )


def document_in(form: Form, *, pulled: bool = False) -> dict[str, Any]:
    """Return the fields of a form as those of a request; without those for requests to a URL if it is pulled.

    Raises:
        ProblemError: 422, a number is not a number, or a line of a text area has no name.
    """
    return {
        **({} if pulled else _requests_in(form)),
        "events": form.all("events"),
        "description": form.text("description"),
        "format": form.text("format"),
        "headers": form.pairs("headers", ":"),
        "labels": form.pairs("labels", "="),
    }


def _requests_in(form: Form) -> dict[str, Any]:
    return {
        "url": form.text("url"),
        "timeout": form.text("timeout"),
        "max_in_flight": _number(form, "max_in_flight"),
        "rate_limit": {"per_minute": _number(form, "per_minute")} if form.text("per_minute") else None,
    }


def patch_in(form: Form, present: Mapping[str, str], *, pulled: bool) -> dict[str, Any]:
    """Return the fields of a form as a merge patch: headers and labels that are missing in it are removed.

    Args:
        form: the form of the endpoint. A header stays unless its box "remove" is checked.
        present: the labels of the endpoint.
        pulled: whether consumers take the messages; then the form has no field for requests to a URL.

    Raises:
        ProblemError: as `document_in`.
    """
    document = document_in(form, pulled=pulled)
    removed: Iterable[str] = form.all("removed_headers")
    headers: dict[str, str | None] = {**dict.fromkeys(removed), **document["headers"]}
    labels: dict[str, str | None] = {**dict.fromkeys(present), **document["labels"]}
    return {**document, "headers": headers, "labels": labels}


def _number(form: Form, name: str) -> int:
    written = form.text(name)
    if not (written.isascii() and written.isdecimal() and len(written) < 10):
        raise invalid(FieldFault(name, "must be a whole number"))
    return int(written)

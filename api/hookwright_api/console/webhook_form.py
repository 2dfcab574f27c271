"""Pure: the form of an endpoint, derived from the fields of the contract, as the documents of `/v1`."""

from collections.abc import Mapping
from typing import Any, Final

from hookwright_api.console.form_fields import Form, FormField, fields_of
from hookwright_crds.documents.webhook_bodies import WebhookRequest
from hookwright_crds.endpoint_fields import HIDDEN_FIELDS, PUSH_FIELDS, EndpointFields
from hookwright_crds.events import CATALOGUE, CHANNEL_WILDCARDS, EVERY_TYPE, Channel

_LABELS: Final = "labels"
_FIRST: Final = ("url", "pull", "events", "description")
FIELDS: Final[Mapping[str, FormField]] = {
    **fields_of(EndpointFields),
    "url": fields_of(EndpointFields)["url"]._replace(is_optional=False),
    _LABELS: fields_of(WebhookRequest)[_LABELS],
}
"""Everything that the form has: a new field of the contract appears here."""
FIRST: Final = [name for name in FIELDS if name.partition(".")[0] in _FIRST]
"""The fields above "More settings", which has all others."""
TARGETS: Final = {
    name: "url" if group in ("url", *PUSH_FIELDS) else "pull" if group == "pull" else ""
    for name in FIELDS
    for group in (name.partition(".")[0],)
}
"""The target that an endpoint must have for a field to apply, empty if it always applies."""
_OBJECTS: Final = {name.partition(".")[0] for name in FIELDS if "." in name}
"""The fields that are objects, each of which has fields of its own in the form."""
CHANNELS: Final = {
    Channel.EMAIL: "Email",
    Channel.WHATSAPP: "WhatsApp",
    Channel.SMS: "SMS",
    Channel.HOOKWRIGHT: "Other endpoints of the project",
}
"""The channels in words."""
EVENT_GROUPS: Final = {
    "": {
        EVERY_TYPE: "Every event",
        **{name: f"Every {CHANNELS[channel]} event" for name, channel in CHANNEL_WILDCARDS.items()},
    },
    **{CHANNELS[channel]: meanings for channel, meanings in CATALOGUE.items()},
}
"""The options of ``events`` with words, by the title of their group."""


def applied_fields(document: Mapping[str, Any]) -> list[FormField]:
    """Return the fields that apply to the target of an endpoint."""
    return [field for name, field in FIELDS.items() if not TARGETS[name] or document.get(TARGETS[name]) is not None]


def form_of(document: Mapping[str, Any]) -> Form:
    """Return the form that shows the document of an endpoint, or the defaults if it is empty.

    Of hidden fields it has nothing, because a value may be a credential.
    """
    visible = {name: value for name, value in document.items() if name not in HIDDEN_FIELDS}
    values = {field.name: field.values(visible) for field in FIELDS.values()}
    return Form({"target": ["pull" if document.get("pull") is not None else "url"], **values})


def document_in(form: Form) -> dict[str, Any]:
    """Return the fields of a form as a merge patch, in which the fields of the other target are None.

    Raises:
        ProblemError: 422, a time cannot be read, or a line of a text area is no pair.
    """
    target = "pull" if form.text("target") == "pull" else "url"
    document: dict[str, Any] = {}
    for name, field in FIELDS.items():
        group, _, part = name.partition(".")
        value = field.read(form) if TARGETS[name] in ("", target) else None
        if part:
            document.setdefault(group, {})[part] = value
        else:
            document[group] = value
    for group in _OBJECTS - {target}:
        if all(value is None for value in document[group].values()):
            document[group] = None
    # Without a text, the fault of the URL is more exact than that of a missing target.
    return document if target == "pull" else {**document, "url": document["url"] or ""}


def patch_in(form: Form, present: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a form as a merge patch: labels that are missing in it are removed, and chosen headers.

    Args:
        form: the form of the endpoint. A header stays unless its box "remove" is checked.
        present: the document of the endpoint.

    Raises:
        ProblemError: as `document_in`.
    """
    document = document_in(form)
    for name, field in FIELDS.items():
        if field.kind == "pairs":
            names = form.all(f"removed_{name}") if name in HIDDEN_FIELDS else present[name]
            document[name] = {**dict.fromkeys(names), **document[name]}
    return document

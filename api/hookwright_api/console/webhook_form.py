"""Pure: the form of an endpoint, derived from the fields of the contract, as the documents of `/v1`."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from pydantic import Field

from hookwright_api.console.form_fields import Form, FormField, fields_of
from hookwright_crds.documents.credential_bodies import GIVEN_FIELDS, SecretHeaderRequest
from hookwright_crds.documents.webhook_bodies import WebhookRequest
from hookwright_crds.endpoint_fields import HIDDEN_FIELDS, PUSH_FIELDS, EndpointFields, HeaderName
from hookwright_crds.events import CHANNEL_WILDCARDS, EVERY_TYPE, Channel

EventTypes = Mapping[str, Mapping[str, Any]]


class _SecretHeader(SecretHeaderRequest):
    """A secret header in the form, which has room for one."""

    name: HeaderName = Field(description="Name of the header, such as Authorization.")


def _credential_fields() -> Iterator[tuple[str, FormField]]:
    """Yield the fields of credentials, all of which can stay empty."""
    for name, field in fields_of(WebhookRequest).items():
        title = {"oauth2": "OAuth2", "tls": "TLS"}.get(name.partition(".")[0])
        if title is not None:
            yield name, field._replace(label=f"{title}: {field.label.lower()}", is_optional=True)
    for part in ("name", "prefix", "value"):
        field, name = fields_of(_SecretHeader)[part], f"secret_headers.{part}"
        yield name, field._replace(name=name, label=f"Secret header: {field.label.lower()}", is_optional=True)


_LABELS: Final = "labels"
_FIRST: Final = ("url", "pull", "events", "description")
FIELDS: Final[Mapping[str, FormField]] = {
    **fields_of(EndpointFields),
    "url": fields_of(EndpointFields)["url"]._replace(is_optional=False),
    **dict(_credential_fields()),
    "events": fields_of(EndpointFields)["events"]._replace(kind="choices"),
    _LABELS: fields_of(WebhookRequest)[_LABELS],
}
"""Everything that the form has: a new field of the contract appears here."""
FIRST: Final = [name for name in FIELDS if name.partition(".")[0] in _FIRST]
"""The fields above "More settings", which has all others."""
TARGETS: Final = {
    name: "url" if group in ("url", *PUSH_FIELDS, *GIVEN_FIELDS) else "pull" if group == "pull" else ""
    for name in FIELDS
    for group in (name.partition(".")[0],)
}
"""The target that an endpoint must have for a field to apply, empty if it always applies."""
HIDING: Final = {
    "headers": "headers",
    "secret_headers.name": "secret_headers",
    "oauth2.client_id": "oauth2",
    "tls.ca_certificates": "tls",
}
"""The fields with hidden values, by the field of the form that comes after the names of what is present."""
_OBJECTS: Final = {name.partition(".")[0] for name in FIELDS if "." in name} - {*GIVEN_FIELDS}
"""The fields that are objects, each of which has fields of its own in the form."""
CHANNELS: Final = {
    Channel.OWN: "Own types",
    Channel.EMAIL: "Email",
    Channel.WHATSAPP: "WhatsApp",
    Channel.SMS: "SMS",
    Channel.HOOKWRIGHT: "Other endpoints of the project",
}
"""The channels in words, in the order of pages."""
_WILDCARDS: Final = {
    EVERY_TYPE: "Every event",
    **{name: f"Every {CHANNELS[channel]} event" for name, channel in CHANNEL_WILDCARDS.items()},
}


def event_groups(event_types: EventTypes, chosen_names: Iterable[str] = ()) -> dict[str, dict[str, str]]:
    """Return the meaning of each event type by its name, by the title of its group.

    Args:
        event_types: in the form of `/v1`.
        chosen_names: of an endpoint; the last group has those that are neither an event type nor a wildcard.
    """
    groups: dict[str, dict[str, str]] = {title: {} for title in CHANNELS.values()}
    for name, document in event_types.items():
        groups[CHANNELS[document["channel"]]][name] = ("Deprecated. " if document["deprecated"] else "") + document[
            "meaning"
        ]
    missing_names = [name for name in chosen_names if name not in (*event_types, *_WILDCARDS)]
    groups["Missing types"] = dict.fromkeys(missing_names, "The organization has no EventType with this name.")
    return {title: meanings for title, meanings in groups.items() if meanings}


def subscription_groups(event_types: EventTypes, chosen_names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the options of ``events``: the wildcards, then the groups of `event_groups`."""
    return {"": _WILDCARDS, **event_groups(event_types, chosen_names)}


def applied_fields(document: Mapping[str, Any]) -> list[FormField]:
    """Return the fields that apply to the target of an endpoint."""
    return [
        field
        for name, field in FIELDS.items()
        if name.partition(".")[0] not in GIVEN_FIELDS and (not TARGETS[name] or document.get(TARGETS[name]) is not None)
    ]


def hidden_names(document: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the names of the present headers, and the token server, by the field that hides their values."""
    names = {name: sorted(document.get(name, ())) for name in (*HIDDEN_FIELDS, "secret_headers")}
    oauth2 = [document["oauth2"]["token_url"]] if document.get("oauth2") else []
    return {**names, "oauth2": oauth2, "tls": ["certificates"] if document.get("tls") else []}


def form_of(document: Mapping[str, Any]) -> Form:
    """Return the form that shows the document of an endpoint, or the defaults if it is empty.

    Of hidden fields it has nothing, because a value may be a credential.
    """
    visible = {name: value for name, value in document.items() if name not in (*HIDDEN_FIELDS, *GIVEN_FIELDS)}
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
    _read_credentials(document, is_pulled=target == "pull")
    # Without a text, the fault of the URL is more exact than that of a missing target.
    return document if target == "pull" else {**document, "url": document["url"] or ""}


def _read_credentials(document: dict[str, Any], *, is_pulled: bool) -> None:
    """Set the credentials of a document from the fields of the form; those that are all empty change nothing."""
    for group in GIVEN_FIELDS:
        parts = {part: value for part, value in document.pop(group).items() if value}
        if is_pulled:
            document[group] = None
        elif parts:
            document[group] = {parts.pop("name", ""): parts} if group == "secret_headers" else parts


def patch_in(form: Form, present: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a form as a merge patch: labels that are missing in it are removed, and chosen headers.

    Args:
        form: the form of the endpoint. A header and a credential stay unless their box "remove" is checked.
        present: the document of the endpoint.

    Raises:
        ProblemError: as `document_in`.
    """
    document = document_in(form)
    for name, field in FIELDS.items():
        if field.kind == "pairs" and "." not in name:
            names = form.all(f"removed_{name}") if name in HIDDEN_FIELDS else present[name]
            document[name] = {**dict.fromkeys(names), **document[name]}
    if names := form.all("removed_secret_headers"):
        document["secret_headers"] = {**dict.fromkeys(names), **(document.get("secret_headers") or {})}
    for group in ("oauth2", "tls"):
        if form.all(f"removed_{group}"):
            document.setdefault(group, None)
    return document

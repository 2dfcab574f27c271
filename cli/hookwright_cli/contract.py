"""What the contract says; `make crds` writes the file from ``hookwright_crds``."""

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final, NamedTuple


class EndpointField(NamedTuple):
    """A field of an endpoint that people set.

    Attributes:
        name: on ``/v1``.
        spec: its name in the spec of a WebhookEndpoint.
        form: url, text, duration, time, number, choice, list, numbers, map, object, group (an object that may be
            empty), parts (an object that has at least one of its fields), secret or secret_map (with values in files).
        options: names of its option; each field of a group and of parts has its own, and so has no other object.
        hidden: whether no answer shows it.
        push_only: whether it limits requests, so that an endpoint with pull does not have it.
        choices: of a choice.
        fields: of an object, group or parts.
    """

    name: str
    spec: str
    form: str
    default: Any
    description: str
    options: tuple[str, ...]
    required: bool = False
    hidden: bool = False
    push_only: bool = False
    choices: tuple[str, ...] = ()
    fields: "tuple[EndpointField, ...]" = ()

    @property
    def parameter(self) -> str:
        """The name of its option as a parameter."""
        return self.options[0].strip("-").replace("-", "_")

    @property
    def title(self) -> str:
        """Its name for people."""
        return "URL" if self.name == "url" else self.name.replace("_", " ").capitalize()

    def of_spec(self, spec: Mapping[str, Any]) -> Any:
        """Return the value in the form of ``/v1``."""
        value = spec.get(self.spec, self.default)
        if value is None or not self.fields:
            return value
        return {inner.name: inner.of_spec(value) for inner in self.fields}

    def to_spec(self, value: Any) -> Any:
        """Return a value of ``/v1`` in the form of a spec."""
        if value is None or not self.fields:
            return value
        return {inner.spec: value[inner.name] for inner in self.fields if inner.name in value}


def _field(data: dict[str, Any]) -> EndpointField:
    return EndpointField(**{**data, "fields": tuple(map(_field, data.get("fields", ())))})


_DATA: Final = json.loads(files("hookwright_cli").joinpath("contract.json").read_text("utf-8"))
ENDPOINT_FIELDS: Final = tuple(map(_field, _DATA["endpoint_fields"]))
CREDENTIAL_FIELDS: Final = tuple(map(_field, _DATA["credential_fields"]))
"""The fields whose values go into Secrets, which only ``/v1`` writes."""
SHOWN_FIELDS: Final = tuple(field for field in ENDPOINT_FIELDS if not field.hidden)
"""The fields that answers show."""
EVENT_TYPES: Final[dict[str, dict[str, Any]]] = {event["type"]: event for event in _DATA["event_types"]}
"""Each event type with its channel, meaning, example and wildcards."""
KEY_SCOPES: Final[list[str]] = _DATA["key_scopes"]
"""The scopes that a key can have; without a choice it has all."""
USER_ROLES: Final[list[str]] = _DATA["user_roles"]

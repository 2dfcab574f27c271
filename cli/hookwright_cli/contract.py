"""What the contract says; `make crds` writes the file from ``hookwright_crds``."""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple


class EndpointField(NamedTuple):
    """A field of an endpoint that people set.

    Attributes:
        name: on ``/v1``.
        spec: its name in the spec of a WebhookEndpoint.
        form: url, text, duration, time, number, choice, list, map, object or group (an object that may be empty).
        options: names of its option; each field of a group has its own, and so has no other object.
        hidden: whether no answer shows it.
        push_only: whether it limits requests, so that an endpoint with pull does not have it.
        choices: of a choice.
        fields: of an object or group.
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


@cache
def _data() -> Any:
    return json.loads(files("hookwright_cli").joinpath("contract.json").read_text("utf-8"))


@cache
def endpoint_fields() -> tuple[EndpointField, ...]:
    """Return the fields of an endpoint."""
    return tuple(map(_field, _data()["endpoint_fields"]))


def _field(data: dict[str, Any]) -> EndpointField:
    return EndpointField(**{**data, "fields": tuple(map(_field, data.get("fields", ())))})


def shown_fields() -> tuple[EndpointField, ...]:
    """Return the fields that answers show."""
    return tuple(one for one in endpoint_fields() if not one.hidden)


def event_types() -> list[dict[str, Any]]:
    """Return each event type with its channel, meaning, example and wildcards."""
    types: list[dict[str, Any]] = _data()["event_types"]
    return types


def key_scopes() -> list[str]:
    """Return the scopes that a key can have; without a choice it has all."""
    return list(_data()["key_scopes"])


def user_roles() -> list[str]:
    """Return the roles that a user can have."""
    return list(_data()["user_roles"])

"""``HOOKWRIGHT_*`` environment variables as one frozen object, validated before any other part starts."""

from datetime import timedelta
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from hookwright_crds.base import NAME_PATTERN, parse_duration
from hookwright_crds.users import users_namespace
from hookwright_runtime.connections import Network
from hookwright_runtime.errors import SettingsError


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _duration(value: object) -> object:
    return parse_duration(value) if isinstance(value, str) else value


COMMAS = BeforeValidator(_split)
"""Splits a text at its commas."""
TextList = Annotated[tuple[str, ...], NoDecode, COMMAS]
Names = Annotated[tuple[Annotated[str, Field(pattern=NAME_PATTERN)], ...], NoDecode, COMMAS]
Networks = Annotated[tuple[Network, ...], NoDecode, COMMAS]
Length = Annotated[timedelta, BeforeValidator(_duration)]


class ProcessSettings(BaseSettings):
    """The settings that the operator and the API share; each is the environment variable HOOKWRIGHT_<NAME>."""

    model_config = SettingsConfigDict(
        env_prefix="HOOKWRIGHT_", frozen=True, extra="ignore", arbitrary_types_allowed=True, env_ignore_empty=True
    )

    namespace: str = Field(default="hookwright-system", description="The installation's own namespace.")
    users_namespace: str = Field(
        default="hookwright-system-users",
        description="Namespace of users, session keys and ended sessions, and of nothing else; the API reads Secrets "
        "only there. By default HOOKWRIGHT_NAMESPACE with the suffix -users.",
    )
    watch_namespaces: Names = Field(
        default=(), description="Names of the namespaces to serve, separated by commas; empty: all."
    )
    allow_http: bool = Field(default=False, description="Permit plain http URLs in endpoints.")
    log_format: str = Field(default="json", pattern="^(json|console)$", description="json or console.")
    log_level: str = Field(
        default="info", pattern="^(debug|info|warning|error)$", description="debug, info, warning or error."
    )

    @model_validator(mode="before")
    @classmethod
    def _name_users_namespace(cls, values: dict[str, Any]) -> dict[str, Any]:
        installation = values.get("namespace") or cls.model_fields["namespace"].default
        return {"users_namespace": users_namespace(installation), **values}

    @classmethod
    def load(cls) -> Self:
        """Read the settings from the environment.

        Raises:
            SettingsError: at least one setting is wrong; the message names each one and its correct form.
        """
        try:
            return cls()
        except ValidationError as error:
            faults = (_sentence(fault["loc"], fault["msg"]) for fault in error.errors())
            raise SettingsError("; ".join(faults)) from None


def _sentence(location: tuple[int | str, ...], message: str) -> str:
    plain = message.removeprefix("Value error, ")
    return f"HOOKWRIGHT_{str(location[0]).upper()}: {plain}" if location else plain

"""``HOOKWRIGHT_*`` environment variables as one frozen object, checked before anything starts."""

import ipaddress
from typing import Annotated, Final, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from hookwright_operator.delivery.schedule import RetrySchedule
from hookwright_operator.errors import SettingsError

MAX_TIMEOUT_SECONDS: Final = 30.0
"""The longest timeout an endpoint may declare; the lease must outlive it."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _schedule(value: object) -> object:
    return RetrySchedule.parse(value) if isinstance(value, str) else value


Listed = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
Networks = Annotated[tuple[Network, ...], NoDecode, BeforeValidator(_split)]
Schedule = Annotated[RetrySchedule, NoDecode, BeforeValidator(_schedule)]


class Settings(BaseSettings):
    """Every setting of the operator; each is the environment variable HOOKWRIGHT_<NAME IN CAPITALS>."""

    model_config = SettingsConfigDict(
        env_prefix="HOOKWRIGHT_", frozen=True, extra="ignore", arbitrary_types_allowed=True, env_ignore_empty=True
    )

    database_url: str = Field(
        default="sqlite:////var/lib/hookwright/hookwright.db",
        description="Where deliveries are kept: sqlite:////absolute/path or postgresql://user:password@host/database.",
    )
    namespace: str = Field(
        default="hookwright-system", description="The installation's own namespace, with users and session keys."
    )
    session_key_rotation: float = Field(
        default=30.0, gt=0, description="Days after which session tokens are signed with a new key."
    )
    session_key_overlap: float = Field(
        default=7.0, gt=0, description="Days for which tokens signed with the key before it still hold."
    )
    watch_namespaces: Listed = Field(
        default=(), description="Namespaces to serve, separated by commas; all of them where empty."
    )
    retry_schedule: Schedule = Field(
        default=RetrySchedule.parse("30s,2m,10m,30m,2h"),
        description="Delays before each retry, each counted from the end of the failed attempt.",
    )
    allowed_networks: Networks = Field(
        default=(), description="CIDRs of special networks that deliveries may go to all the same."
    )
    denied_networks: Networks = Field(
        default=(), description="CIDRs that deliveries must never go to, such as the cluster's own ranges."
    )
    allow_http: bool = Field(default=False, description="Let endpoints have plain http URLs.")
    lease: float = Field(
        default=60.0, gt=0, description="Seconds for which a process holds its deliveries without a sign of life."
    )
    intake_host: str = Field(default="0.0.0.0", description="Address that the intake listens on.")  # noqa: S104
    intake_port: int = Field(default=8080, ge=0, le=65535, description="Port of the intake; 0 takes a free one.")
    health_host: str = Field(default="0.0.0.0", description="Address of health and metrics.")  # noqa: S104
    health_port: int = Field(default=9090, ge=0, le=65535, description="Port of /healthz, /readyz and /metrics.")
    review_cache: float = Field(
        default=10.0, ge=0, le=300, description="Seconds for which a granted TokenReview or SubjectAccessReview holds."
    )
    status_interval: float = Field(
        default=30.0, gt=0, description="Seconds that pass at least between two updates of an endpoint's counts."
    )
    shutdown_grace: float = Field(
        default=35.0, gt=0, description="Seconds that attempts under way get to finish at SIGTERM."
    )
    finalizer_grace: float = Field(
        default=30.0, gt=0, description="Seconds after which a deleted endpoint is let go although the store is away."
    )
    window: int = Field(
        default=64,
        ge=1,
        le=10_000,
        description="Deliveries of one endpoint kept in memory; the rest stay in the store.",
    )
    memory_limit: int = Field(
        default=64 * 1024 * 1024, ge=1024 * 1024, description="Bytes of event bodies kept in memory for all endpoints."
    )
    retain_delivered: float = Field(default=7.0, gt=0, description="Days for which delivered deliveries are kept.")
    retain_failed: float = Field(default=30.0, gt=0, description="Days for which failed deliveries are kept.")
    log_format: str = Field(default="json", pattern="^(json|console)$", description="json or console.")
    log_level: str = Field(
        default="info", pattern="^(debug|info|warning|error)$", description="debug, info, warning or error."
    )

    @model_validator(mode="after")
    def _lease_outlives_attempts(self) -> Self:
        if self.lease <= MAX_TIMEOUT_SECONDS:
            raise ValueError(
                f"HOOKWRIGHT_LEASE is {self.lease:g} s; it must be longer than the longest attempt, "
                f"{MAX_TIMEOUT_SECONDS:g} s, or two processes could send the same delivery at once"
            )
        return self


def load() -> Settings:
    """Read the settings from the environment.

    Raises:
        SettingsError: one is wrong; the message names each, and what would be right.
    """
    try:
        return Settings()
    except ValidationError as error:
        raise SettingsError(
            "; ".join(_sentence(problem["loc"], problem["msg"]) for problem in error.errors())
        ) from None


def _sentence(location: tuple[int | str, ...], message: str) -> str:
    plain = message.removeprefix("Value error, ")
    return f"HOOKWRIGHT_{str(location[0]).upper()}: {plain}" if location else plain

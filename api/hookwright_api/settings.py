"""``HOOKWRIGHT_*`` environment variables as one frozen object, checked before anything starts."""

import ipaddress
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from hookwright_api.errors import SettingsError
from hookwright_crds.base import parse_duration

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def _duration(value: object) -> object:
    return parse_duration(value) if isinstance(value, str) else value


Listed = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
Networks = Annotated[tuple[Network, ...], NoDecode, BeforeValidator(_split)]
Length = Annotated[timedelta, BeforeValidator(_duration)]


class Settings(BaseSettings):
    """Every setting of the API; each is the environment variable HOOKWRIGHT_<NAME IN CAPITALS>."""

    model_config = SettingsConfigDict(env_prefix="HOOKWRIGHT_", frozen=True, extra="ignore", env_ignore_empty=True)

    namespace: str = Field(
        default="hookwright-system",
        description="The installation's own namespace, where users and session keys are; no Secret elsewhere is read.",
    )
    watch_namespaces: Listed = Field(
        default=(), description="Namespaces to serve, separated by commas; all of them where empty."
    )
    api_host: str = Field(default="0.0.0.0", description="Address that /v1 listens on.")  # noqa: S104
    api_port: int = Field(default=8000, ge=0, le=65535, description="Port of /v1; 0 takes a free one, which is logged.")
    api_health_host: str = Field(default="0.0.0.0", description="Address of health and metrics.")  # noqa: S104
    api_health_port: int = Field(
        default=9091, ge=0, le=65535, description="Port of /healthz, /readyz and /metrics; 0 takes a free one."
    )
    api_connections: int = Field(
        default=4096,
        ge=64,
        description="Connections that /v1 has open at most; fewer if the file descriptors of this process do not "
        "suffice. At the bound an idle connection is closed for a new one.",
    )
    api_connections_per_address: int = Field(
        default=256,
        ge=1,
        description="Connections of one client address, or of one /64 network of IPv6 addresses, to /v1; at most "
        "half of all. Those of trusted proxies have the bound of all connections only.",
    )
    api_shutdown_grace: float = Field(
        default=40.0, gt=0, description="Seconds that requests under way get to finish at SIGTERM."
    )
    operator_url: str = Field(
        default="http://hookwright-operator:8080",
        pattern=r"^https?://[^/?#]+/?$",
        description="The operator's intake, for events, tests, signing secrets and the delivery log.",
    )
    operator_token_file: Path = Field(
        default=Path("/var/run/secrets/hookwright.dev/token"),
        description="File with the ServiceAccount token, audience hookwright, that the operator is shown; read anew "
        "when it changes.",
    )
    trusted_proxies: Networks = Field(
        default=(),
        description="CIDRs of the proxies whose X-Forwarded-For header counts, separated by commas. Their connections "
        "have no bound per address.",
    )
    rate_limit_url: str = Field(
        default="memory://",
        pattern=r"^(memory://$|rediss?://.|valkeys?://.)",
        description="Where requests are counted: memory://, or redis://host:port/db (rediss, valkey, valkeys) for "
        "several replicas.",
    )
    rate_limit_ip: int = Field(default=100, ge=0, description="Requests a minute from one address; 0 lifts the limit.")
    rate_limit_organization: int = Field(
        default=1000, ge=0, description="Requests a minute of one organization; 0 lifts the limit."
    )
    rate_limit_login: int = Field(
        default=10, ge=0, description="Failed logins a minute from one address, for all emails; 0 lifts the limit."
    )
    rate_limit_login_email: int = Field(
        default=100,
        ge=0,
        description="Failed logins a minute for one email, from all addresses; 0 lifts the limit. Much higher than the "
        "limit of one address, because whoever reaches it locks the user out.",
    )
    rate_limit_fail_open: bool = Field(
        default=True,
        description="While the counters' server is away: true counts in this process alone, false answers 503.",
    )
    session_ttl: Length = Field(
        default=timedelta(hours=12), gt=timedelta(0), description="How long a session token is good, such as 12h."
    )
    create_timeout: float = Field(
        default=5.0, gt=0, le=60, description="Seconds for which POST /v1/webhooks waits for the operator."
    )
    key_used_interval: Length = Field(
        default=timedelta(hours=1), gt=timedelta(0), description="Time between two updates of a key's last use."
    )
    allow_http: bool = Field(default=False, description="Let endpoints have plain http URLs.")
    log_format: str = Field(default="json", pattern="^(json|console)$", description="json or console.")
    log_level: str = Field(
        default="info", pattern="^(debug|info|warning|error)$", description="debug, info, warning or error."
    )


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

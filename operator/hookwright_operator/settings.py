"""``HOOKWRIGHT_*`` environment variables as one frozen object, validated before any other part starts."""

from typing import Annotated, Final, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_settings import NoDecode

from hookwright_crds.base import parse_duration
from hookwright_crds.endpoint_fields import TIMEOUT_BOUNDS
from hookwright_operator.delivery.attempt import RetrySchedule
from hookwright_operator.delivery.http.egress_proxy import check_proxy_url, proxy_exception
from hookwright_operator.delivery.http.guard import host_suffix
from hookwright_runtime.settings import COMMAS, Networks, ProcessSettings

MAX_TIMEOUT_SECONDS: Final = parse_duration(TIMEOUT_BOUNDS[1]).total_seconds()
"""The longest timeout an endpoint may declare, in seconds."""

ROLES: Final = ("reconcile", "deliver", "intake")
"""The roles of a replica; by default it has all of them."""


def _roles(value: tuple[str, ...]) -> tuple[str, ...]:
    if not value:
        raise ValueError(f"names no role; set one or more of {', '.join(ROLES)}")
    for name in value:
        if name not in ROLES:
            raise ValueError(f"{name!r} is not a role; the roles are {', '.join(ROLES)}")
    return tuple(name for name in ROLES if name in value)


def _schedule(value: object) -> object:
    return RetrySchedule.parse(value) if isinstance(value, str) else value


Roles = Annotated[tuple[str, ...], NoDecode, COMMAS, AfterValidator(_roles)]
HostSuffixes = Annotated[tuple[Annotated[str, AfterValidator(host_suffix)], ...], NoDecode, COMMAS]
ProxyExceptions = Annotated[tuple[Annotated[str, AfterValidator(proxy_exception)], ...], NoDecode, COMMAS]
Schedule = Annotated[RetrySchedule, NoDecode, BeforeValidator(_schedule)]


class OperatorSettings(ProcessSettings):
    """Every setting of the operator; each is the environment variable HOOKWRIGHT_<NAME IN CAPITALS>."""

    database_url: str = Field(
        default="sqlite:////var/lib/hookwright/hookwright.db",
        description="Where deliveries are kept: sqlite:////absolute/path or postgresql://user:password@host/database.",
    )
    roles: Roles = Field(
        default=ROLES,
        description="Roles of this replica: reconcile (one such replica leads, the others are standbys), deliver, "
        "intake. With SQLite one replica has all three.",
    )
    session_key_rotation: float = Field(
        default=30.0, gt=0, description="Days after which session tokens are signed with a new key."
    )
    session_key_overlap: float = Field(
        default=7.0, gt=0, description="Days for which tokens signed with the previous key stay valid."
    )
    retry_schedule: Schedule = Field(
        default=RetrySchedule.parse("30s,2m,10m,30m,2h"),
        description="Delays before each retry, each counted from the end of the failed attempt.",
    )
    allowed_networks: Networks = Field(
        default=(), description="CIDRs of special networks to which deliveries are allowed."
    )
    denied_networks: Networks = Field(
        default=(), description="CIDRs to which deliveries are forbidden, such as the cluster's own ranges."
    )
    allowed_hosts: HostSuffixes = Field(
        default=(),
        description="Domains to whose hosts deliveries are allowed although their addresses are special, such as "
        "hooks.svc.cluster.local; the owner of the domain's DNS decides the addresses.",
    )
    denied_hosts: HostSuffixes = Field(
        default=(), description="Domains, with all hosts below them, to which deliveries are forbidden."
    )
    proxy_url: Annotated[str, AfterValidator(check_proxy_url)] = Field(
        default="",
        description="Proxy through which all deliveries and tests go, such as http://proxy.example.com:3128 or "
        "http://user:password@proxy.example.com:3128. It must allow CONNECT to the addresses of the receivers. "
        "Empty: none.",
    )
    proxy_exceptions: ProxyExceptions = Field(
        default=(), description="Domains and CIDRs of receivers that are reached without the proxy."
    )
    lease: float = Field(
        default=60.0, gt=0, description="Seconds after which the claims of a replica expire if it does not renew them."
    )
    max_timeout: float = Field(
        default=MAX_TIMEOUT_SECONDS,
        ge=1,
        le=MAX_TIMEOUT_SECONDS,
        description="Longest timeout of an attempt in seconds. An endpoint with a longer spec.timeout has this one.",
    )
    leader_lease: int = Field(
        default=12,
        ge=2,
        le=60,
        description="Seconds after which a standby takes the Lease of a leader that does not renew it; PostgreSQL "
        "only. A leader stops writing if the API server does not answer it for two thirds of this time.",
    )
    instance: str = Field(
        default="",
        pattern="^[A-Za-z0-9]?[A-Za-z0-9._-]{0,252}$",
        description="A name that is unique among living replicas, such as a pod's. A replica that starts with the name "
        "of an earlier one takes over its claims at once, without waiting for the lease. Empty: random.",
    )
    intake_host: str = Field(default="0.0.0.0", description="Address that the intake listens on.")  # noqa: S104
    intake_port: int = Field(default=8080, ge=0, le=65535, description="Port of the intake; 0: any free port.")
    intake_connections: int = Field(
        default=4096,
        ge=64,
        description="Maximum open connections of the intake. At the limit an idle connection is closed for a new one.",
    )
    intake_connections_per_address: int = Field(
        default=1024,
        ge=1,
        description="Maximum connections of one client address, or of one /64 network of IPv6 addresses, to the "
        "intake; at most half of all.",
    )
    health_host: str = Field(default="0.0.0.0", description="Address of health and metrics.")  # noqa: S104
    health_port: int = Field(default=9090, ge=0, le=65535, description="Port of /healthz, /readyz and /metrics.")
    review_cache: float = Field(
        default=10.0,
        ge=0,
        le=300,
        description="Seconds for which a granted TokenReview or SubjectAccessReview is cached. A grant in use is"
        " renewed in the background from half of this time on.",
    )
    status_interval: float = Field(
        default=60.0, gt=0, description="Minimum seconds between two updates of an endpoint's counts."
    )
    shutdown_grace: float = Field(
        default=35.0, gt=0, description="Seconds for attempts in progress to finish after SIGTERM."
    )
    finalizer_grace: float = Field(
        default=30.0,
        gt=0,
        description="Seconds after which a deleted endpoint's finalizer is removed even if the store is unavailable.",
    )
    window: int = Field(
        default=64,
        ge=1,
        le=10_000,
        description="Deliveries of one endpoint kept in memory; the rest stay in the store.",
    )
    orphan_grace: float = Field(
        default=24.0,
        ge=0,
        le=8760,
        description="Hours for which pending deliveries of an endpoint that is missing in the cluster are kept, "
        "because it may return. Then they are discarded. Deliveries of an endpoint that is deleted as usual are "
        "discarded at once.",
    )
    max_in_flight: int = Field(
        default=1024,
        ge=1,
        le=65_536,
        description="Maximum concurrent attempts of this replica, to all endpoints; each needs up to four sockets. One "
        "namespace uses at most half of them. Half of them is divided into equal guarantees for all namespaces, so set "
        "at least twice the number of namespaces. Endpoints of a namespace that wait for a place take turns.",
    )
    memory_limit: int = Field(
        default=64 * 1024 * 1024,
        ge=1024 * 1024,
        description="Bytes of event bodies kept in memory for all endpoints. "
        "Namespaces share them by the same rule as HOOKWRIGHT_MAX_IN_FLIGHT; further deliveries wait in the database.",
    )
    retain_delivered: float = Field(default=7.0, gt=0, description="Days for which delivered deliveries are kept.")
    retain_failed: float = Field(default=30.0, gt=0, description="Days for which failed deliveries are kept.")
    traces: str = Field(
        default="",
        pattern=r"^(https?://[^/?#@\s]+(/[^?#\s]*)?)?$",
        description="OTLP/HTTP collector of OpenTelemetry traces, such as http://otel-collector:4318; "
        "empty: no traces. The SDK's own variables, such as OTEL_TRACES_SAMPLER, configure the rest.",
    )
    traces_to_receivers: bool = Field(
        default=False,
        description="Send receivers the traceparent header of each traced attempt, so that they can continue the "
        "trace; the header shows them the trace's ids.",
    )

    @model_validator(mode="after")
    def _lease_outlives_attempts(self) -> Self:
        # Just before a renewal, five sixths of the lease are left.
        if self.lease * 5 / 6 <= self.max_timeout:
            raise ValueError(
                f"HOOKWRIGHT_LEASE is {self.lease:g} s; it must be longer than {self.max_timeout * 6 / 5:g} s: a "
                "replica renews it after a sixth, and starts no attempt that could outlive it, so five sixths must be "
                f"longer than the longest attempt, HOOKWRIGHT_MAX_TIMEOUT of {self.max_timeout:g} s"
            )
        return self

    @model_validator(mode="after")
    def _one_process_has_a_file(self) -> Self:
        missing = [role for role in ROLES if role not in self.roles]
        if missing and self.database_url.startswith("sqlite"):
            raise ValueError(
                f"HOOKWRIGHT_ROLES lacks {', '.join(missing)}; with SQLite one replica has every role, because no "
                "other can open its file: leave HOOKWRIGHT_ROLES empty, or set HOOKWRIGHT_DATABASE_URL to a PostgreSQL "
                "database"
            )
        return self

"""``HOOKWRIGHT_*`` environment variables as one frozen object, validated before any other part starts."""

from datetime import timedelta
from pathlib import Path

from pydantic import Field

from hookwright_runtime.settings import Length, Networks, ProcessSettings


class ApiSettings(ProcessSettings):
    """Every setting of the API; each is the environment variable HOOKWRIGHT_<NAME IN CAPITALS>."""

    api_host: str = Field(default="0.0.0.0", description="Address that /v1 listens on.")  # noqa: S104
    api_port: int = Field(default=8000, ge=0, le=65535, description="Port of /v1; 0: any free port, which is logged.")
    api_health_host: str = Field(default="0.0.0.0", description="Address of health and metrics.")  # noqa: S104
    api_health_port: int = Field(
        default=9091, ge=0, le=65535, description="Port of /healthz, /readyz and /metrics; 0: any free port."
    )
    api_connections: int = Field(
        default=4096,
        ge=64,
        description="Maximum open connections of /v1. At the limit an idle connection is closed for a new one.",
    )
    api_connections_per_address: int = Field(
        default=256,
        ge=1,
        description="Maximum connections of one client address, or of one /64 network of IPv6 addresses, to /v1; at "
        "most half of all. Connections of trusted proxies have only the limit of all connections.",
    )
    api_shutdown_grace: float = Field(
        default=40.0, gt=0, description="Seconds for requests in progress to finish after SIGTERM."
    )
    operator_url: str = Field(
        default="http://hookwright-operator:8080",
        pattern=r"^https?://[^/?#]+/?$",
        description="URL of the operator's intake: events, tests, signing secrets and the delivery log.",
    )
    operator_token_file: Path = Field(
        default=Path("/var/run/secrets/hookwright.dev/token"),
        description="File with the ServiceAccount token, audience hookwright, that authenticates at the operator; read "
        "again when it changes.",
    )
    trusted_proxies: Networks = Field(
        default=(),
        description="CIDRs of the proxies whose X-Forwarded-For header is used, separated by commas. Their connections "
        "have no limit per address.",
    )
    rate_limit_url: str = Field(
        default="memory://",
        pattern=r"^(memory://$|rediss?://.|valkeys?://.)",
        description="Storage of request counts: memory://, or redis://host:port/db (rediss, valkey, valkeys) for "
        "several replicas.",
    )
    rate_limit_ip: int = Field(
        default=100, ge=0, description="Requests a minute from one address; 0 disables the limit."
    )
    rate_limit_organization: int = Field(
        default=1000, ge=0, description="Requests a minute of one organization; 0 disables the limit."
    )
    rate_limit_login: int = Field(
        default=10, ge=0, description="Failed logins a minute from one address, over all emails; 0 disables the limit."
    )
    rate_limit_login_email: int = Field(
        default=100,
        ge=0,
        description="Failed logins a minute for one email, from all addresses; 0 disables the limit. Much higher than "
        "the limit of one address, because a client that reaches it locks the user out.",
    )
    rate_limit_fail_open: bool = Field(
        default=True,
        description="While the counters' server is unavailable: true counts in this process only, false answers 503.",
    )
    session_ttl: Length = Field(
        default=timedelta(hours=12), gt=timedelta(0), description="Lifetime of a session token, such as 12h."
    )
    password_change: bool = Field(
        default=False,
        description="Let users change their passwords with POST /v1/auth/password. The API's ServiceAccount then needs "
        "the right to patch Secrets of the users' namespace.",
    )
    console: bool = Field(
        default=True,
        description="Serve the console for people at /console/. false: it has no route, and /v1 is as before.",
    )
    create_timeout: float = Field(
        default=5.0, gt=0, le=60, description="Seconds for which POST /v1/webhooks waits for the operator."
    )
    key_used_interval: Length = Field(
        default=timedelta(hours=1), gt=timedelta(0), description="Time between two updates of a key's last use."
    )

"""The services that requests use, created once when the process starts."""

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from starlette.requests import Request

from hookwright_api.key_usage import KeyUsage
from hookwright_api.operator_client import OperatorClient
from hookwright_api.rate_limits import Limiter
from hookwright_api.settings import ApiSettings
from hookwright_api.view.view import View
from hookwright_runtime.audit import AuditLog
from hookwright_runtime.bounds import API_BODY_BYTES, PASSWORDS, POLLS
from hookwright_runtime.kubernetes import KubernetesClient
from hookwright_runtime.places import Places
from hookwright_runtime.request_body import Bodies, parsing_places

_BODY_SECONDS: Final = 30.0
"""Time limit for a body, so that a slow client does not occupy memory for long."""


def utc_now() -> datetime:
    """Return the present time."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Services:
    """The services that routes use.

    Attributes:
        passwords: the places in which passwords are hashed, each with 64 MiB and tens of milliseconds of a core.
        bodies: reads request bodies.
        parsing: the place in which bodies are parsed, one at a time.
        polls: the requests for messages, each of which has a connection to the operator.
        ending: set when the process stops; requests that wait for messages then get an empty answer.
        session_ends_lock: held while the end of a user's sessions is written, because all ends are in one Secret.
        now: the present time, in UTC.
        choose: returns a random character of a string, suitable for secrets.
        audit: has a line for each login, and for each change that a caller makes.
    """

    settings: ApiSettings
    view: View
    kube: KubernetesClient
    operator: OperatorClient
    limiter: Limiter
    key_use: KeyUsage
    passwords: Places = field(default_factory=lambda: Places(PASSWORDS))
    polls: Places = field(default_factory=lambda: Places(POLLS))
    ending: asyncio.Event = field(default_factory=asyncio.Event)
    bodies: Bodies = field(default_factory=lambda: Bodies(_BODY_SECONDS, API_BODY_BYTES))
    parsing: Places = field(default_factory=parsing_places)
    session_ends_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    now: Callable[[], datetime] = utc_now
    choose: Callable[[str], str] = field(default=secrets.choice)
    audit: AuditLog = field(default_factory=AuditLog)


def services_of(request: Request) -> Services:
    """Return the services of a request."""
    services: Services = request.app.state.services
    return services

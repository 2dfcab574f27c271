"""The services that requests use, created once when the process starts."""

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Protocol

from starlette.requests import Request

from hookwright_api.auth.passwords import Passwords
from hookwright_api.key_usage import KeyUsage
from hookwright_api.operator_client import OperatorClient
from hookwright_api.rate_limits import Limiter
from hookwright_api.settings import ApiSettings
from hookwright_api.view.view import View
from hookwright_runtime.audit import AuditLog
from hookwright_runtime.kubernetes import KubernetesClient
from hookwright_runtime.long_polls import LongPolls
from hookwright_runtime.places import Places
from hookwright_runtime.request_body import Bodies, parsing_places

_BODY_SECONDS: Final = 30.0
"""Time limit for a body, so that a slow client does not occupy memory for long."""
_BODY_BYTES: Final = 64 * 1024 * 1024
_BODY_BYTES_EACH: Final = 16 * 1024 * 1024
"""Most bytes of incomplete bodies: of all callers, and of one organization or client address."""


def utc_now() -> datetime:
    """Return the present time."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Services:
    """The services that routes use.

    Attributes:
        bodies: reads request bodies.
        parsing: the place in which bodies are parsed, one at a time.
        polls: the requests for messages, each of which has a connection to the operator.
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
    passwords: Passwords
    key_use: KeyUsage
    polls: LongPolls = field(default_factory=LongPolls)
    bodies: Bodies = field(default_factory=lambda: Bodies(_BODY_SECONDS, total=_BODY_BYTES, each=_BODY_BYTES_EACH))
    parsing: Places = field(default_factory=parsing_places)
    session_ends_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    now: Callable[[], datetime] = utc_now
    choose: Callable[[str], str] = field(default=secrets.choice)
    audit: AuditLog = field(default_factory=AuditLog)


class _State(Protocol):
    services: Services


def services_of(request: Request) -> Services:
    """Return the services of a request."""
    state: _State = request.app.state
    return state.services

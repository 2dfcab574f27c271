"""What requests are served with, made once when the process starts."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Protocol

from starlette.requests import Request

from hookwright_api.auth.passwords import Passwords
from hookwright_api.intake import Intake
from hookwright_api.keyuse import KeyUse
from hookwright_api.kube import Kube
from hookwright_api.limits import Limiter
from hookwright_api.settings import Settings
from hookwright_api.view.view import View
from hookwright_runtime.quotas import Quotas

_BODY_BYTES: Final = 64 * 1024 * 1024
_BODY_BYTES_EACH: Final = 16 * 1024 * 1024
"""Bytes of bodies that are not complete: of all callers, and of one organization or client address."""


def utc_now() -> datetime:
    """Return the present moment."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that routes use.

    Attributes:
        bodies: bytes of request bodies that are not complete.
        now: the present moment, in UTC.
        choose: draws one of the characters of a string, fit for secrets.
    """

    settings: Settings
    view: View
    kube: Kube
    intake: Intake
    limiter: Limiter
    passwords: Passwords
    key_use: KeyUse
    bodies: Quotas = field(default_factory=lambda: Quotas(total=_BODY_BYTES, each=_BODY_BYTES_EACH))
    now: Callable[[], datetime] = utc_now
    choose: Callable[[str], str] = field(default=secrets.choice)


class _State(Protocol):
    services: Services


def services_of(request: Request) -> Services:
    """Return what a request is served with."""
    state: _State = request.app.state
    return state.services

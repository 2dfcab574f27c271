"""What requests are served with, made once when the process starts."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from starlette.requests import Request

from hookwright_api.auth.passwords import Passwords
from hookwright_api.intake import Intake
from hookwright_api.keyuse import KeyUse
from hookwright_api.kube import Kube
from hookwright_api.limits import Limiter
from hookwright_api.settings import Settings
from hookwright_api.view.view import View


def utc_now() -> datetime:
    """Return the present moment."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Services:
    """Everything that routes use.

    Attributes:
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
    now: Callable[[], datetime] = utc_now
    choose: Callable[[str], str] = field(default=secrets.choice)


class _State(Protocol):
    services: Services


def services_of(request: Request) -> Services:
    """Return what a request is served with."""
    state: _State = request.app.state
    return state.services

"""The visit of a person: the session, the form and the declared operations of one request to the console."""

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.requests import Request
from starlette.types import Scope

from hookwright_api.auth.callers import Caller
from hookwright_api.console.form_fields import Form

Operation = Callable[..., Any]
"""The function of a route of ``/v1``."""

TOKEN_FIELD: Final = "form_token"  # noqa: S105 - the name of a field
_VISIT: Final = "hookwright.console.visit"
_PURPOSE: Final = b"hookwright console form"


@dataclass(frozen=True, slots=True)
class Visit:
    """One request to the console.

    Attributes:
        caller: the user; None on pages without a session.
        token: the session token.
        uses: the operations that the route may call.
        form: the submitted form.
    """

    caller: Caller | None = None
    token: str = field(default="", repr=False)
    uses: tuple[Operation, ...] = ()
    form: Form = field(default_factory=Form)


def begin_visit(scope: Scope, visit: Visit) -> None:
    """Make a visit that of a request."""
    scope[_VISIT] = visit


def visit_in(scope: Scope) -> Visit:
    """Return the visit of a request; an empty one if no route of the console has begun one."""
    visit: Visit = scope.get(_VISIT) or Visit()
    return visit


def form_of(request: Request) -> Form:
    """Return the submitted form."""
    return visit_in(request.scope).form


def form_token_of(session_token: str) -> str:
    """Return the token that forms of a session have; it reveals nothing about the session token."""
    return hmac.new(session_token.encode(), _PURPOSE, hashlib.sha256).hexdigest()

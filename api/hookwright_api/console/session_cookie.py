"""The cookie that has the session token; only pages of the console get it, and no script can read it."""

from datetime import datetime
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from hookwright_api.auth.callers import Caller
from hookwright_api.auth.session_tokens import read_token
from hookwright_api.services import services_of

COOKIE: Final = "hookwright_session"
"""The name over plain http; with https it has the prefix ``__Host-``.

Browsers accept the prefix only with Secure, with the path / and without a domain, so no other host can set the cookie.
"""


def set_session(request: Request, response: Response, token: str, expires_at: str) -> None:
    """Store a new session in the browser until it expires.

    Args:
        request: its services decide whether plain http is allowed.
        response: gets the cookie.
        token: the session token.
        expires_at: as ``/v1`` returns it.
    """
    remaining = datetime.fromisoformat(expires_at) - services_of(request).now()
    response.set_cookie(value=token, max_age=max(0, int(remaining.total_seconds())), **_attributes(request))


def remove_session(request: Request, response: Response) -> None:
    """Remove the session from the browser."""
    response.delete_cookie(**_attributes(request))


def _attributes(request: Request) -> dict[str, Any]:
    is_secure = not services_of(request).settings.allow_http
    name, path = (f"__Host-{COOKIE}", "/") if is_secure else (COOKIE, "/console")
    return {"key": name, "path": path, "secure": is_secure, "httponly": True, "samesite": "strict"}


def caller_in(request: Request) -> tuple[Caller, str] | None:
    """Return the user of the request's session with its token; None without a valid session."""
    services = services_of(request)
    token = _token_in("; ".join(request.headers.getlist("cookie")), _attributes(request)["key"])
    session = read_token(services.view, token, services.now(), services.settings.session_ttl) if token else None
    return (Caller(session.user.organization, session=session), token) if session else None


def _token_in(cookies: str, cookie_name: str) -> str:
    """Return the session token among cookies, empty if there is none.

    Starlette would also decode quoted values, in quadratic time on older patch releases of Python (CVE-2024-7592). A
    token is never quoted.
    """
    pairs = (cookie.strip().partition("=") for cookie in cookies.split(";"))
    return next((value for name, _, value in pairs if name == cookie_name), "")

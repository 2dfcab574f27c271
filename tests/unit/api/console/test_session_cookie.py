"""The session token in the Cookie header of a browser."""

import base64
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.requests import Request
from starlette.responses import Response

from hookwright_api.auth.session_tokens import issue_token
from hookwright_api.console.session_cookie import COOKIE, _token_in, caller_in, remove_session, set_session
from hookwright_api.rate_limits import Limiter
from hookwright_api.services import Services
from hookwright_api.settings import ApiSettings
from hookwright_api.view.table import Table
from hookwright_api.view.view import View
from hookwright_crds.sessions import SESSION_KEYS_NAME, format_session_key
from hookwright_crds.users import user_secret


@pytest.mark.parametrize(
    ("cookies", "token"),
    [
        ("", ""),
        ("hookwright_session=a.b-c_d", "a.b-c_d"),
        ("theme=dark; hookwright_session=a.b; other=1", "a.b"),
        ("theme=dark;hookwright_session=a.b", "a.b"),
        ("xhookwright_session=a; hookwright_sessionx=b; hookwright_session", ""),
        ('a="' + r"\"" * 32_000 + "; hookwright_session=a.b", "a.b"),
    ],
)
def test_the_token_is_found_among_other_cookies(cookies: str, token: str) -> None:
    """Other cookies are not decoded: with http.cookies of Python 3.11.7, the last case takes 5 s."""
    assert _token_in(cookies, COOKIE) == token


NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def services_with(view: View, **settings: Any) -> Services:
    """Return services with a view and a fixed clock."""
    settings_of, placeholder = ApiSettings(**settings), cast("Any", None)
    return Services(settings_of, view, placeholder, placeholder, Limiter(settings_of), placeholder, now=lambda: NOW)


def request(services: Services, cookie: str = "") -> Request:
    """Return a request of a browser to an application with these services."""
    app = SimpleNamespace(state=SimpleNamespace(services=services))
    return Request({"type": "http", "app": app, "headers": [(b"cookie", cookie.encode())]})


def put_secret(table: Table[Any], name: str, fields: dict[str, str]) -> None:
    """Write a Secret into a view."""
    data = {field: base64.b64encode(text.encode()).decode() for field, text in fields.items()}
    table.put({"metadata": {"name": name, "namespace": "", "uid": name, "resourceVersion": "1"}, "data": data})


PLAIN, WITH_PREFIX = "hookwright_session", "__Host-hookwright_session"


@pytest.mark.parametrize(
    ("settings", "name", "other", "attributes"),
    [
        ({}, WITH_PREFIX, PLAIN, "; Path=/; SameSite=strict; Secure"),
        ({"allow_http": True}, PLAIN, WITH_PREFIX, "; Path=/console; SameSite=strict"),
    ],
)
def test_another_host_of_the_domain_cannot_set_a_secure_session(
    settings: dict[str, Any], name: str, other: str, attributes: str
) -> None:
    """With https the cookie has the prefix __Host- and what it needs, and a cookie with the plain name is ignored."""
    view = View()
    put_secret(view._session_keys, SESSION_KEYS_NAME, {"k1": format_session_key(b"k" * 32)})
    put_secret(view.users, "ada", user_secret("", email="a@b.c", organization="acme", password_hash="h")["stringData"])
    services = services_with(view, **settings)
    user = view.user("a@b.c")
    assert user is not None
    token, ends = issue_token(view, user, now=NOW, ttl=timedelta(hours=1))

    first, second = Response(), Response()
    set_session(request(services), first, token, ends.isoformat())
    assert first.headers["set-cookie"] == f"{name}={token}; HttpOnly; Max-Age=3600{attributes}"
    remove_session(request(services), second)
    assert second.headers["set-cookie"].startswith(f'{name}="";')
    assert second.headers["set-cookie"].endswith(attributes)
    assert caller_in(request(services, f"{name}={token}")) is not None
    assert caller_in(request(services, f"{other}={token}")) is None

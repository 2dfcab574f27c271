"""The session token in the Cookie header of a browser."""

import pytest

from hookwright_api.console.session_cookie import _token_in


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
    assert _token_in(cookies) == token

"""Refusal of forms that another site sends: the origin must be ours, and the form must have the session's token."""

import hmac
from urllib.parse import urlsplit

from starlette.requests import Request

from hookwright_api.console.form_fields import Form
from hookwright_api.console.visits import TOKEN_FIELD, form_token_of
from hookwright_runtime.problems import ProblemError


def check_origin(request: Request) -> None:
    """Return if a page of this origin sent the request.

    Browsers set Sec-Fetch-Site (W3C Fetch Metadata) on requests to https and localhost; scripts cannot change it. For
    other requests, the header Origin must have our host.

    Raises:
        ProblemError: 403.
    """
    site = request.headers.getlist("sec-fetch-site")
    if site == ["same-origin"]:
        return
    origins = request.headers.getlist("origin")
    if not site and len(origins) == 1 and _host_of(origins[0]) == request.headers.get("host", "").lower():
        return
    raise ProblemError(403, "the form was sent by another site; nothing was done")


def _host_of(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower() or "none"
    except ValueError:
        return "none"


def check_form_token(form: Form, session_token: str) -> None:
    """Return if a form belongs to the session.

    Raises:
        ProblemError: 403.
    """
    if not hmac.compare_digest(form.raw(TOKEN_FIELD).encode(), form_token_of(session_token).encode()):
        raise ProblemError(403, "the form belongs to another session; nothing was done. Reload the page, and repeat it")

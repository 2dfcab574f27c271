"""Pages from templates, with the headers that protect them."""

from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from hookwright_api.console import words
from hookwright_api.console.navigation import ENDPOINT_TABS, HOME, PROJECT_TABS, console_path, endpoint_path
from hookwright_api.console.static_files import static_url
from hookwright_api.console.visits import TOKEN_FIELD, form_token_of, visit_in
from hookwright_crds.permissions import ADMINISTER, EDIT, MANAGE, READ, Permission
from hookwright_runtime.problems import TITLES, ProblemError

NOTICES: Final = {
    "logged-out": "You are logged out, on every device.",
    "password-changed": "Your password is changed. All other sessions are ended.",
    "endpoint-changed": "The endpoint is changed.",
    "endpoint-suspended": "Deliveries to the endpoint are suspended. New ones stay pending until you resume them.",
    "endpoint-resumed": "Deliveries to the endpoint are resumed.",
    "endpoint-deleted": "The endpoint is deleted, and its pending deliveries are discarded.",
    "delivery-again": "The delivery is sent again, with a new schedule of retries.",
    "delivery-tried": "The delivery is tried now.",
    "replay-begun": "The replay is running. You can leave this page.",
    "replay-cancelled": "The replay is cancelled. Deliveries that it has made pending are still sent.",
    "key-revoked": "The key is revoked. Requests with it are refused from now on.",
    "project-created": "The project is created. Now add its first endpoint.",
    "project-deleted": "The project is deleted.",
}
"""Sentences at the top of the page after a change, by the query parameter ``notice``."""

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
"""Headers of every page. The middleware adds X-Content-Type-Options."""

_URL_CHARACTERS: Final = ":/%#?=@[]!$&'()*+,;"
"""Characters of a URL that stay as they are; a header has only ASCII characters."""

_ENVIRONMENT: Final = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
_ENVIRONMENT.globals.update(
    static=static_url,
    path=console_path,
    endpoint_path=endpoint_path,
    home=HOME,
    project_tabs=PROJECT_TABS,
    endpoint_tabs=ENDPOINT_TABS,
    words=words,
    read=READ,
    manage=MANAGE,
    edit=EDIT,
    administer=ADMINISTER,
)


def render(request: Request, template: str, status: int = 200, **context: Any) -> Response:
    """Return a page.

    Args:
        request: its session decides what the page offers.
        template: name of a file in ``templates/``.
        status: of the answer.
        context: names for the template, in addition to those of this module.
    """
    visit = visit_in(request.scope)

    def may(permission: Permission) -> bool:
        if visit.caller is None:
            return False
        try:
            visit.caller.check(permission)
        except ProblemError:
            return False
        return True

    def form_token() -> Markup:
        token = form_token_of(visit.token) if visit.token else ""
        return Markup('<input type="hidden" name="{}" value="{}">').format(TOKEN_FIELD, token)

    page = _ENVIRONMENT.get_template(template).render(
        user=visit.caller.user if visit.caller else None,
        may=may,
        form_token=form_token,
        notice=NOTICES.get(request.query_params.get("notice", ""), ""),
        **context,
    )
    return Response(page, status, HEADERS, media_type="text/html")


def render_problem(request: Request, problem: ProblemError) -> Response:
    """Return the page of a refusal, in words for people; htmx puts it into the place for notices."""
    answer = render(
        request,
        "problem.html",
        problem.status,
        problem=problem,
        title=TITLES.get(problem.status, "Error"),
        advice=words.advice(problem.status),
    )
    answer.headers.update(problem.headers)
    if request.headers.get("hx-request"):
        answer.headers.update({"HX-Retarget": "#notice", "HX-Reswap": "innerHTML", "HX-Reselect": "#problem"})
    return answer


def see(request: Request, path: str, *, notice: str = "") -> Response:
    """Lead the browser to a page after a change, with a sentence of `NOTICES` at its top."""
    separator = "&" if "?" in path else "?"
    target = f"{path}{separator}{urlencode({'notice': notice})}" if notice else path
    if request.headers.get("hx-request"):
        return Response("", 200, {**HEADERS, "HX-Redirect": quote(target, safe=_URL_CHARACTERS)})
    return RedirectResponse(target, 303, headers=HEADERS)

"""Pages from templates, with the headers that protect them."""

from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import Response

from hookwright_api.console import words
from hookwright_api.console.navigation import ENDPOINT_TABS, HOME, PROJECT_TABS, address, console_path, endpoint_path
from hookwright_api.console.static_files import URL_BY_NAME
from hookwright_crds.permissions import ADMINISTER, EDIT, MANAGE

NOTICES: Final = {
    "logged-out": "You are logged out, on every device.",
    "password-changed": "Your password is changed. All other sessions are ended.",
    "endpoint-changed": "The endpoint is changed.",
    "endpoint-suspended": "Deliveries to the endpoint are suspended. New ones stay pending until you resume them.",
    "endpoint-resumed": "Deliveries to the endpoint are resumed.",
    "endpoint-deleted": "The endpoint is deleted, and its pending deliveries are discarded.",
    "delivery-again": "The delivery is sent again, with a new schedule of retries.",
    "deliveries-again": "Sent again. Pending deliveries are tried now; ended ones have a new schedule of retries.",
    "delivery-tried": "The delivery is tried now.",
    "replay-begun": "The replay is running. You can leave this page.",
    "replay-cancelled": "The replay is cancelled. Deliveries that it has made pending are still sent.",
    "key-revoked": "The key is revoked. Requests with it are refused from now on.",
    "project-created": "The project is created.",
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

_ENVIRONMENT: Final = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
_ENVIRONMENT.globals.update(
    static=URL_BY_NAME.__getitem__,
    path=console_path,
    endpoint_path=endpoint_path,
    address=address,
    home=HOME,
    project_tabs=PROJECT_TABS,
    endpoint_tabs=ENDPOINT_TABS,
    words=words,
    manage=MANAGE,
    edit=EDIT,
    administer=ADMINISTER,
)


def page_of(template: str, status: int, context: dict[str, Any]) -> Response:
    """Return a page from a file of ``templates/``; a name that the context lacks is an error."""
    return Response(_ENVIRONMENT.get_template(template).render(context), status, HEADERS, media_type="text/html")

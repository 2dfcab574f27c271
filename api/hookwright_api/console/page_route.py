"""Routes of the console. They check the origin, the session, limits, the permission and the form token, in this order.

The session comes from a cookie, which browsers also send with requests that another page has made. So each form must
come from our origin, and have the token of its session.
"""

import hmac
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from hookwright_api.console.form_fields import MEDIA, Form
from hookwright_api.console.navigation import HOME, console_path
from hookwright_api.console.session_cookie import caller_in
from hookwright_api.console.templating import HEADERS
from hookwright_api.console.visit import PAGES, TOKEN_FIELD, Operation, Visit, form_token_of
from hookwright_api.http.request_checks import BODY_LIMIT, admit, holder_of, permission_of
from hookwright_api.services import services_of
from hookwright_crds.permissions import ANY_USER, Permission
from hookwright_runtime.problems import ProblemError, unavailable
from hookwright_runtime.request_body import ClientGoneError

Handler = Callable[[Visit], Awaitable[Response]]

LOGIN: Final = console_path("login")
_OPEN_FORM_BYTES: Final = 16 * 1024
"""Most bytes of a form without a session: an email, a password and a path."""


@dataclass(frozen=True, slots=True)
class ConsoleRoute:
    """A page, or an action that a form begins.

    Attributes:
        path: the whole path, with parameters in braces.
        method: GET or POST.
        uses: the operations of ``/v1`` that it calls.
        again: the page of the form, which shows a refused form again with the reason; None: the reason has a page.
    """

    path: str
    method: str
    permission: Permission
    uses: tuple[Operation, ...]
    handler: Handler
    again: Handler | None = None

    async def serve(self, request: Request) -> Response:
        """Answer a request."""
        # The label of the metrics.
        request.scope["route"] = self
        if not services_of(request).view.ready:
            raise unavailable("the console is starting; it has no data from the API server yet")
        if self.method == "POST":
            check_origin(request)
        visit = Visit(request, self.uses)
        if not self.permission.open:
            session = caller_in(request)
            if session is None:
                return _without_session(visit)
            visit.caller, visit.token = session
            await admit(request, visit.caller, self.permission)
        if self.method == "POST":
            visit.form = await _read_form(request, _OPEN_FORM_BYTES if self.permission.open else BODY_LIMIT)
            if visit.token:
                check_form_token(visit.form, visit.token)
        answer = await self._answer(visit)
        for name, value in HEADERS.items():
            answer.headers.setdefault(name, value)
        return answer

    async def _answer(self, visit: Visit) -> Response:
        try:
            return await self.handler(visit)
        except ProblemError as problem:
            if self.again is None:
                raise
            visit.problem = problem
        return await self.again(visit)


ROUTES: Final[list[ConsoleRoute]] = []
"""Every page and action; the modules of ``routes/`` add them."""


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
    host = request.headers.get("host", "").lower()
    origins = [origin.lower() for origin in request.headers.getlist("origin")]
    if not site and host and origins in ([f"http://{host}"], [f"https://{host}"]):
        return
    raise ProblemError(403, "the form was sent by another site; nothing was done")


def check_form_token(form: Form, session_token: str) -> None:
    """Return if a form belongs to the session.

    Raises:
        ProblemError: 403.
    """
    if not hmac.compare_digest(form.raw(TOKEN_FIELD).encode(), form_token_of(session_token).encode()):
        raise ProblemError(403, "the form belongs to another session; nothing was done. Reload the page, and repeat it")


async def _read_form(request: Request, limit: int) -> Form:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != MEDIA:
        raise ProblemError(415, f"send the form as Content-Type: {MEDIA}")
    services, holder = services_of(request), holder_of(request)
    try:
        body = await services.bodies.read(request.receive, request.headers, holder, limit=limit)
    except ClientGoneError:
        # The client does not read this.
        raise ProblemError(400, "the form is not complete") from None
    return await services.parsing.run(holder, _parsed(body))


def _parsed(body: bytes) -> Generator[None, None, Form]:
    """Return a form in one step, which needs a place because each escaped character costs a microsecond."""
    yield from ()
    return Form.of(body)


def _without_session(visit: Visit) -> Response:
    """Lead to the login, and from there back to the page.

    A browser that follows a link of another site does not send the cookie (SameSite=Strict). The page that it gets then
    loads itself again, now as a request of our own site.
    """
    request = visit.request
    target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    if (request.headers.get("sec-fetch-site"), request.headers.get("sec-fetch-mode")) == ("cross-site", "navigate"):
        return visit.render("again.html", target=target)
    is_page = request.method == "GET" and target != HOME
    return visit.see(LOGIN + ("?" + urlencode({"next": target}) if is_page else ""))


def page(
    path: str, *, uses: tuple[Operation, ...] = (), permission: Permission | None = None
) -> Callable[[Handler], Handler]:
    """Add a page; see the docstring of the package."""
    PAGES[path] = _least(uses, permission)
    return action(path, uses=uses, permission=permission, method="GET")


def _least(uses: tuple[Operation, ...], permission: Permission | None) -> Permission:
    return permission or (permission_of(uses[0]) if uses else ANY_USER)


def action(
    path: str,
    *,
    uses: tuple[Operation, ...],
    permission: Permission | None = None,
    again: Handler | None = None,
    method: str = "POST",
) -> Callable[[Handler], Handler]:
    """Add an action that a form begins; its permission is that of its first operation."""
    least_permission = _least(uses, permission)

    def add(handler: Handler) -> Handler:
        ROUTES.append(ConsoleRoute(HOME.rstrip("/") + path, method, least_permission, uses, handler, again))
        return handler

    return add

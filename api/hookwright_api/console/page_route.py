"""Routes of the console. They check the origin, the session, limits, the permission and the form token, in this order.

The session comes from a cookie, which browsers also send with requests that another page has made. So each form must
come from our origin, and have the token of its session.
"""

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from hookwright_api.console.csrf import check_form_token, check_origin
from hookwright_api.console.form_fields import MEDIA, Form
from hookwright_api.console.navigation import HOME, console_path
from hookwright_api.console.session_cookie import caller_in
from hookwright_api.console.templating import HEADERS, render, see
from hookwright_api.console.visits import Operation, Visit, begin_visit
from hookwright_api.http.guarded_route import BODY_LIMIT, admit, holder_of, permission_of
from hookwright_api.services import services_of
from hookwright_crds.permissions import ANY_USER, Permission
from hookwright_runtime.problems import ProblemError, unavailable
from hookwright_runtime.request_body import ClientGoneError

Handler = Callable[[Request], Awaitable[Response]]

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
    """

    path: str
    method: str
    permission: Permission
    uses: tuple[Operation, ...]
    handler: Handler

    async def serve(self, request: Request) -> Response:
        """Answer a request."""
        # The label of the metrics.
        request.scope["route"] = self
        services = services_of(request)
        if not services.view.ready:
            raise unavailable("the console is starting; it has no data from the API server yet")
        if self.method == "POST":
            check_origin(request)
        visit = Visit(uses=self.uses)
        if not self.permission.open:
            known = caller_in(request)
            if known is None:
                return _without_session(request)
            visit = replace(visit, caller=known[0], token=known[1])
            begin_visit(request.scope, visit)
            await admit(request, known[0], self.permission)
        if self.method == "POST":
            form = await _read_form(request, _OPEN_FORM_BYTES if self.permission.open else BODY_LIMIT)
            if not self.permission.open:
                check_form_token(form, visit.token)
            visit = replace(visit, form=form)
        begin_visit(request.scope, visit)
        answer = await self.handler(request)
        for name, value in HEADERS.items():
            answer.headers.setdefault(name, value)
        return answer


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


def _without_session(request: Request) -> Response:
    """Lead to the login, and from there back to the page.

    A browser that follows a link of another site does not send the cookie (SameSite=Strict). The page that it gets then
    loads itself again, now as a request of our own site.
    """
    headers = request.headers
    if (headers.get("sec-fetch-site"), headers.get("sec-fetch-mode")) == ("cross-site", "navigate"):
        return render(request, "again.html", target=_target(request))
    following = _target(request) if request.method == "GET" else HOME
    query = "" if following == HOME else "?" + urlencode({"next": following})
    return see(request, LOGIN + query)


def _target(request: Request) -> str:
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")


class ConsoleRoutes:
    """The routes of one module."""

    def __init__(self) -> None:
        self.routes: list[ConsoleRoute] = []

    def page(
        self, path: str, *, uses: tuple[Operation, ...] = (), permission: Permission | None = None
    ) -> Callable[[Handler], Handler]:
        """Add a page; see the docstring of the package."""
        return self._added("GET", path, uses, permission)

    def action(
        self, path: str, *, uses: tuple[Operation, ...], permission: Permission | None = None
    ) -> Callable[[Handler], Handler]:
        """Add an action that a form begins; its permission is that of its first operation."""
        return self._added("POST", path, uses, permission)

    def _added(
        self, method: str, path: str, uses: tuple[Operation, ...], permission: Permission | None
    ) -> Callable[[Handler], Handler]:
        needed = permission or (permission_of(uses[0]) if uses else ANY_USER)

        def add(handler: Handler) -> Handler:
            self.routes.append(ConsoleRoute(HOME.rstrip("/") + path, method, needed, uses, handler))
            return handler

        return add

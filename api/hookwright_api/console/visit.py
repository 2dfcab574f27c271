"""The visit of a person: one request to the console, with the objects of its path, its form, and its answer."""

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from secrets import token_hex
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

from markupsafe import Markup
from pydantic_core import from_json
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Scope

from hookwright_api.auth.callers import Caller, caller_of, endpoint_named
from hookwright_api.console.form_fields import Form, faults_of
from hookwright_api.console.navigation import console_path
from hookwright_api.console.templating import HEADERS, NOTICES, page_of
from hookwright_api.console.words import ADVICE
from hookwright_api.http.request_checks import permission_of
from hookwright_api.services import Services, services_of
from hookwright_api.view.table_records import EndpointRecord, ProjectRecord
from hookwright_crds.permissions import Permission
from hookwright_runtime.problems import TITLES, ProblemError, not_found

Operation = Callable[..., Any]
"""The function of a route of ``/v1``."""
T = TypeVar("T")

PAGES: Final[dict[str, Permission]] = {}
"""The permission of each page by its path after ``/console``, with parameters in braces; `page` adds it."""
TOKEN_FIELD: Final = "form_token"  # noqa: S105 - the name of a field
_VISIT: Final = "hookwright.console.visit"
_PURPOSE: Final = b"hookwright console form"
_URL_CHARACTERS: Final = ":/%#?=@[]!$&'()*+,;"
"""Characters of a URL that stay as they are; a header has only ASCII characters."""


@dataclass
class Visit:
    """One request to the console.

    Attributes:
        caller: the user; None on pages without a session.
        token: the session token.
        uses: the operations that the route may call.
        form: the submitted form; empty if none was submitted.
        problem: the refusal of the submitted form, which is then shown again.
    """

    request: Request
    uses: tuple[Operation, ...] = ()
    caller: Caller | None = None
    token: str = field(default="", repr=False)
    form: Form = field(default_factory=Form)
    problem: ProblemError | None = None

    def __post_init__(self) -> None:
        self.request.scope[_VISIT] = self

    @property
    def query(self) -> QueryParams:
        """The query of the page."""
        return self.request.query_params

    @property
    def services(self) -> Services:
        """The services of the process."""
        return services_of(self.request)

    @property
    def organization(self) -> str:
        """The organization of the user; empty on pages without a session."""
        return self.caller.organization if self.caller else ""

    @cached_property
    def project(self) -> ProjectRecord:
        """The project of the path.

        Raises:
            ProblemError: 404.
        """
        project = self.services.view.project(self.organization, self.request.path_params["project"])
        if project is None:
            raise not_found("the project")
        return project

    @property
    def endpoints(self) -> Sequence[EndpointRecord]:
        """The endpoints of the project of the path."""
        return self.services.view.endpoints.find("project", (self.organization, self.project.identity.name))

    @property
    def event_types(self) -> Mapping[str, Mapping[str, Any]]:
        """Each event type in the form of ``/v1``."""
        return self.services.view.event_types(self.organization)

    @cached_property
    def endpoint(self) -> EndpointRecord:
        """The endpoint of the path.

        Raises:
            ProblemError: 404, also for an endpoint of another project.
        """
        return endpoint_named(self.request, self.request.path_params["endpoint"], self.project.identity.name)

    @property
    def here(self) -> str:
        """The path of the endpoint of the path, or of its project."""
        endpoint = ("endpoints", self.endpoint.identity.name) if "endpoint" in self.request.path_params else ()
        return console_path("projects", self.project.identity.name, *endpoint)

    def may(self, permission: Permission) -> bool:
        """Return whether the user has a permission."""
        user = self.caller.user if self.caller else None
        return bool(user and permission.role and user.role.includes(permission.role))

    def open_tabs(self, path: str, tabs: Mapping[str, str]) -> dict[str, str]:
        """Return the tabs whose pages the user may open; the first tab is at the path itself, as in `PAGES`."""
        first = next(iter(tabs))
        return {name: title for name, title in tabs.items() if self.may(PAGES[path + f"/{name}" * (name != first)])}

    def form_token(self) -> Markup:
        """Return the hidden field by which a form shows that it belongs to the session."""
        token = form_token_of(self.token) if self.token else ""
        return Markup('<input type="hidden" name="{}" value="{}">').format(TOKEN_FIELD, token)

    async def call(self, operation: Operation, *arguments: Any, **options: Any) -> Any:
        """Call the function of a route of ``/v1``, and return the JSON document of its answer; None without a body.

        Args:
            operation: the function; the page must have declared it in ``uses``.
            arguments: path parameters and the body, as the function takes them.
            options: further parameters.

        Raises:
            ProblemError: the refusal of ``/v1``; 403, the user lacks the permission of the function.
            RuntimeError: the page has not declared the function.
        """
        if operation not in self.uses:
            raise RuntimeError(f"{self.request.url.path} calls {operation.__name__}, which `uses` does not name")
        permission = permission_of(operation)
        if not permission.open:
            caller_of(self.request).check(permission)
        answer = await operation(self.request, *arguments, **options)
        return from_json(answer.body) if answer.body else None

    async def call_endpoint(self, operation: Operation, *arguments: Any, **options: Any) -> Any:
        """Call a function for the endpoint of the path, as `call`."""
        project = self.project.identity.name
        return await self.call(operation, self.endpoint.identity.name, *arguments, project=project, **options)

    def render(self, template: str, status: int = 0, **context: Any) -> Response:
        """Return a page.

        Args:
            template: name of a file in ``templates/``.
            status: of the answer; 0: that of the problem, otherwise 200.
            context: names for the template, in addition to those of `templating` and of this function.
        """
        objects = {
            name: getattr(self, name)
            for parameter in ("project", "endpoint")
            if self.caller and parameter in self.request.path_params
            for name in (parameter, "here")
        }
        problem = context.get("problem", self.problem)
        names: dict[str, Any] = {
            "form": self.form,
            "problem": problem,
            "faults": faults_of(problem, context.get("fields", ())),
            # After a 503 the same form repeats the request; a corrected form is another one.
            "request_key": (problem and problem.status == 503 and self.form.text("request_key")) or token_hex(16),
            **objects,
            **context,
        }
        answer = self._page(template, status or (self.problem.status if self.problem else 200), names)
        if self.problem:
            answer.headers.update(self.problem.headers)
        return answer

    def render_problem(self, problem: ProblemError) -> Response:
        """Return the page of a refusal, in words for people; htmx puts it into the place for notices."""
        context = {
            "problem": problem,
            "title": TITLES.get(problem.status, "Error"),
            "advice": ADVICE.get(problem.status, ""),
        }
        answer = self._page("problem.html", problem.status, context)
        answer.headers.update(problem.headers)
        if self.request.headers.get("hx-request"):
            answer.headers.update({"HX-Retarget": "#notice", "HX-Reswap": "innerHTML", "HX-Reselect": "#problem"})
        return answer

    def _page(self, template: str, status: int, context: dict[str, Any]) -> Response:
        basics = {
            "user": self.caller.user if self.caller else None,
            "may": self.may,
            "open_tabs": self.open_tabs,
            "form_token": self.form_token,
            "notice": NOTICES.get(self.query.get("notice", ""), ""),
        }
        return page_of(template, status, {**basics, **context})

    def see(self, path: str, *, notice: str = "") -> Response:
        """Lead the browser to a page after a change, with a sentence of `NOTICES` at its top."""
        separator = "&" if "?" in path else "?"
        target = f"{path}{separator}{urlencode({'notice': notice})}" if notice else path
        if self.request.headers.get("hx-request"):
            return Response("", 200, {**HEADERS, "HX-Redirect": quote(target, safe=_URL_CHARACTERS)})
        return RedirectResponse(target, 303, headers=HEADERS)


def visit_in(scope: Scope) -> Visit:
    """Return the visit of a request; a new one if the request did not come to a route of the console."""
    visit: Visit = scope.get(_VISIT) or Visit(Request(scope))
    return visit


def form_token_of(session_token: str) -> str:
    """Return the token that forms of a session have; it reveals nothing about the session token."""
    return hmac.new(session_token.encode(), _PURPOSE, hashlib.sha256).hexdigest()


async def attempt(awaitable: Awaitable[T]) -> tuple[T | None, ProblemError | None]:
    """Return a part of a page, or the reason why it is missing.

    Raises:
        ProblemError: the reason is an error of the person, not the state of a service.
    """
    try:
        return await awaitable, None
    except ProblemError as problem:
        if problem.status < 500 and problem.status != 429:
            raise
        return None, problem

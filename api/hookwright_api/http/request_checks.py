"""The checks that a request passes before the function of its route runs.

`Middleware` is in front of every route: it counts requests of an address, and answers every error. It is plain ASGI,
because every request passes it. A `GuardedRoute` checks, in this order, the credential, the limit of the organization
and the permission, and then reads the body. FastAPI reads and validates a body before any dependency runs, so an
anonymous caller would see the faults of a body. Each route declares its permission with `needs`; a route without it
cannot be created.
"""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection, Container, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeVar

import structlog
from fastapi.dependencies.models import Dependant
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Cookie, Header, Path
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bind_contextvars

from hookwright_api import metrics
from hookwright_api.auth.callers import CALLER, Caller, authenticate, caller_of
from hookwright_api.http.client_address import client_of
from hookwright_api.http.openapi import changes_state, route_options
from hookwright_api.operator_client import pass_on
from hookwright_api.rate_limits import Limiter, Verdict, limit_headers
from hookwright_api.rate_limits import Scope as LimitScope
from hookwright_api.services import services_of
from hookwright_crds.documents.event_bodies import EVENTS_BODY_LIMIT
from hookwright_crds.documents.forms import Request as RequestBody
from hookwright_crds.permissions import Permission
from hookwright_crds.requests import REQUEST_ID, request_id
from hookwright_runtime.connections import Network
from hookwright_runtime.problems import MEDIA_TYPE, FieldFault, ProblemError, invalid, unavailable
from hookwright_runtime.request_body import ClientGoneError, check_values, parse_json

log = structlog.get_logger(__name__)

TALLY: Final = "hookwright.tally"
CLIENT: Final = "hookwright.client"
"""Keys of the ASGI scope: the verdicts on this request, and the client for which it was counted."""

AnswerOf = Callable[[Scope, ProblemError], Response]

_REQUEST_ID: Final = REQUEST_ID.lower().encode()
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
BODY_LIMIT: Final = 256 * 1024
JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
_PERMISSION: Final = "hookwright_permission"
_MOST_NAMED: Final = 10
_MOST_SHOWN: Final = 64
"""Characters of the name of a parameter."""

F = TypeVar("F", bound=Callable[..., Any])


def enforce(scope: Scope, verdict: Verdict | None) -> None:
    """Show a verdict in the headers of the answer; None is no limit.

    Raises:
        ProblemError: 429, the request is not allowed.
    """
    if verdict is not None:
        scope[TALLY].append(verdict)
        if not verdict.allowed:
            raise verdict.refusal()


def problem_answer(_: Scope, problem: ProblemError) -> Response:
    """Return the problem document."""
    return Response(problem.body(), problem.status, problem.headers, media_type=MEDIA_TYPE)


@dataclass(frozen=True, slots=True)
class Middleware:
    """A middleware that gives every request an answer.

    Attributes:
        app: the application.
        limiter: returns the limiter, which is created when the application starts.
        proxies: networks of the proxies whose X-Forwarded-For is used.
        file_paths: paths of files, which have no limit.
        routes: label the metrics of requests that are refused before the routing.
        answer_of: returns the answer to a request that no route answers.
    """

    app: ASGIApp
    limiter: Callable[[], Limiter]
    proxies: tuple[Network, ...]
    file_paths: Container[str] = ()
    routes: Sequence[Route] = ()
    answer_of: AnswerOf = problem_answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        method = scope["method"]
        if method == "HEAD" and not changes_state(scope["path"]):
            # The routes know only GET; `answer` omits the body.
            scope = {**scope, "method": "GET"}
        headers = Headers(scope=scope)
        its_id = request_id(headers.get(REQUEST_ID), lambda: secrets.token_hex(16))
        bind_contextvars(request_id=its_id)
        pass_on(its_id, headers)
        status = 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *_headers(scope, its_id)]
            elif method == "HEAD":
                message = {**message, "body": b""}
            await send(message)

        try:
            await self._count(scope, headers)
            await self.app(scope, receive, answer)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - the client gets a problem for every error
            if "route" not in scope:
                scope["route"] = next((route for route in self.routes if route.path_regex.match(scope["path"])), None)
            if not status:
                await self.answer_of(scope, self._problem(error, scope, its_id))(scope, receive, answer)
        finally:
            _measure(scope, method, status or 500, time.perf_counter() - began)

    async def _count(self, scope: Scope, headers: Headers) -> None:
        scope[TALLY] = []
        peer = scope.get("client")
        forwarded_for = headers.getlist("x-forwarded-for") if self.proxies else ()
        scope[CLIENT] = client_of(peer[0] if peer else None, forwarded_for, self.proxies)
        if scope["path"] not in self.file_paths:
            enforce(scope, await self.limiter().hit(LimitScope.IP, scope[CLIENT]))

    def _problem(self, error: BaseException, scope: Scope, its_id: str) -> ProblemError:
        if isinstance(error, ProblemError):
            return error
        if isinstance(error, asyncio.CancelledError):
            # The server cancels open requests at the end of its grace period.
            return unavailable("the API is stopping")
        log.error("unexpected fault", method=scope["method"], route=_route(scope), exc_info=error)
        return ProblemError(500, f"unexpected error; see the API's log for request id {its_id}", trace=its_id)


def _headers(scope: Scope, its_id: str) -> list[tuple[bytes, bytes]]:
    """Return the headers that each answer has."""
    headers = [(b"x-content-type-options", b"nosniff"), (_REQUEST_ID, its_id.encode())]
    if scope["path"].startswith("/v1"):
        headers.append((b"cache-control", b"no-store"))
    return headers + limit_headers(scope.get(TALLY, []))


def _route(scope: Scope) -> str:
    return getattr(scope.get("route"), "path", "unmatched")


def _measure(scope: Scope, method: str, status: int, seconds: float) -> None:
    route = _route(scope)
    metrics.REQUESTS.labels(route, method if method in _METHODS else "other", str(status)).inc()
    metrics.REQUEST_DURATION.labels(route).observe(seconds)


def client_of_request(request: Request) -> str:
    """Return the client for which the limit per address counts a request."""
    client: str = request.scope[CLIENT]
    return client


def holder_of(request: Request) -> str:
    """Return who holds the places and the memory that a request uses: its organization, or its client address."""
    caller: Caller | None = request.scope.get(CALLER)
    return f'organization "{caller.organization}"' if caller else f"client {client_of_request(request)}"


def audit(
    request: Request, action: str, *, target: str, project: str = "", deliveries: Sequence[str] | None = None
) -> None:
    """Log what the caller did in its organization; see `AuditLog.record`."""
    caller = caller_of(request)
    services_of(request).audit.record(
        action,
        actor=caller.actor,
        client=client_of_request(request),
        organization=caller.organization,
        project=project,
        target=target,
        deliveries=deliveries,
    )


def needs(permission: Permission) -> Callable[[F], F]:
    """Declare the permission of a route; the decorator stands below the one that creates the route."""

    def declare(endpoint: F) -> F:
        vars(endpoint)[_PERMISSION] = permission
        return endpoint

    return declare


def permission_of(endpoint: Callable[..., Any]) -> Permission:
    """Return the declared permission of a route's function.

    Raises:
        TypeError: it declares none.
    """
    permission = vars(endpoint).get(_PERMISSION)
    if not isinstance(permission, Permission):
        raise TypeError(f"declare the permission of {endpoint.__name__} with @needs(...)")
    return permission


class GuardedRoute(APIRoute):
    """A route that only callers with its declared permission may call.

    A route reads its body itself if ``openapi_extra`` says whether the body is required.

    Attributes:
        body_limit: most bytes of the body.
        permission: as declared.
    """

    body_limit: ClassVar[int] = BODY_LIMIT

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """Create a route, with its refusals and its permission in the OpenAPI description.

        Raises:
            TypeError: the route does not declare its permission.
        """
        self.permission = permission = permission_of(endpoint)
        refusals, extra = route_options(
            path, methods=options.get("methods") or (), permission=permission, body_limit=self.body_limit
        )
        options["responses"] = {**refusals, **(options.get("responses") or {})}
        options["openapi_extra"] = {**extra, **(options.get("openapi_extra") or {})}
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of a request."""
        handler = super().get_route_handler()
        parameters = _query_parameters(self.dependant)
        raw_required = (self.openapi_extra or {}).get("requestBody", {}).get("required")
        is_required = self.body_field.field_info.is_required() if self.body_field else bool(raw_required)
        limit = _most_values(self.body_field.field_info.annotation) if self.body_field else 0

        async def guarded(request: Request) -> Response:
            services = services_of(request)
            if not services.view.ready:
                raise unavailable("the API is starting; it has no data from the API server yet")
            if not self.permission.open:
                await admit(request, authenticate(request), self.permission)
            _check_query(request, parameters)
            if self.body_field is None and raw_required is None:
                return await handler(request)
            body = await self._read_body(request, is_required=is_required)
            if self.body_field is None or not body:
                return await handler(with_body(request, body))
            with await services.parsing.acquire(holder_of(request)):
                check_values(body, limit)
                # FastAPI's reader accepts what other readers understand differently, or not at all.
                parse_json(body)
            # The place is free only after a pass of the event loop, and FastAPI parses the body without one.
            return await handler(with_body(request, body))

        return guarded

    async def _read_body(self, request: Request, *, is_required: bool) -> bytes:
        """Return the body of a request, of the right type and size."""
        content_type = request.headers.get("content-type", "")
        self._check_media(content_type, required=is_required)
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise ProblemError(415, "send the body without a Content-Encoding")
        bodies = services_of(request).bodies
        try:
            body = await bodies.read(request.receive, request.headers, holder_of(request), limit=self.body_limit)
        except ClientGoneError:
            # The client does not read this.
            raise ProblemError(400, "the body is not complete") from None
        if body:
            self._check_media(content_type, required=True)
        elif is_required:
            raise ProblemError(400, "the body is empty; send JSON")
        return body

    def _check_media(self, content_type: str, *, required: bool) -> None:
        media = (MERGE_PATCH, JSON) if self.methods == {"PATCH"} else (JSON,)
        if (content_type or required) and content_type.partition(";")[0].strip().lower() not in media:
            raise ProblemError(415, f"send the body as Content-Type: {' or '.join(media)}")


class EventsRoute(GuardedRoute):
    """The route for events, which has a larger body."""

    body_limit = EVENTS_BODY_LIMIT


async def admit(request: Request, caller: Caller, permission: Permission) -> None:
    """Count a request of an authenticated caller, and make it the request's caller.

    Raises:
        ProblemError: 429, the organization's limit is used up; 403, the caller lacks the permission.
    """
    await count_request(request, caller)
    if caller.key is not None:
        services_of(request).key_use.note(caller.key)
    request.scope[CALLER] = caller
    caller.check(permission)


async def count_request(request: Request, caller: Caller) -> None:
    """Count a request of an organization, also one more operation of it; the answer shows the last count.

    Raises:
        ProblemError: 429.
    """
    verdict = await services_of(request).limiter.hit(LimitScope.ORGANIZATION, caller.organization)
    tally = request.scope[TALLY]
    tally[:] = [other for other in tally if other.scope is not LimitScope.ORGANIZATION]
    enforce(request.scope, verdict)


def with_body(request: Request, body: bytes) -> Request:
    """Return a request with this body in place of its own, which was read."""
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Message:
        return next(messages, None) or await request.receive()

    return Request(request.scope, receive)


def _query_parameters(dependant: Dependant) -> Collection[str]:
    """Return the names of the query parameters of a route, also those of a model."""
    elsewhere = Path | Header | Cookie
    return {field.alias for field in get_flat_params(dependant) if not isinstance(field.field_info, elsewhere)}


def _check_query(request: Request, parameters: Collection[str]) -> None:
    """Refuse an unknown parameter and one that is sent twice, because they would silently have no effect."""
    names = Counter([name for name, _ in request.query_params.multi_items()])
    faults = [FieldFault(name[:_MOST_SHOWN], "is unknown; omit it") for name in names if name not in parameters]
    faults += [
        FieldFault(name, "is sent more than once; send one value")
        for name, times in names.items()
        if times > 1 and name in parameters
    ]
    if faults:
        raise invalid(*faults[:_MOST_NAMED])


def _most_values(model: Any) -> int:
    if isinstance(model, type) and issubclass(model, RequestBody):
        return model.most_values
    raise TypeError(f"the body {model} must be a {RequestBody.__name__}, which bounds its values")

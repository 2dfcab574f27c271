"""Routes that check, in this order, the credential, the limit and the permission, and then read the body.

FastAPI reads and validates a body before any dependency runs, so an anonymous caller would see the faults of a body.
These routes require the credential first. Each route declares its permission with `needs`; a route without it cannot be
created.
"""

import functools
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any, ClassVar, Final, TypeVar

from fastapi import Response
from fastapi.dependencies.models import Dependant
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Cookie, Header, Path
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.types import Message, Receive

from hookwright_api.auth.callers import Caller, authenticate
from hookwright_api.http.middleware import CLIENT, enforce
from hookwright_api.http.openapi import route_options
from hookwright_api.rate_limits import Scope
from hookwright_api.services import services_of
from hookwright_crds.documents.event_bodies import EVENTS_BODY_LIMIT
from hookwright_crds.documents.forms import Request as RequestBody
from hookwright_crds.permissions import Permission
from hookwright_runtime.problems import FieldFault, ProblemError, invalid, unavailable
from hookwright_runtime.request_body import ClientGoneError, check_values, parse_json

BODY_LIMIT: Final = 256 * 1024
JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
_CALLER: Final = "hookwright.caller"
_PARSING: Final = "hookwright.parsing"
"""Key of the ASGI scope: what releases the place in which a body is parsed."""
_PERMISSION: Final = "hookwright_permission"
_MOST_NAMED: Final = 10
_MOST_SHOWN: Final = 64
"""Characters of the name of a parameter."""

F = TypeVar("F", bound=Callable[..., Any])


def caller_of(request: Request) -> Caller:
    """Return the caller of a route that needs a credential."""
    caller: Caller = request.scope[_CALLER]
    return caller


def client_of_request(request: Request) -> str:
    """Return the client for which the limit per address counts a request."""
    client: str = request.scope[CLIENT]
    return client


def holder_of(request: Request) -> str:
    """Return who holds the places and the memory that a request uses: its organization, or its client address."""
    caller: Caller | None = request.scope.get(_CALLER)
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

    Attributes:
        body_limit: most bytes of the body.
        raw_body: the route reads the body itself.
        permission: as declared.
        optional_body: a request without a body is accepted.
        media: the accepted content types.
    """

    body_limit: ClassVar[int] = BODY_LIMIT
    raw_body: ClassVar[bool] = False
    optional_body: ClassVar[bool] = False
    media: ClassVar[tuple[str, ...]] = (JSON,)

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """Create a route, with its refusals and its permission in the OpenAPI description.

        Raises:
            TypeError: the route does not declare its permission.
        """
        try:
            self.permission = permission = permission_of(endpoint)
        except TypeError as error:
            raise TypeError(f"{path}: {error}") from None
        description = route_options(
            path, methods=options.get("methods") or (), permission=permission, body_limit=self.body_limit
        )
        options["responses"] = {**description.responses, **(options.get("responses") or {})}
        options["openapi_extra"] = {**description.extra, **(options.get("openapi_extra") or {})}
        super().__init__(path, _after_parsing(endpoint), **options)
        if self.body_field and self.dependant.request_param_name != "request":
            raise TypeError(f"{path}: a route with a body needs the parameter request, which has the place of the body")

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of a request."""
        handler = super().get_route_handler()
        parameters = _query_parameters(self.dependant)
        reads_body = self.raw_body or self.body_field is not None
        limit = _most_values(self.body_field.field_info.annotation) if self.body_field else 0

        async def guarded(request: Request) -> Response:
            services = services_of(request)
            if not services.view.ready:
                raise unavailable("the API is starting; it has no data from the API server yet")
            if not self.permission.open:
                now, ttl = services.now(), services.settings.session_ttl
                caller = authenticate(services.view, request.headers.getlist, now, ttl)
                await admit(request, caller, self.permission)
            _check_query(request, parameters)
            if not reads_body:
                return await handler(request)
            body = await self._read_body(request)
            if self.raw_body or not body:
                return await handler(with_body(request, body))
            # The place is free when the body is valid, before the function of the route runs.
            with await services.parsing.acquire(holder_of(request)) as place:
                request.scope[_PARSING] = place
                check_values(body, limit)
                # FastAPI's reader accepts what other readers understand differently, or not at all.
                parse_json(body)
                return await handler(with_body(request, body))

        return guarded

    async def _read_body(self, request: Request) -> bytes:
        """Return the body of a request, of the right type and size."""
        content_type = request.headers.get("content-type", "")
        self._check_media(content_type, required=not self.optional_body)
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
        elif not self.optional_body:
            raise ProblemError(400, "the body is empty; send JSON")
        return body

    def _check_media(self, content_type: str, *, required: bool) -> None:
        if (content_type or required) and content_type.partition(";")[0].strip().lower() not in self.media:
            raise ProblemError(415, f"send the body as Content-Type: {' or '.join(self.media)}")


class EventsRoute(GuardedRoute):
    """The route for events: a larger body that is forwarded unchanged."""

    body_limit = EVENTS_BODY_LIMIT
    raw_body = True


class TestRoute(GuardedRoute):
    """The route for tests: a body that is optional and forwarded unchanged."""

    optional_body = True
    raw_body = True


class PatchRoute(GuardedRoute):
    """A route whose body is a JSON merge patch."""

    media = (MERGE_PATCH, JSON)


class OptionalBodyRoute(GuardedRoute):
    """A route whose body is optional."""

    optional_body = True


async def admit(request: Request, caller: Caller, permission: Permission) -> None:
    """Count a request of an authenticated caller, and make it the request's caller.

    Raises:
        ProblemError: 429, the organization's limit is used up; 403, the caller lacks the permission.
    """
    services = services_of(request)
    enforce(request.scope, await services.limiter.hit(Scope.ORGANIZATION, caller.organization))
    if caller.key is not None:
        services.key_use.note(caller.key)
    request.scope[_CALLER] = caller
    caller.check(permission)


def with_body(request: Request, body: bytes) -> Request:
    """Return a request with this body in place of its own, which was read."""
    return Request(request.scope, _replay(body, request.receive))


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


def _after_parsing(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of a route that first releases the place in which the body was parsed."""

    @functools.wraps(endpoint)
    async def begin(**arguments: Any) -> Any:
        request: Request | None = arguments.get("request")
        if request is not None and (place := request.scope.get(_PARSING)) is not None:
            place.close()
        return await endpoint(**arguments)

    return begin


def _replay(body: bytes, receive: Receive) -> Receive:
    is_sent = False

    async def again() -> Message:
        nonlocal is_sent
        if is_sent:
            return await receive()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again

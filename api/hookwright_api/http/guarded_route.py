"""Routes that check, in this order, the credential, the limit and the permission, and then read the body.

FastAPI reads and validates a body before any dependency runs, so an anonymous caller would see the faults of a body.
These routes require the credential first.
"""

from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, Final

from fastapi import Response
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.types import Message, Receive

from hookwright_api.auth.callers import Caller, Credential, authenticate
from hookwright_api.http.middleware import CLIENT, tally_of
from hookwright_api.http.openapi import route_options
from hookwright_api.rate_limits import Scope
from hookwright_api.services import Services, services_of
from hookwright_runtime.problems import ProblemError, unavailable
from hookwright_runtime.request_body import ClientGoneError

BODY_LIMIT: Final = 256 * 1024
EVENTS_BODY_LIMIT: Final = 1024 * 1024
_CALLER: Final = "hookwright.caller"


def caller_of(request: Request) -> Caller:
    """Return the caller of a route that needs a credential."""
    caller: Caller = request.scope[_CALLER]
    return caller


def client_of_request(request: Request) -> str:
    """Return the client for which the limit per address counts a request."""
    client: str = request.scope[CLIENT]
    return client


class OpenRoute(APIRoute):
    """A route without a credential.

    Attributes:
        accepts: the kinds of credentials that may call; empty: no credential needed.
        body_limit: most bytes of the body.
        raw_body: the route reads the body itself.
    """

    accepts: ClassVar[tuple[Credential, ...]] = ()
    body_limit: ClassVar[int] = BODY_LIMIT
    raw_body: ClassVar[bool] = False

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """Create a route, with its refusals and credentials in the OpenAPI description."""
        described = route_options(
            path, methods=options.get("methods") or (), accepts=self.accepts, body_limit=self.body_limit
        )
        options["responses"] = {**described.responses, **(options.get("responses") or {})}
        options["openapi_extra"] = {**described.extra, **(options.get("openapi_extra") or {})}
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of a request."""
        handler = super().get_route_handler()
        reads_body = self.raw_body or self.body_field is not None

        async def guarded(request: Request) -> Response:
            services = services_of(request)
            if not services.view.ready:
                raise unavailable("the API is starting; it has no data from the API server yet")
            if self.accepts:
                request.scope[_CALLER] = await _admit(request, services, self.accepts)
            return await handler(await _with_body(request, self.body_limit) if reads_body else request)

        return guarded


class SessionRoute(OpenRoute):
    """A route for sessions."""

    accepts = (Credential.SESSION,)


class KeyRoute(OpenRoute):
    """A route for API keys."""

    accepts = (Credential.KEY,)


class EventsRoute(KeyRoute):
    """The route for events: a key, and a larger body that is forwarded unchanged."""

    body_limit = EVENTS_BODY_LIMIT
    raw_body = True


class KeyOrSessionRoute(OpenRoute):
    """A route for keys and sessions."""

    accepts = (Credential.KEY, Credential.SESSION)


async def _admit(request: Request, services: Services, accepts: tuple[Credential, ...]) -> Caller:
    caller = authenticate(services.view, request.headers.get, services.now())
    verdict = await services.limiter.hit(Scope.ORGANIZATION, caller.organization)
    if verdict is not None:
        tally_of(request.scope).append(verdict)
        if not verdict.allowed:
            raise verdict.refusal()
    if caller.key is not None:
        services.key_use.note(caller.key)
    if caller.credential not in accepts:
        raise ProblemError(403, f"this route does not accept {caller.credential.value}; send {accepts[0].value}")
    return caller


async def _with_body(request: Request, limit: int) -> Request:
    """Return the request with its body, of the right type and size."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":
        raise ProblemError(415, "send the body as Content-Type: application/json")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise ProblemError(415, "send the body without a Content-Encoding")
    caller: Caller | None = request.scope.get(_CALLER)
    holder = f'organization "{caller.organization}"' if caller else f"client {client_of_request(request)}"
    try:
        body = await services_of(request).bodies.read(request.receive, request.headers, holder, limit=limit)
    except ClientGoneError:
        # The client does not read this.
        raise ProblemError(400, "the body is not complete") from None
    if not body:
        raise ProblemError(400, "the body is empty; send JSON")
    return Request(request.scope, _replay(body, request.receive))


def _replay(body: bytes, receive: Receive) -> Receive:
    sent = False

    async def again() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again

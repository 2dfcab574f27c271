"""Middleware in front of every route: the limit per address, rate-limit headers, ids, metrics, unexpected errors.

It is plain ASGI, because every request passes it.
"""

import secrets
import time
from collections.abc import Awaitable, Callable, Container, Sequence
from typing import Final

import structlog
from starlette.datastructures import Headers
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bind_contextvars

from hookwright_api import metrics
from hookwright_api.http.client_address import client_of
from hookwright_api.http.openapi import changes_state
from hookwright_api.operator_client import pass_on
from hookwright_api.rate_limits import Limiter, Verdict, limit_headers
from hookwright_api.rate_limits import Scope as LimitScope
from hookwright_crds.requests import REQUEST_ID, request_id
from hookwright_runtime.connections import Network
from hookwright_runtime.problems import ProblemError, send_problem

log = structlog.get_logger(__name__)

TALLY: Final = "hookwright.tally"
CLIENT: Final = "hookwright.client"
"""Keys of the ASGI scope: the verdicts on this request, and the client for which it was counted."""

SendError = Callable[[Scope, Send, ProblemError], Awaitable[None]]

_REQUEST_ID: Final = REQUEST_ID.lower().encode()
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def enforce(scope: Scope, verdict: Verdict | None) -> None:
    """Show a verdict in the headers of the answer; None is no limit.

    Raises:
        ProblemError: 429, the request is not allowed.
    """
    if verdict is not None:
        scope[TALLY].append(verdict)
        if not verdict.allowed:
            raise verdict.refusal()


async def _send_problem(_: Scope, send: Send, problem: ProblemError) -> None:
    await send_problem(send, problem)


class Middleware:
    """A middleware that gives every request an answer."""

    def __init__(
        self,
        app: ASGIApp,
        limiter: Callable[[], Limiter],
        *,
        proxies: tuple[Network, ...],
        file_paths: Container[str] = frozenset(),
        routes: Sequence[Route] = (),
        send_error: SendError = _send_problem,
        new_request_id: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        """Wrap an application.

        Args:
            app: the application.
            limiter: returns the limiter, which is created when the application starts.
            proxies: networks of the proxies whose X-Forwarded-For is used.
            file_paths: paths of files, which have no limit.
            routes: label the metrics of requests that are refused before the routing.
            send_error: answers a request that no route answers.
            new_request_id: creates the id of a request without one.
        """
        self._app = app
        self._limiter = limiter
        self._proxies = proxies
        self._file_paths = file_paths
        self._routes = routes
        self._send_error = send_error
        self._new_request_id = new_request_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        method = scope["method"]
        if method == "HEAD" and not changes_state(scope["path"]):
            # The routes know only GET; `_Answer` omits the body.
            scope = {**scope, "method": "GET"}
        headers = Headers(scope=scope)
        its_id = request_id(headers.get(REQUEST_ID), self._new_request_id)
        bind_contextvars(request_id=its_id)
        pass_on(its_id, headers)
        answer = _Answer(scope, send, its_id, with_body=method != "HEAD")
        try:
            await self._count(scope, headers)
            await self._app(scope, receive, answer.send)
        except Exception as error:  # noqa: BLE001 - the client gets a problem document for every error
            if "route" not in scope:
                scope["route"] = next((route for route in self._routes if route.path_regex.match(scope["path"])), None)
            if not answer.started:
                await self._send_error(scope, answer.send, self._problem(error, scope, its_id))
        finally:
            _measure(scope, method, answer.status, time.perf_counter() - began)

    async def _count(self, scope: Scope, headers: Headers) -> None:
        scope[TALLY] = []
        peer = scope.get("client")
        forwarded_for = headers.getlist("x-forwarded-for") if self._proxies else ()
        scope[CLIENT] = client_of(peer[0] if peer else None, forwarded_for, self._proxies)
        if scope["path"] not in self._file_paths:
            enforce(scope, await self._limiter().hit(LimitScope.IP, scope[CLIENT]))

    def _problem(self, error: Exception, scope: Scope, its_id: str) -> ProblemError:
        if isinstance(error, ProblemError):
            return error
        log.error("unexpected fault", method=scope["method"], route=_route(scope), exc_info=error)
        return ProblemError(500, f"unexpected error; see the API's log for request id {its_id}", trace=its_id)


class _Answer:
    """The answer to one request while it is sent."""

    def __init__(self, scope: Scope, send: Send, its_id: str, *, with_body: bool) -> None:
        self._scope = scope
        self._with_body = with_body
        self._request_id = (_REQUEST_ID, its_id.encode())
        self._send = send
        self.started = False
        self.status = 500

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started, self.status = True, message["status"]
            message["headers"] = [*message.get("headers", ()), *self._headers()]
        elif not self._with_body:
            message = {**message, "body": b""}
        await self._send(message)

    def _headers(self) -> list[tuple[bytes, bytes]]:
        headers = [(b"x-content-type-options", b"nosniff"), self._request_id]
        if self._scope["path"].startswith("/v1"):
            headers.append((b"cache-control", b"no-store"))
        return headers + limit_headers(self._scope.get(TALLY, []))


def _route(scope: Scope) -> str:
    return getattr(scope.get("route"), "path", "unmatched")


def _measure(scope: Scope, method: str, status: int, seconds: float) -> None:
    route = _route(scope)
    metrics.REQUESTS.labels(route, method if method in _METHODS else "other", str(status)).inc()
    metrics.REQUEST_DURATION.labels(route).observe(seconds)

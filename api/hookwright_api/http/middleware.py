"""Middleware in front of every route: the limit per address, rate-limit headers, ids, metrics, unexpected errors.

It is plain ASGI, because every request passes it.
"""

import secrets
import time
from collections.abc import Callable
from typing import Final, cast

import structlog
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hookwright_api import metrics
from hookwright_api.http.client_address import client_of
from hookwright_api.rate_limits import Limiter, LimitsUnavailable, Verdict, nearest
from hookwright_api.rate_limits import Scope as LimitScope
from hookwright_api.request_context import begin
from hookwright_crds.requests import REQUEST_ID, request_id
from hookwright_runtime.connections import Network
from hookwright_runtime.problems import ProblemError, send_problem, unavailable

log = structlog.get_logger(__name__)

TALLY: Final = "hookwright.tally"
CLIENT: Final = "hookwright.client"
"""Keys of the ASGI scope: the verdicts on this request, and the client for which it was counted."""

_REQUEST_ID: Final = REQUEST_ID.lower().encode()
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def tally_of(scope: Scope) -> list[Verdict]:
    """Return the verdicts on a request; limits that are counted later append theirs."""
    return cast("list[Verdict]", scope[TALLY])


class Middleware:
    """A middleware that gives every request an answer."""

    def __init__(
        self,
        app: ASGIApp,
        limiter: Callable[[], Limiter],
        *,
        trusted: tuple[Network, ...],
        new_request_id: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        """Wrap an application.

        Args:
            app: the application.
            limiter: returns the limiter, which is created when the application starts.
            trusted: networks of the proxies whose X-Forwarded-For is used.
            new_request_id: creates the id of a request without one.
        """
        self._app = app
        self._limiter = limiter
        self._trusted = trusted
        self._new_request_id = new_request_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        headers = Headers(scope=scope)
        told = request_id(headers.get(REQUEST_ID), self._new_request_id)
        begin(told, headers)
        answer = _Answer(scope, send, told)
        try:
            await self._count(scope, headers)
            await self._app(scope, receive, answer.send)
        except Exception as error:  # noqa: BLE001 - the client gets a problem document for every error
            if not answer.started:
                await send_problem(answer.send, self._problem(error, scope, told))
        finally:
            _measure(scope, answer.status, time.perf_counter() - began)

    async def _count(self, scope: Scope, headers: Headers) -> None:
        scope[TALLY] = tally = []
        peer = scope.get("client")
        forwarded = headers.getlist("x-forwarded-for") if self._trusted else ()
        scope[CLIENT] = client_of(peer[0] if peer else None, forwarded, self._trusted)
        verdict = await self._limiter().hit(LimitScope.IP, scope[CLIENT])
        if verdict is not None:
            tally.append(verdict)
            if not verdict.allowed:
                raise verdict.refusal()

    def _problem(self, error: Exception, scope: Scope, told: str) -> ProblemError:
        if isinstance(error, ProblemError):
            return error
        if isinstance(error, LimitsUnavailable):
            return unavailable(str(error))
        log.error("unexpected fault", method=scope["method"], route=_route(scope), exc_info=error)
        return ProblemError(500, f"unexpected error; see the API's log for request id {told}", trace=told)


class _Answer:
    """The answer to one request while it is sent."""

    def __init__(self, scope: Scope, send: Send, told: str) -> None:
        self._scope = scope
        self._request_id = (_REQUEST_ID, told.encode())
        self._send = send
        self.started = False
        self.status = 500

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started, self.status = True, message["status"]
            message["headers"] = [*message.get("headers", ()), *self._headers()]
        await self._send(message)

    def _headers(self) -> list[tuple[bytes, bytes]]:
        headers = [(b"x-content-type-options", b"nosniff"), self._request_id]
        if self._scope["path"].startswith("/v1"):
            headers.append((b"cache-control", b"no-store"))
        verdict = nearest(self._scope.get(TALLY, []))
        if verdict is not None:
            headers += [
                (b"x-ratelimit-limit", b"%d" % verdict.limit),
                (b"x-ratelimit-remaining", b"%d" % verdict.remaining),
                (b"x-ratelimit-reset", b"%d" % verdict.reset),
            ]
        return headers


def _route(scope: Scope) -> str:
    return getattr(scope.get("route"), "path", "unmatched")


def _measure(scope: Scope, status: int, seconds: float) -> None:
    route = _route(scope)
    method = scope["method"] if scope["method"] in _METHODS else "other"
    metrics.REQUESTS.labels(route, method, str(status)).inc()
    metrics.REQUEST_DURATION.labels(route).observe(seconds)

"""The intake as one ASGI application: readiness, routing, and every error as a problem document."""

import asyncio
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache

import structlog
from prometheus_client import Counter, Histogram
from starlette.exceptions import HTTPException
from starlette.routing import Route, Router
from starlette.types import Message, Receive, Scope, Send
from structlog.contextvars import bind_contextvars

from hookwright_crds.requests import REQUEST_ID, request_id
from hookwright_operator import metrics
from hookwright_operator.intake.auth import ReviewAuth
from hookwright_operator.intake.context import IntakeContext
from hookwright_operator.intake.routes import routes
from hookwright_operator.intake.routes.events import EVENTS, EventRoute
from hookwright_operator.services import IntakeServices
from hookwright_operator.tracing import Traces
from hookwright_runtime.bounds import EVENT_REQUESTS, INTAKE_BODY_BYTES, Bound
from hookwright_runtime.errors import KubeError, StoreError
from hookwright_runtime.log_bounds import LogBound
from hookwright_runtime.places import Places
from hookwright_runtime.problems import STORE_FAILED, ProblemError, send_problem, unavailable
from hookwright_runtime.request_body import Bodies, ClientGoneError

log = structlog.get_logger(__name__)

_REQUEST_ID = REQUEST_ID.lower().encode()
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class IntakeApp:
    """The application in front of the routes.

    Args:
        services: the operations that the routes call.
        auth: authenticates and authorizes callers.
        ready: returns None if requests can be served, else the reason.
        traces: creates a span for each request with events; None: no spans.
        event_requests: the bound of the requests with events, each with a body of up to 1 MiB.
        body_seconds: time limit for the body of a request.
        new_request_id: creates the id of a request without one.

    Attributes:
        polls: the requests for messages, which wait.
        ending: set when the process stops; requests that wait for messages then get an empty answer.
    """

    def __init__(
        self,
        services: IntakeServices,
        auth: ReviewAuth,
        *,
        ready: Callable[[], str | None],
        traces: Traces | None = None,
        event_requests: Bound = EVENT_REQUESTS,
        body_seconds: float = 30.0,
        new_request_id: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        context = IntakeContext(services, auth, Bodies(body_seconds, INTAKE_BODY_BYTES))
        events = EventRoute(context, traces=traces, places=Places(event_requests))
        self.polls, self.ending = context.polls, context.ending
        metrics.PULL_POLLS.set_function(lambda: self.polls.count)
        metrics.NAMESPACE_USE.labels("polls").set_function(lambda: self.polls.largest_use)
        self._routes = [Route(EVENTS, events, methods=["POST"]), *routes(context)]
        self._router = Router(self._routes, redirect_slashes=False)
        for status in (202, 500, 503):
            # A rate over a counter that first appears with its first answer would miss that answer.
            _answers(EVENTS, "POST", status)
        self._ready = ready
        self._new_request_id = new_request_id
        self._review_failures = LogBound(burst=1, rate=1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        # The router needs this to raise its 404 and 405 as exceptions, which are caught here.
        scope["app"] = self
        scope[REQUEST_ID] = its_id = request_id(_given(scope), self._new_request_id)
        bind_contextvars(request_id=its_id)
        answer = self._measured(scope, _with_request_id(send, its_id))
        try:
            self._check_ready()
            await self._router(scope, receive, answer)
        except ClientGoneError:
            log.debug("client gone", path=scope["path"])
        except asyncio.CancelledError:
            # The server cancels open requests at the end of its grace period. A begun answer is cut off.
            with suppress(RuntimeError):
                await send_problem(answer, unavailable("the operator is stopping"))
        except Exception as error:  # noqa: BLE001 - the client gets a problem document for every error
            await send_problem(answer, self._problem(error, scope))

    def _measured(self, scope: Scope, send: Send) -> Send:
        """Return a ``send`` that counts the answer; a request that is refused before the routing has its route too."""
        began = time.perf_counter()

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                method, path = scope["method"], scope["path"]
                route = next((route.path for route in self._routes if route.path_regex.match(path)), "unmatched")
                known_method = method if method in _METHODS else "other"
                requests, duration = _answers(route, known_method, message["status"])
                requests.inc()
                duration.observe(time.perf_counter() - began)
            await send(message)

        return answer

    def _check_ready(self) -> None:
        if (reason := self._ready()) is not None:
            raise unavailable(f"not ready: {reason}")

    def _problem(self, error: Exception, scope: Scope) -> ProblemError:
        if isinstance(error, ProblemError):
            return error
        if isinstance(error, HTTPException):
            method, path = scope["method"], scope["path"]
            is_wrong_method = error.status_code == 405
            detail = f"{path} does not accept {method}" if is_wrong_method else f"{method} {path}: no such route"
            return ProblemError(error.status_code, detail, headers=error.headers)
        if isinstance(error, KubeError):
            # The error's message may repeat the request, which contains a token. A caller without a valid token can
            # cause it.
            if self._review_failures.take("reviews"):
                log.error("review failed", status=error.status, reason=error.reason, kind=type(error).__name__)
            return unavailable("the API server cannot review this token now")
        if isinstance(error, StoreError):
            log.error("store failed", error=str(error))
            return unavailable(STORE_FAILED)
        its_id = scope[REQUEST_ID]
        log.error("unexpected fault", method=scope["method"], path=scope["path"], exc_info=error)
        return ProblemError(500, f"unexpected error; see the operator's log for request id {its_id}", trace=its_id)


@cache
def _answers(route: str, method: str, status: int) -> tuple[Counter, Histogram]:
    """Return counter and histogram of answers; a look-up of the labels takes longer than the observation."""
    labels = route, method, str(status)
    return metrics.INTAKE_REQUESTS.labels(*labels), metrics.INTAKE_DURATION.labels(*labels)


def _given(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == _REQUEST_ID:
            text: str = value.decode("latin-1")
            return text
    return None


def _with_request_id(send: Send, its_id: str) -> Send:
    header = (_REQUEST_ID, its_id.encode())

    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], header]
        await send(message)

    return answer

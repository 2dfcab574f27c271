"""The intake as one ASGI application: readiness, routing, and every error as a problem document."""

import secrets
from collections.abc import Callable

import structlog
from starlette.exceptions import HTTPException
from starlette.routing import Route, Router
from starlette.types import Message, Receive, Scope, Send
from structlog.contextvars import bind_contextvars

from hookwright_crds.requests import REQUEST_ID, request_id
from hookwright_operator.intake.asgi import refuse
from hookwright_operator.intake.auth import ReviewAuth
from hookwright_operator.intake.request_slots import BODY_BYTES, BODY_BYTES_OF_NAMESPACE, EVENT_REQUESTS
from hookwright_operator.intake.routes import routes
from hookwright_operator.intake.routes.events import EVENTS, EventRoute
from hookwright_operator.services import IntakeServices
from hookwright_operator.tracing import Traces
from hookwright_runtime.errors import KubeError, StoreError
from hookwright_runtime.long_polls import LongPolls
from hookwright_runtime.problems import STORE_FAILED, ProblemError, unavailable
from hookwright_runtime.refusals import OncePerSecond
from hookwright_runtime.request_body import Bodies, ClientGoneError

log = structlog.get_logger(__name__)

_REQUEST_ID = REQUEST_ID.lower().encode()


class IntakeApp:
    """The application in front of the routes.

    Args:
        services: the operations that the routes call.
        auth: authenticates and authorizes callers.
        ready: returns None if requests can be served, else the reason.
        traces: creates a span for each request with events; None: no spans.
        max_requests: how many requests with events are served at once, each with a body of up to 1 MiB; one namespace
            has at most a quarter of them.
        body_seconds: time limit for the body of a request.
        new_request_id: creates the id of a request without one.

    Attributes:
        polls: the requests for messages, which wait.
    """

    def __init__(
        self,
        services: IntakeServices,
        auth: ReviewAuth,
        *,
        ready: Callable[[], str | None],
        traces: Traces | None = None,
        max_requests: int = EVENT_REQUESTS,
        body_seconds: float = 30.0,
        new_request_id: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        bodies = Bodies(body_seconds, total=BODY_BYTES, each=BODY_BYTES_OF_NAMESPACE)
        events = EventRoute(services, auth, bodies, traces, max_requests=max_requests)
        self.polls = LongPolls()
        others = routes(services, auth, bodies, self.polls)
        self._router = Router([Route(EVENTS, events, methods=["POST"]), *others], redirect_slashes=False)
        self._ready = ready
        self._new_request_id = new_request_id
        self._review_failures = OncePerSecond()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        # The router needs this to raise its 404 and 405 as exceptions, which are caught here.
        scope["app"] = self
        scope[REQUEST_ID] = its_id = request_id(_given(scope), self._new_request_id)
        bind_contextvars(request_id=its_id)
        answer = _with_request_id(send, its_id)
        try:
            self._check_ready()
            await self._router(scope, receive, answer)
        except ClientGoneError:
            log.debug("client gone", path=scope["path"])
        except Exception as error:  # noqa: BLE001 - the client gets a problem document for every error
            await refuse(receive, answer, self._problem(error, scope))

    def _check_ready(self) -> None:
        if (reason := self._ready()) is not None:
            raise unavailable(f"not ready: {reason}")

    def _problem(self, error: Exception, scope: Scope) -> ProblemError:
        if isinstance(error, ProblemError):
            return error
        if isinstance(error, HTTPException):
            method, path = scope["method"], scope["path"]
            refused = error.status_code == 405
            detail = f"{path} does not accept {method}" if refused else f"{method} {path}: no such route"
            return ProblemError(error.status_code, detail, headers=error.headers)
        if isinstance(error, KubeError):
            # The error's message may repeat the request, which contains a token. A caller without a valid token can
            # cause it.
            if self._review_failures.passes():
                log.error("review failed", status=error.status, reason=error.reason, kind=type(error).__name__)
            return unavailable("the API server cannot review this token now")
        if isinstance(error, StoreError):
            log.error("store failed", error=str(error))
            return unavailable(STORE_FAILED)
        its_id = scope[REQUEST_ID]
        log.error("unexpected fault", method=scope["method"], path=scope["path"], exc_info=error)
        return ProblemError(500, f"unexpected error; see the operator's log for request id {its_id}", trace=its_id)


def _given(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == _REQUEST_ID:
            given: str = value.decode("latin-1")
            return given
    return None


def _with_request_id(send: Send, its_id: str) -> Send:
    header = (_REQUEST_ID, its_id.encode())

    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], header]
        await send(message)

    return answer

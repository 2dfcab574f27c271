"""The intake as one ASGI application: is it ready, which route, and every fault as a problem document."""

import secrets
from collections.abc import Callable

import structlog
from starlette.exceptions import HTTPException
from starlette.routing import Router
from starlette.types import ASGIApp, Receive, Scope, Send

from hookwright_operator.errors import KubeError, StoreError
from hookwright_operator.intake.asgi import ClientGoneError, send_problem
from hookwright_operator.intake.deps import Deps
from hookwright_operator.intake.problems import ProblemError, unavailable
from hookwright_operator.intake.routes import routes

log = structlog.get_logger(__name__)


def create_app(
    deps: Deps,
    *,
    max_requests: int = 256,
    body_seconds: float = 30.0,
    new_trace: Callable[[], str] = lambda: secrets.token_hex(8),
) -> ASGIApp:
    """Return the intake.

    Args:
        deps: what it works with.
        max_requests: how many are served at once; each may hold a body of 1 MiB.
        body_seconds: how long the body of a request may take.
        new_trace: draws the id that a client and the log share of an unexpected fault.
    """
    router = Router(routes(deps, body_seconds=body_seconds), redirect_slashes=False)
    return Intake(router, deps.ready, max_requests=max_requests, new_trace=new_trace)


class Intake:
    """What stands before the routes."""

    def __init__(
        self, app: ASGIApp, ready: Callable[[], str | None], *, max_requests: int, new_trace: Callable[[], str]
    ) -> None:
        self._app = app
        self._ready = ready
        self._max_requests = max_requests
        self._new_trace = new_trace
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        # By this the router knows that its 404 and 405 are caught here.
        scope["app"] = self
        self._under_way += 1
        try:
            self._check()
            await self._app(scope, receive, send)
        except ClientGoneError:
            log.debug("client gone", path=scope["path"])
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets a problem document
            await send_problem(receive, send, self._problem(error, scope))
        finally:
            self._under_way -= 1

    def _check(self) -> None:
        reason = self._ready()
        if reason is not None:
            raise unavailable(f"not ready: {reason}")
        if self._under_way > self._max_requests:
            raise unavailable(f"more than {self._max_requests} requests at once")

    def _problem(self, error: Exception, scope: Scope) -> ProblemError:
        if isinstance(error, ProblemError):
            return error
        if isinstance(error, HTTPException):
            headers = tuple((error.headers or {}).items())
            return ProblemError(error.status_code, f"{scope['method']} {scope['path']}: no such route", headers=headers)
        if isinstance(error, KubeError):
            # Its message may repeat what was sent, which is a token.
            log.error("review failed", status=error.status, reason=error.reason, kind=type(error).__name__)
            return unavailable("the API server cannot be asked about this token now")
        if isinstance(error, StoreError):
            log.error("store failed", error=str(error))
            return unavailable("the store cannot take or give anything now")
        trace = self._new_trace()
        log.error("unexpected fault", trace=trace, method=scope["method"], path=scope["path"], exc_info=error)
        return ProblemError(500, f"unexpected fault; the operator's log tells more under {trace}", trace=trace)

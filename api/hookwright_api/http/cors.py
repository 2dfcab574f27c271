"""Pure: CORS for pages of the origins that the installation allows (Fetch standard, 3.2).

Credentials of the browser are never allowed, because `/v1` uses no cookies: a page sends the token or key itself.
"""

from collections.abc import Sequence
from typing import Final

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from hookwright_api.auth.callers import KEY_HEADER
from hookwright_crds.requests import REQUEST_ID
from hookwright_runtime.problems import ProblemError

METHODS: Final = ("GET", "HEAD", "POST", "PATCH", "DELETE", "OPTIONS")
REQUEST_HEADERS: Final = (
    "Authorization",
    "Content-Type",
    "Idempotency-Key",
    "If-Match",
    "traceparent",
    "tracestate",
    KEY_HEADER,
    REQUEST_ID,
)
EXPOSED_HEADERS: Final = (
    "Deprecation",
    "ETag",
    "Link",
    "Location",
    "RateLimit",
    "RateLimit-Policy",
    "Retry-After",
    "Sunset",
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
    REQUEST_ID,
)


class CorsHeaders(CORSMiddleware):
    """The outermost middleware: every answer has the headers, also those of the other middleware."""

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        """Wrap an application for pages of these origins."""
        super().__init__(app, allow_origins=origins, expose_headers=EXPOSED_HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass every request on; `Preflights` answers preflights behind the limit per address."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        await self.simple_response(scope, receive, send, request_headers=Headers(scope=scope))


class Preflights(CORSMiddleware):
    """The middleware in front of the routes that answers preflights; `CorsHeaders` adds the other headers."""

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        """Wrap an application for pages of these origins."""
        super().__init__(app, allow_origins=origins, allow_methods=METHODS, allow_headers=REQUEST_HEADERS)
        # `CorsHeaders` adds Origin.
        self.preflight_headers["Vary"] = "Access-Control-Request-Method, Access-Control-Request-Headers"

    async def simple_response(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        request_headers: Headers,  # noqa: ARG002 - Starlette names it in its call
    ) -> None:
        """Pass on a request that is no preflight."""
        await self.app(scope, receive, send)

    def preflight_response(self, request_headers: Headers) -> Response:
        """Return the answer to a preflight.

        Raises:
            ProblemError: 403, the method, header or origin is not allowed.
        """
        answered = super().preflight_response(request_headers)
        if answered.status_code != 200:
            refused = bytes(answered.body).decode().removeprefix("Disallowed CORS ")
            raise ProblemError(403, f"the preflight asks for what this installation does not allow: {refused}")
        return answered

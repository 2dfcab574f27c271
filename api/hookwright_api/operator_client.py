"""The client of the operator's HTTP: events, tests, signing secrets, the delivery log, replays, messages.

It authenticates with a ServiceAccount token of the audience ``hookwright``; RBAC decides its permissions.
"""

import asyncio
import re
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx
import structlog
from pydantic import ValidationError
from pydantic_core import from_json
from starlette.datastructures import Headers

from hookwright_crds.documents.credential_bodies import CredentialsChange
from hookwright_crds.documents.webhook_bodies import SigningSecret
from hookwright_crds.requests import REQUEST_ID
from hookwright_runtime.bounds import OPERATOR_REQUESTS, POLLS, TESTS, TESTS_OF_ENDPOINT
from hookwright_runtime.places import Places
from hookwright_runtime.problems import (
    NOTHING_DONE,
    OUTCOME_UNKNOWN,
    STORE_FAILED,
    Code,
    FieldFault,
    ProblemError,
    known_code,
    not_found,
    unavailable,
)

log = structlog.get_logger(__name__)

_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, AttributeError)
"""Errors before a request is sent."""
_NO_ANSWER: Final = (httpx.HTTPError, AttributeError)
"""AttributeError: under uvloop, anyio raises it for a connection that is reset immediately after its creation."""
_TIMEOUT: Final = httpx.Timeout(10.0, connect=2.0)
_TEST_TIMEOUT: Final = httpx.Timeout(55.0, connect=2.0)
"""An endpoint's timeout is 30 s at most, and two requests for an access token take 10 s each."""
_POLL_TIMEOUT: Final = httpx.Timeout(45.0, connect=2.0)
"""A request for messages waits 30 s at most."""
OPERATOR_CONNECTIONS: Final = OPERATOR_REQUESTS.total + TESTS.total + POLLS.total
"""Most connections to the operator."""
_RECHECK_SECONDS: Final = 5.0
_REPEAT: Final = (
    "Events can be sent again with the same ids or the same Idempotency-Key; before you repeat another request, look "
    "at the present state"
)
_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
"""W3C Trace Context, 3.2, in the form of version 00."""
_LONGEST_STATE: Final = 512

_passed_on: ContextVar[Mapping[str, str]] = ContextVar("passed_on")


def pass_on(request_id: str, headers: Headers) -> None:
    """Record the id and the trace of the current request, which go to the operator."""
    passed_on = {REQUEST_ID: request_id}
    parent, state = headers.get("traceparent", ""), headers.get("tracestate", "")
    if _TRACEPARENT.fullmatch(parent):
        passed_on["traceparent"] = parent
        if state.isascii() and 0 < len(state) <= _LONGEST_STATE:
            passed_on["tracestate"] = state
    _passed_on.set(passed_on)


def headers_passed_on() -> Mapping[str, str]:
    """Return the headers of the current request for the operator; none outside of requests."""
    return _passed_on.get({})


class OperatorClient:
    """Requests to the operator of one installation."""

    def __init__(self, url: str, token_file: Path) -> None:
        """Create a client; no request is sent yet.

        Args:
            url: the operator's intake.
            token_file: the ServiceAccount token, read again when it changes.
        """
        # Tests and polls take long. httpcore counts them as idle, and would close the connections of other requests.
        self._client, self._slow_client = _client(url, OPERATOR_REQUESTS.total), _client(url, TESTS.total + POLLS.total)
        self._requests = Places(OPERATOR_REQUESTS)
        self._tests, self._tests_of_endpoint = Places(TESTS), Places(TESTS_OF_ENDPOINT)
        self._token_file = token_file
        self._token = ""
        self._checked_at = float("-inf")

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()
        await self._slow_client.aclose()

    async def forward(
        self,
        method: str,
        namespace: str,
        *parts: str,
        subject: str,
        content: bytes | None = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Send a request of an organization, and return the JSON of its answer.

        Args:
            method: of the request; every method but GET writes.
            namespace: the organization.
            parts: of the path after the namespace.
            subject: the object of the request, for the words of a 404, such as ``the webhook``.
            content: JSON.
            params: the query.
            headers: further headers.

        Raises:
            ProblemError: the operator refused the request or did not answer; or the organization, or all together,
                have too many requests in progress.
        """
        path = _path(namespace, *parts)
        with await self._requests.acquire(namespace):
            answer = await self._request(method, path, content, params, headers=headers, subject=subject)
            return answer.content

    async def test(self, namespace: str, endpoint: str, body: bytes) -> bytes:
        """Send one test event, and return the JSON of its result; an empty body is the synthetic event.

        Raises:
            ProblemError: as `forward`; or the endpoint, its namespace or this process has too many tests in progress.
        """
        path = _path(namespace, "webhookendpoints", endpoint, "test")
        key = f"{namespace}/{endpoint}"
        with await self._tests.acquire(namespace), await self._tests_of_endpoint.acquire(key):
            answer = await self._request("POST", path, body or None, within=_TEST_TIMEOUT)
        if not _problem(answer):
            # A proxy may have answered.
            raise _away(outcome_unknown=True)
        return answer.content

    async def secret(self, namespace: str, endpoint: str) -> SigningSecret:
        """Return an endpoint's signing secret."""
        content = await self.forward("GET", namespace, "webhookendpoints", endpoint, "secret", subject="the webhook")
        try:
            return SigningSecret.model_validate_json(content)
        except ValidationError:
            raise _away() from None

    async def change_credentials(self, namespace: str, endpoint: str, change: CredentialsChange) -> None:
        """Let the operator create and delete Secrets of an endpoint."""
        content, parts = change.model_dump_json().encode(), ("webhookendpoints", endpoint, "credentials")
        await self.forward("PUT", namespace, *parts, subject="the webhook", content=content)

    async def take_messages(self, namespace: str, endpoint: str, query: Mapping[str, str]) -> bytes:
        """Take messages of an endpoint with pull, and wait for them as long as the query says: JSON ``{data}``.

        The caller has a place of `POLLS`.
        """
        path = _path(namespace, "webhookendpoints", endpoint, "messages")
        return (await self._request("GET", path, params=query, leases=True, within=_POLL_TIMEOUT)).content

    async def _request(
        self,
        method: str,
        path: str,
        content: bytes | None = None,
        params: Mapping[str, str] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        subject: str = "the webhook",
        leases: bool = False,
        within: httpx.Timeout | None = None,
    ) -> httpx.Response:
        """Return the answer; ``leases``: a GET leases messages, so that it writes; ``within``: it may take so long."""
        writes = leases or method != "GET"
        ours = {"Authorization": f"Bearer {self._read_token()}", "Accept": "application/json"}
        headers = {**headers_passed_on(), **(headers or {}), **ours}
        if content is not None:
            headers["Content-Type"] = "application/json"
        try:
            client = self._slow_client if within else self._client
            answer = await client.request(
                method, path, content=content, params=params, headers=headers, timeout=within or _TIMEOUT
            )
        except _NO_ANSWER as error:
            raise _away(outcome_unknown=writes and not isinstance(error, _NOT_SENT)) from error
        if answer.status_code in (401, 403):
            self._checked_at = float("-inf")
            detail = _problem(answer).get("detail")
            log.error("operator refuses the API's token, requests fail", status=answer.status_code, detail=detail)
        if answer.status_code >= 400:
            raise refusal_of(answer, subject, writes=writes)
        return answer

    def _read_token(self) -> str:
        now = asyncio.get_running_loop().time()
        if now - self._checked_at > _RECHECK_SECONDS or not self._token:
            try:
                self._token = self._token_file.read_text(encoding="ascii").strip()
            except (OSError, ValueError) as error:
                raise _away() from error
            self._checked_at = now
        return self._token


def _client(url: str, connections: int) -> httpx.AsyncClient:
    """Return a client with a connection for each place, which it keeps."""
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    return httpx.AsyncClient(base_url=url, trust_env=False, limits=limits)


def refusal_of(answer: httpx.Response, subject: str, *, writes: bool) -> ProblemError:
    """Return the problem for a refusal by the operator.

    Args:
        answer: of the operator.
        subject: the object of the request, such as ``the webhook``.
        writes: whether the request may write, and may have been done.
    """
    status, problem, waiting = answer.status_code, _problem(answer), answer.headers.get("retry-after", "")
    detail, code = str(problem.get("detail", "")), known_code(problem.get("code"))
    retry_after = int(waiting) if waiting.isdecimal() else None
    if status in (401, 403, 408) or status >= 500:
        # A 503 from before the operator wrote anything; a proxy sends no such document.
        is_unwritten = status == 503 and code is Code.UNAVAILABLE and detail != STORE_FAILED
        return _away(outcome_unknown=writes and status >= 500 and not is_unwritten, retry_after=retry_after)
    if status == 404:
        return not_found(subject)
    if status == 429:
        text = detail or "too many requests of this kind are in progress"
        return ProblemError(429, text, code=code, retry_after=retry_after)
    faults = tuple(
        FieldFault(str(fault.get("field", "")), str(fault.get("message", ""))) for fault in problem.get("errors") or ()
    )
    return ProblemError(status, detail, code=code, errors=faults)


def _away(*, outcome_unknown: bool = False, retry_after: int | None = None) -> ProblemError:
    outcome = f"{OUTCOME_UNKNOWN}. {_REPEAT}" if outcome_unknown else NOTHING_DONE
    detail = f"the operator, or a service that it needs, is unavailable; {outcome}"
    return unavailable(detail, retry_after=retry_after)


def _path(namespace: str, *parts: str) -> str:
    return "/".join(("/v1alpha1/namespaces", quote(namespace, safe=""), *(quote(part, safe="") for part in parts)))


def _problem(answer: httpx.Response) -> dict[str, Any]:
    try:
        document = from_json(answer.content)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}

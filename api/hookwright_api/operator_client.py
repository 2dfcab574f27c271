"""The client of the operator's HTTP: events, tests, signing secrets, the delivery log, replays, messages.

It authenticates with a ServiceAccount token of the audience ``hookwright``; RBAC decides its permissions.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import httpx
import structlog
from pydantic_core import from_json

from hookwright_api.request_context import headers_passed_on
from hookwright_runtime.bounds import OPERATOR_REQUESTS, POLLS, TESTS, TESTS_OF_ENDPOINT
from hookwright_runtime.errors import HookwrightError
from hookwright_runtime.places import Places
from hookwright_runtime.problems import STORE_FAILED, Code

log = structlog.get_logger(__name__)

_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, AttributeError)
"""Errors before a request is sent."""
_NO_ANSWER: Final = (httpx.HTTPError, AttributeError)
"""AttributeError: under uvloop, anyio raises it for a connection that is reset immediately after its creation."""
_TIMEOUT: Final = httpx.Timeout(10.0, connect=2.0)
_TEST_TIMEOUT: Final = httpx.Timeout(35.0, connect=2.0)
"""An endpoint's timeout is 30 s at most."""
_POLL_TIMEOUT: Final = httpx.Timeout(45.0, connect=2.0)
"""A request for messages waits 30 s at most."""
OPERATOR_CONNECTIONS: Final = OPERATOR_REQUESTS.total + TESTS.total + POLLS.total
"""Most connections to the operator."""
_RECHECK_SECONDS: Final = 5.0


class OperatorError(HookwrightError):
    """The refusal of a request by the operator.

    Attributes:
        status: HTTP status code of its answer, 0 if there was none.
        problem: its problem document.
        retry_after: seconds until a retry, if the operator gave them.
        outcome_unknown: whether the request may write, and may have been done.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        problem: Mapping[str, Any] | None = None,
        retry_after: int | None = None,
        outcome_unknown: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.problem = problem or {}
        self.retry_after = retry_after
        self.outcome_unknown = outcome_unknown


class OperatorUnavailable(OperatorError):  # noqa: N818
    """The state that the operator cannot be reached or cannot serve right now; a later retry may succeed."""


class SigningSecret(NamedTuple):
    """The signing secret of an endpoint.

    Attributes:
        secret: the current one.
        rotation: the value of ``spec.signing.rotation`` for which it was made.
        previous_signs_until: until when the replaced secret also signs, None if it does not.
    """

    secret: str
    rotation: int
    previous_signs_until: str | None


class OperatorClient:
    """Requests to the operator of one installation."""

    def __init__(self, url: str, token_file: Path) -> None:
        """Create a client; no request is sent yet.

        Args:
            url: the operator's intake.
            token_file: the ServiceAccount token, read again when it changes.
        """
        self._client = _client(url, _TIMEOUT, OPERATOR_REQUESTS.total)
        self._requests = Places(OPERATOR_REQUESTS)
        # A test may take 30 s, so tests have separate connections.
        self._test_client = _client(url, _TEST_TIMEOUT, TESTS.total)
        self._poll_client = _client(url, _POLL_TIMEOUT, POLLS.total)
        self._tests, self._tests_of_endpoint = Places(TESTS), Places(TESTS_OF_ENDPOINT)
        self._token_file = token_file
        self._token = ""
        self._checked_at = float("-inf")

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()
        await self._test_client.aclose()
        await self._poll_client.aclose()

    async def forward(
        self,
        method: str,
        namespace: str,
        *parts: str,
        content: bytes | None = None,
        params: Mapping[str, str] | None = None,
    ) -> bytes:
        """Send a request of an organization on the connections that all share, and return the JSON of its answer.

        Args:
            method: of the request; every method but GET writes.
            namespace: the organization.
            parts: of the path after the namespace.
            content: JSON.
            params: the query.

        Raises:
            OperatorError: the operator refused the request or did not answer.
            FullError: the organization, or all together, have too many requests in progress.
        """
        with await self._requests.acquire(namespace):
            return (await self._request(self._client, method, _path(namespace, *parts), content, params)).content

    async def test(self, namespace: str, endpoint: str, body: bytes) -> dict[str, Any]:
        """Send one test event and return ``{success, statusCode, error?, delivery_id?}``.

        Args:
            namespace: the organization.
            endpoint: its name.
            body: JSON ``{type?, payload?}``; empty for the synthetic event.

        Raises:
            FullError: the endpoint, its namespace or this process has too many tests in progress.
        """
        path = _path(namespace, "webhookendpoints", endpoint, "test")
        key = f"{namespace}/{endpoint}"
        with await self._tests.acquire(namespace), await self._tests_of_endpoint.acquire(key):
            return _document(await self._request(self._test_client, "POST", path, body or None))

    async def secret(self, namespace: str, endpoint: str) -> SigningSecret:
        """Return an endpoint's signing secret."""
        path = _path(namespace, "webhookendpoints", endpoint, "secret")
        with await self._requests.acquire(namespace):
            answered = _document(await self._request(self._client, "GET", path))
        return SigningSecret(str(answered["secret"]), int(answered["rotation"]), answered["previous_signs_until"])

    async def take_messages(self, namespace: str, endpoint: str, query: Mapping[str, str]) -> bytes:
        """Take messages of an endpoint with pull, and wait for them as long as the query says: JSON ``{data}``."""
        path = _path(namespace, "webhookendpoints", endpoint, "messages")
        return (await self._request(self._poll_client, "GET", path, params=query, leases=True)).content

    async def _request(
        self,
        client: httpx.AsyncClient,
        method: str,
        path: str,
        content: bytes | None = None,
        params: Mapping[str, str] | None = None,
        *,
        leases: bool = False,
    ) -> httpx.Response:
        """Return the answer; ``leases``: a GET leases messages, so that it writes."""
        writes = leases or method != "GET"
        ours = {"Authorization": f"Bearer {self._read_token()}", "Accept": "application/json"}
        headers = {**headers_passed_on(), **ours}
        if content is not None:
            headers["Content-Type"] = "application/json"
        try:
            answer = await client.request(method, path, content=content, params=params, headers=headers)
        except _NO_ANSWER as error:
            away = f"the operator does not answer ({type(error).__name__})"
            unknown = writes and not isinstance(error, _NOT_SENT)
            raise OperatorUnavailable(away, outcome_unknown=unknown) from error
        if answer.status_code >= 400:
            raise self._refusal(answer, writes=writes)
        return answer

    def _read_token(self) -> str:
        now = asyncio.get_running_loop().time()
        if now - self._checked_at > _RECHECK_SECONDS or not self._token:
            try:
                self._token = self._token_file.read_text(encoding="ascii").strip()
            except (OSError, ValueError) as error:
                raise OperatorUnavailable(f"the operator's token cannot be read ({type(error).__name__})") from error
            self._checked_at = now
        return self._token

    def _refusal(self, answer: httpx.Response, *, writes: bool) -> OperatorError:
        status = answer.status_code
        problem = _problem(answer)
        waiting = answer.headers.get("retry-after", "")
        retry_after = int(waiting) if waiting.isdecimal() else None
        if status in (401, 403):
            self._checked_at = float("-inf")
            log.error("operator refuses the API's token, requests fail", status=status, detail=problem.get("detail"))
        if status in (401, 403, 408) or status >= 500:
            unknown = writes and status >= 500 and not _refused_unwritten(status, problem)
            away = f"the operator answered {status}"
            return OperatorUnavailable(away, status=status, retry_after=retry_after, outcome_unknown=unknown)
        return OperatorError(f"the operator answered {status}", status=status, problem=problem, retry_after=retry_after)


def _client(url: str, timeout: httpx.Timeout, connections: int) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=min(50, connections))
    return httpx.AsyncClient(base_url=url, timeout=timeout, trust_env=False, limits=limits)


def _path(namespace: str, *parts: str) -> str:
    return "/".join(("/v1alpha1/namespaces", quote(namespace, safe=""), *(quote(part, safe="") for part in parts)))


def _problem(answer: httpx.Response) -> dict[str, Any]:
    try:
        answered = from_json(answer.content)
    except ValueError:
        return {}
    return answered if isinstance(answered, dict) else {}


def _refused_unwritten(status: int, problem: Mapping[str, Any]) -> bool:
    """Return whether an answer is a 503 from before the operator wrote anything; a proxy sends no such document."""
    return status == 503 and problem.get("code") == Code.UNAVAILABLE and problem.get("detail") != STORE_FAILED


def _document(answer: httpx.Response) -> dict[str, Any]:
    answered = _problem(answer)
    if not answered:
        raise OperatorUnavailable("the operator's answer is not JSON", outcome_unknown=answer.request.method != "GET")
    return answered

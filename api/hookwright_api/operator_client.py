"""The client of the operator's HTTP: events, tests, signing secrets and the delivery log.

It authenticates with a ServiceAccount token of the audience ``hookwright``; RBAC decides its permissions.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx
import structlog
from pydantic_core import from_json

from hookwright_api.request_context import headers_passed_on
from hookwright_runtime.endpoint_tests import TESTS_AT_ONCE, EndpointTests
from hookwright_runtime.errors import HookwrightError

log = structlog.get_logger(__name__)

_NO_ANSWER: Final = (httpx.HTTPError, AttributeError)
"""AttributeError: under uvloop, anyio raises it for a connection that is reset immediately after its creation."""
_TIMEOUT: Final = httpx.Timeout(10.0, connect=2.0)
_TEST_TIMEOUT: Final = httpx.Timeout(35.0, connect=2.0)
"""An endpoint's timeout is 30 s at most."""
_EVENT_CONNECTIONS: Final = 200
OPERATOR_CONNECTIONS: Final = _EVENT_CONNECTIONS + TESTS_AT_ONCE
"""Most connections to the operator."""
_RECHECK_SECONDS: Final = 5.0


class OperatorError(HookwrightError):
    """The refusal of a request by the operator.

    Attributes:
        status: HTTP status code of its answer, 0 if there was none.
        problem: its problem document.
        retry_after: seconds until a retry, if the operator gave them.
    """

    def __init__(
        self, message: str, *, status: int = 0, problem: Mapping[str, Any] | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.problem = problem or {}
        self.retry_after = retry_after


class OperatorUnavailable(OperatorError):  # noqa: N818
    """The state that the operator cannot be reached or cannot serve right now; a later retry may succeed."""


class OperatorClient:
    """Requests to the operator of one installation."""

    def __init__(self, url: str, token_file: Path) -> None:
        """Create a client; no request is sent yet.

        Args:
            url: the operator's intake.
            token_file: the ServiceAccount token, read again when it changes.
        """
        self._client = _client(url, _TIMEOUT, _EVENT_CONNECTIONS)
        # A test may take 30 s, so tests have separate connections.
        self._test_client = _client(url, _TEST_TIMEOUT, TESTS_AT_ONCE)
        self._tests = EndpointTests()
        self._token_file = token_file
        self._token = ""
        self._checked_at = float("-inf")

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()
        await self._test_client.aclose()

    async def send_events(self, namespace: str, project: str, body: bytes) -> bytes:
        """Send one event or an array of events, as JSON, and return the JSON answer of the 202."""
        answer = await self._request("POST", _path(namespace, "projects", project, "events"), content=body)
        return answer.content

    async def test(self, namespace: str, endpoint: str) -> dict[str, Any]:
        """Send one synthetic event and return ``{success, statusCode, error?}``.

        Raises:
            TooManyTestsError: the endpoint, its namespace or this process has too many tests in progress.
        """
        path = _path(namespace, "webhookendpoints", endpoint, "test")
        with self._tests.one(namespace, endpoint):
            return _document(await self._request("POST", path, client=self._test_client))

    async def secret(self, namespace: str, endpoint: str) -> str:
        """Return an endpoint's signing secret."""
        answer = _document(await self._request("GET", _path(namespace, "webhookendpoints", endpoint, "secret")))
        return str(answer["secret"])

    async def deliveries(self, namespace: str, endpoint: str, query: Mapping[str, str]) -> bytes:
        """Return one page of an endpoint's delivery log: JSON ``{data, next}``."""
        path = _path(namespace, "webhookendpoints", endpoint, "deliveries")
        return (await self._request("GET", path, params=query)).content

    async def delivery(self, namespace: str, project: str | None, delivery: str) -> bytes:
        """Return one delivery with its attempts as JSON; the arguments are those of `retry`."""
        params = {"project": project} if project else {}
        return (await self._request("GET", _path(namespace, "deliveries", delivery), params=params)).content

    async def retry(self, namespace: str, project: str | None, delivery: str) -> bytes:
        """Send a delivery again and return the JSON answer of the 202.

        Args:
            namespace: the organization.
            project: the operator refuses a delivery of another project; None permits every delivery of the namespace.
            delivery: its id.
        """
        params = {"project": project} if project else {}
        return (await self._request("POST", _path(namespace, "deliveries", delivery, "retry"), params=params)).content

    async def _request(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None = None,
        params: Mapping[str, str] | None = None,
        client: httpx.AsyncClient | None = None,
    ) -> httpx.Response:
        ours = {"Authorization": f"Bearer {self._read_token()}", "Accept": "application/json"}
        headers = {**headers_passed_on(), **ours}
        if content is not None:
            headers["Content-Type"] = "application/json"
        try:
            answer = await (client or self._client).request(
                method, path, content=content, params=params, headers=headers
            )
        except _NO_ANSWER as error:
            raise OperatorUnavailable(f"the operator does not answer ({type(error).__name__})") from error
        if answer.status_code >= 400:
            raise self._refusal(answer)
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

    def _refusal(self, answer: httpx.Response) -> OperatorError:
        status = answer.status_code
        problem = _problem(answer)
        waiting = answer.headers.get("retry-after", "")
        retry_after = int(waiting) if waiting.isdecimal() else None
        if status in (401, 403):
            self._checked_at = float("-inf")
            log.error("operator refuses the API's token, requests fail", status=status, detail=problem.get("detail"))
        if status in (401, 403, 408) or status >= 500:
            return OperatorUnavailable(f"the operator answered {status}", status=status, retry_after=retry_after)
        return OperatorError(f"the operator answered {status}", status=status, problem=problem, retry_after=retry_after)


def _client(url: str, timeout: httpx.Timeout, connections: int) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=min(50, connections))
    return httpx.AsyncClient(base_url=url, timeout=timeout, trust_env=False, limits=limits)


def _path(namespace: str, *parts: str) -> str:
    return "/".join(("/v1alpha1/namespaces", quote(namespace, safe=""), *(quote(part, safe="") for part in parts)))


def _problem(answer: httpx.Response) -> dict[str, Any]:
    try:
        told = from_json(answer.content)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _document(answer: httpx.Response) -> dict[str, Any]:
    told = _problem(answer)
    if not told:
        raise OperatorUnavailable("the operator's answer is not JSON")
    return told

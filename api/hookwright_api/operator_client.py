"""The client of the operator's HTTP: events, tests, signing secrets, the delivery log, replays, messages.

It authenticates with a ServiceAccount token of the audience ``hookwright``; RBAC decides its permissions.
"""

import asyncio
from collections.abc import Mapping
from contextlib import nullcontext
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

    async def send_events(self, namespace: str, project: str, body: bytes) -> bytes:
        """Send one event or an array of events, as JSON, and return the JSON answer of the 202."""
        answer = await self._request("POST", namespace, "projects", project, "events", content=body)
        return answer.content

    async def test(self, namespace: str, endpoint: str, body: bytes) -> dict[str, Any]:
        """Send one test event and return ``{success, statusCode, error?, delivery_id?}``.

        Args:
            namespace: the organization.
            endpoint: its name.
            body: JSON ``{type?, payload?}``; empty for the synthetic event.

        Raises:
            FullError: the endpoint, its namespace or this process has too many tests in progress.
        """
        key = f"{namespace}/{endpoint}"
        with await self._tests.acquire(namespace), await self._tests_of_endpoint.acquire(key):
            return _document(
                await self._request(
                    "POST",
                    namespace,
                    "webhookendpoints",
                    endpoint,
                    "test",
                    content=body or None,
                    client=self._test_client,
                )
            )

    async def secret(self, namespace: str, endpoint: str) -> SigningSecret:
        """Return an endpoint's signing secret."""
        answered = _document(await self._request("GET", namespace, "webhookendpoints", endpoint, "secret"))
        return SigningSecret(str(answered["secret"]), int(answered["rotation"]), answered["previous_signs_until"])

    async def deliveries(self, namespace: str, endpoint: str, query: Mapping[str, str]) -> bytes:
        """Return one page of an endpoint's delivery log: JSON ``{data, next}``."""
        return (await self._request("GET", namespace, "webhookendpoints", endpoint, "deliveries", params=query)).content

    async def search(self, namespace: str, query: Mapping[str, str]) -> bytes:
        """Return one page of the deliveries of an organization that meet all conditions: JSON ``{data, next}``."""
        return (await self._request("GET", namespace, "deliveries", params=query)).content

    async def event(self, namespace: str, project: str | None, event: str) -> bytes:
        """Return one event with its deliveries as JSON; the arguments are those of `retry`."""
        params = {"project": project} if project else {}
        return (await self._request("GET", namespace, "events", event, params=params)).content

    async def delivery(self, namespace: str, project: str | None, delivery: str) -> bytes:
        """Return one delivery with its attempts as JSON; the arguments are those of `retry`."""
        params = {"project": project} if project else {}
        return (await self._request("GET", namespace, "deliveries", delivery, params=params)).content

    async def retry(self, namespace: str, project: str | None, delivery: str) -> bytes:
        """Send a delivery again and return the JSON answer of the 202.

        Args:
            namespace: the organization.
            project: the operator refuses a delivery of another project; None permits every delivery of the namespace.
            delivery: its id.
        """
        params = {"project": project} if project else {}
        return (await self._request("POST", namespace, "deliveries", delivery, "retry", params=params)).content

    async def begin_replay(self, namespace: str, endpoint: str, body: bytes) -> bytes:
        """Begin a replay from JSON and return the JSON answer of the 202, or of the 200 after a dry run."""
        return (await self._request("POST", namespace, "webhookendpoints", endpoint, "replays", content=body)).content

    async def replays(self, namespace: str, endpoint: str) -> bytes:
        """Return the latest replays of an endpoint: JSON ``{data}``."""
        return (await self._request("GET", namespace, "webhookendpoints", endpoint, "replays")).content

    async def replay(self, namespace: str, endpoint: str, replay: str) -> bytes:
        """Return one replay as JSON."""
        return (await self._request("GET", namespace, "webhookendpoints", endpoint, "replays", replay)).content

    async def cancel_replay(self, namespace: str, endpoint: str, replay: str) -> None:
        """Cancel a replay."""
        await self._request("DELETE", namespace, "webhookendpoints", endpoint, "replays", replay)

    async def take_messages(self, namespace: str, endpoint: str, query: Mapping[str, str]) -> bytes:
        """Take messages of an endpoint with pull, and wait for them as long as the query says: JSON ``{data}``."""
        return (
            await self._request(
                "GET",
                namespace,
                "webhookendpoints",
                endpoint,
                "messages",
                params=query,
                client=self._poll_client,
                leases=True,
            )
        ).content

    async def settle_messages(self, namespace: str, endpoint: str, verb: str, body: bytes) -> bytes:
        """Acknowledge (``ack``) or refuse (``nack``) messages: JSON ``{data}`` with a result for each."""
        return (
            await self._request("POST", namespace, "webhookendpoints", endpoint, "messages", verb, content=body)
        ).content

    async def statistics(self, namespace: str, resource: str, name: str, window: str) -> bytes:
        """Return the statistics of one of the ``webhookendpoints`` or ``projects`` as JSON."""
        return (await self._request("GET", namespace, resource, name, "statistics", params={"window": window})).content

    async def _request(
        self,
        method: str,
        namespace: str,
        *parts: str,
        content: bytes | None = None,
        params: Mapping[str, str] | None = None,
        client: httpx.AsyncClient | None = None,
        leases: bool = False,
    ) -> httpx.Response:
        """Return the answer.

        Args:
            method: of the request.
            namespace: the organization.
            parts: of the path after the namespace.
            content: JSON.
            params: the query.
            client: has connections whose use is bounded elsewhere; None: the connections that organizations share.
            leases: whether a GET leases messages, so that it writes.

        Raises:
            OperatorError: the operator refused the request or did not answer.
            FullError: the organization, or all together, have too many requests in progress.
        """
        writes = leases or method != "GET"
        ours = {"Authorization": f"Bearer {self._read_token()}", "Accept": "application/json"}
        headers = {**headers_passed_on(), **ours}
        if content is not None:
            headers["Content-Type"] = "application/json"
        try:
            with await self._requests.acquire(namespace) if client is None else nullcontext():
                answer = await (client or self._client).request(
                    method, _path(namespace, *parts), content=content, params=params, headers=headers
                )
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

"""The client of the API server: the requests of the operator besides kopf's watches, and all requests of the API.

kopf finds the credentials (in-cluster ServiceAccount or kubeconfig) and keeps its own client private. This client logs
in with kopf's functions. It speaks plain JSON, so the process does not load an object model of the whole Kubernetes API
for six verbs.
"""

import asyncio
import json
import ssl
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from copy import copy
from typing import Any, Final, Protocol, Self

import aiohttp
import yaml
from aiohttp.abc import AbstractStreamWriter

from hookwright_crds.trimming import trimmed_secret
from hookwright_runtime.errors import KubeError, KubeUnavailable, NotLeading
from hookwright_runtime.kubernetes_pages import MOST_OBJECTS, Page, Pager, Trim

sys.modules.setdefault("kubernetes", None)  # type: ignore[arg-type]
import kopf  # noqa: E402 - it would load the package kubernetes, which only the command line uses

if sys.modules["kubernetes"] is None:
    del sys.modules["kubernetes"]

_JSON: Final = "application/json"
_APPLY: Final = "application/apply-patch+yaml"
_MERGE: Final = "application/merge-patch+json"
_CONNECT_SECONDS: Final = 3.0
_SILENCE_SECONDS: Final = 90.0
"""The API server sends a bookmark about every minute; a watch that is silent for longer has a dead connection."""
_RELOGIN_SECONDS: Final = 60.0
"""Seconds between two logins, because projected ServiceAccount tokens are replaced on disk."""
_CHUNK_BYTES: Final = 64 * 1024
_NOT_SENT: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
"""Errors of requests that were not sent. Not of a DELETE, which aiohttp sends again if its connection is lost."""

Object = dict[str, Any]


class Fence(Protocol):
    """The permission of this replica to write."""

    @property
    def holds(self) -> bool:
        """Whether a write may be sent now."""

    @property
    def left(self) -> float:
        """Seconds after which every sent write must have ended, with or without success."""

    @property
    def writing(self) -> AbstractContextManager[None]:
        """Return a context manager that surrounds one write."""


def _login() -> kopf.ConnectionInfo:
    settings = kopf.OperatorSettings()
    try:
        connection = kopf.login_with_service_account(settings=settings) or kopf.login_with_kubeconfig(settings=settings)
    except kopf.LoginError as error:
        raise KubeError(f"no cluster: {error}") from None
    except OSError as error:
        raise KubeUnavailable(f"credentials of the cluster cannot be read: {error}") from error
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError) as error:
        # The text of a YAMLError has the faulty line, which may be a token; so has a traceback with this error.
        raise KubeUnavailable(
            f"credentials of the cluster cannot be read: kubeconfig or token is malformed ({type(error).__name__})"
        ) from None
    if connection is None:
        raise KubeError("no cluster: set KUBECONFIG, or run inside a pod that has a ServiceAccount")
    return connection


class KubernetesClient:
    """Requests to one API server; created by `connect`, closed by `close`."""

    def __init__(
        self, info: kopf.ConnectionInfo, context: ssl.SSLContext, session: aiohttp.ClientSession, manager: str
    ) -> None:
        self._info, self._ssl, self._session, self._manager = info, context, session, manager
        self._read_at = asyncio.get_running_loop().time()
        self._logging_in = asyncio.Lock()
        self._fence: Fence | None = None

    @classmethod
    async def connect(
        cls, manager: str, *, seconds: float = 10.0, connections: int = 100, trim: Trim = trimmed_secret
    ) -> Self:
        """Log in as kopf does and return a client; no request is sent yet.

        Args:
            manager: the field manager of every write.
            seconds: time limit of one request; of a list, of the silence between two parts of a page.
            connections: maximum number of connections; 0: no maximum.
            trim: returns the kept part of an object of a list, or of a large object of a watch.

        Raises:
            KubeError: no credentials were found.
        """
        # Reading files and creating a TLS context takes milliseconds, so a thread does it.
        info = await asyncio.to_thread(_login)
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=connections),
            timeout=aiohttp.ClientTimeout(total=seconds, connect=_CONNECT_SECONDS),
            trust_env=False,
            middlewares=[Pager(trim=trim)],
            response_class=Page,
        )
        return cls(info, await asyncio.to_thread(info.as_ssl_context), session, manager)

    def within(self, fence: Fence) -> Self:
        """Return a client with the same connections that writes only if a fence allows it."""
        client = copy(self)
        client._fence = fence  # noqa: SLF001 - an instance of the same class
        return client

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def get(self, path: str, **params: str) -> Object:
        """Return the object at a path."""
        return await self._request("GET", path, params=params)

    async def pages(self, path: str, *, accept: str = _JSON, **params: str) -> AsyncGenerator[Object]:
        """Yield the pages of a list; a page has at most `MOST_OBJECTS`, and at most `PAGE_BYTES` or one object."""
        query = {**params, "limit": str(MOST_OBJECTS)}
        timeout = aiohttp.ClientTimeout(connect=_CONNECT_SECONDS, sock_read=self._session.timeout.total)
        while query.get("continue") != "":
            page = await self._request("GET", path, params=query, timeout=timeout, accept=accept)
            yield page
            query["continue"] = page["metadata"].get("continue", "")

    @asynccontextmanager
    async def watch(self, path: str, **params: str) -> AsyncIterator[AsyncIterator[Object]]:
        """Open a watch; inside the context, iterate over its events.

        Raises:
            KubeError: the API server refused the watch, or the watch broke.
        """
        await self._refresh()
        timeout = aiohttp.ClientTimeout(connect=_CONNECT_SECONDS, sock_read=_SILENCE_SECONDS)
        try:
            async with self._open("GET", path, params={**params, "watch": "1"}, timeout=timeout) as answer:
                yield _events(answer)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise KubeUnavailable(f"watch of {path}: connection lost ({type(error).__name__})") from error

    async def post(self, path: str, body: Object) -> Object:
        """Create an object, or request a review."""
        return await self._request("POST", path, body=body, params={"fieldManager": self._manager})

    async def apply(self, path: str, body: Object) -> Object:
        """Apply Hookwright's fields of an object by server-side apply; the apply releases omitted fields."""
        params = {"fieldManager": self._manager, "force": "true"}
        return await self._request("PATCH", path, body=body, media=_APPLY, params=params)

    async def merge(self, path: str, body: Object) -> Object:
        """Apply a JSON merge patch (RFC 7396)."""
        return await self._request("PATCH", path, body=body, media=_MERGE, params={"fieldManager": self._manager})

    async def delete(self, path: str, *, uid: str, resource_version: str = "") -> Object:
        """Delete the object if it still has this uid; an object that is already deleted is no error.

        Args:
            path: of the object.
            uid: of the object.
            resource_version: the state to delete; empty: any state.

        Returns:
            The object if finalizers keep it.

        Raises:
            KubeError: 409, another object has this name, or the object has another state.
        """
        preconditions = {"uid": uid} | ({"resourceVersion": resource_version} if resource_version else {})
        try:
            return await self._request("DELETE", path, body={"preconditions": preconditions})
        except KubeError as error:
            if error.status != 404:
                raise
            return {}

    async def _request(self, method: str, path: str, *, body: Object | None = None, **options: Any) -> Object:
        for last in (False, True):
            await self._refresh()
            try:
                if self._fence is not None and body is not None:
                    return await self._send_fenced(method, path, _Fenced(body, self._fence), options)
                return await self._send(method, path, aiohttp.JsonPayload(body) if body is not None else None, options)
            except KubeError as error:
                if error.status != 401 or last:
                    raise
        raise AssertionError("unreachable")

    async def _refresh(self) -> None:
        """Read the credentials again if they are old, or if the API server refused them."""
        loop = asyncio.get_running_loop()
        if loop.time() - self._read_at <= _RELOGIN_SECONDS:
            return
        async with self._logging_in:
            if loop.time() - self._read_at > _RELOGIN_SECONDS:
                self._info, self._read_at = await asyncio.to_thread(_login), loop.time()

    async def _send_fenced(self, method: str, path: str, body: "_Fenced", options: Mapping[str, Any]) -> Object:
        withheld = NotLeading(f"{method} {path}: not sent, because this replica is not the leader")
        if not body.fence.holds:
            raise withheld
        try:
            # A request that hangs is aborted before another replica can lead.
            with body.fence.writing:
                async with asyncio.timeout(body.fence.left):
                    return await self._send(method, path, body, options)
        except TimeoutError:
            away = f"{method} {path}: no answer before the leadership expired"
            raise KubeUnavailable(away, outcome_unknown=True) from None
        except KubeUnavailable:
            if body.withheld:
                raise withheld from None
            raise

    async def _send(
        self, method: str, path: str, body: aiohttp.JsonPayload | None, options: Mapping[str, Any]
    ) -> Object:
        try:
            async with self._open(method, path, data=body, **options) as answer:
                return await _object(answer)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            away = f"{method} {path}: the API server does not answer ({type(error).__name__})"
            was_sent = method == "DELETE" or not isinstance(error, _NOT_SENT)
            raise KubeUnavailable(away, outcome_unknown=was_sent and method != "GET") from error

    @asynccontextmanager
    async def _open(
        self, method: str, path: str, *, media: str = _JSON, accept: str = _JSON, **options: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request; inside the context, read the answer, which is no refusal."""
        headers = {**self._info.as_http_headers(), "Content-Type": media, "Accept": accept}
        url = f"{self._info.server.rstrip('/')}{path}"
        async with self._session.request(
            method, url, headers=headers, ssl=self._ssl, proxy=self._info.proxy_url, allow_redirects=False, **options
        ) as answer:
            if answer.status == 401:
                self._read_at = float("-inf")
            if answer.status >= 300:
                raise await _refusal(method, path, answer)
            yield answer


async def _events(answer: aiohttp.ClientResponse) -> AsyncIterator[Object]:
    """Yield the events of a watch, of which `Pager` passes one whole line at a time."""
    async for line in answer.content.iter_chunked(_CHUNK_BYTES):
        try:
            yield json.loads(line)
        except ValueError as error:
            raise KubeUnavailable("an event of the API server is not JSON") from error


async def _object(answer: aiohttp.ClientResponse) -> Object:
    content = await answer.json(content_type=None)
    return content if isinstance(content, dict) else {}


async def _refusal(method: str, path: str, answer: aiohttp.ClientResponse) -> KubeError:
    try:
        failure = await _object(answer)
    except ValueError:
        failure = {}
    kind = KubeUnavailable if answer.status == 429 or answer.status >= 500 else KubeError
    explanation = str(failure.get("message", "")).strip()
    return kind(
        f"{method} {path}: {answer.status} {explanation}".rstrip(),
        status=answer.status,
        reason=str(failure.get("reason", "")),
        explanation=explanation,
        causes=(failure.get("details") or {}).get("causes") or (),
        # A 5xx may come after the write, such as a timeout of etcd. A 429 comes before it.
        outcome_unknown=answer.status >= 500 and method != "GET",
    )


class _Fenced(aiohttp.JsonPayload):
    """A request body that asks the fence immediately before it is written.

    Without the fence's consent, no header is sent either. A paused process may resume at any point between the decision
    to write and the write, so the check comes as late as possible.
    """

    def __init__(self, body: Object, fence: Fence) -> None:
        super().__init__(body)
        self.fence = fence
        self.withheld = False

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        self.withheld = not self.fence.holds
        if self.withheld:
            raise NotLeading("not sent")
        await super().write_with_length(writer, content_length)

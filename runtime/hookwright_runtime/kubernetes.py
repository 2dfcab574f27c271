"""A small client of the API server: the few requests that the operator makes besides kopf's watches.

kopf finds the credentials (in-cluster ServiceAccount or kubeconfig) and keeps its own client private. This client logs
in with kopf's functions. It speaks plain JSON, so the process does not load an object model of the whole Kubernetes API
for five verbs.
"""

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import AbstractContextManager
from copy import copy
from typing import Any, Final, Protocol, Self

import aiohttp
import kopf
import structlog
from aiohttp.abc import AbstractStreamWriter

from hookwright_runtime.errors import KubeError, KubeUnavailable, NotLeading
from hookwright_runtime.kubernetes_pages import Page, Pager

log = structlog.get_logger(__name__)

FIELD_MANAGER: Final = "hookwright-operator"
_APPLY: Final = "application/apply-patch+yaml"
_MERGE: Final = "application/merge-patch+json"
_TIMEOUT: Final = aiohttp.ClientTimeout(total=10, connect=3)
_RELOGIN_SECONDS: Final = 300.0
"""Seconds between two logins.

Projected ServiceAccount tokens are replaced on disk within the hour, so this is early enough.
"""

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
    found = kopf.login_with_service_account(settings=settings) or kopf.login_with_kubeconfig(settings=settings)
    if found is None:
        raise KubeError("no cluster: set KUBECONFIG, or run inside a pod that has a ServiceAccount")
    return found


class KubernetesClient:
    """Requests to one API server; created by `connect`, closed by `close`."""

    def __init__(self) -> None:
        self._info = _login()
        self._read_at = 0.0
        self._ssl: ssl.SSLContext = self._info.as_ssl_context()
        self._session: aiohttp.ClientSession | None = None
        self._fence: Fence | None = None

    @classmethod
    async def connect(cls) -> Self:
        """Log in as kopf does and return a client; no request is sent yet.

        Raises:
            KubeError: no credentials were found.
        """
        kube = cls()
        kube._session = aiohttp.ClientSession(
            timeout=_TIMEOUT, trust_env=False, middlewares=[Pager()], response_class=Page
        )
        kube._read_at = asyncio.get_running_loop().time()
        return kube

    def within(self, fence: Fence) -> Self:
        """Return a client with the same connections that writes only if a fence allows it."""
        fenced = copy(self)
        fenced._fence = fence  # noqa: SLF001 - an instance of the same class
        return fenced

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def get(self, path: str, **params: str) -> Object:
        """Return the object or the list at a path."""
        return await self._request("GET", path, params=params)

    async def post(self, path: str, body: Object) -> Object:
        """Create an object, or request a review."""
        return await self._request("POST", path, body=body, params={"fieldManager": FIELD_MANAGER})

    async def apply(self, path: str, body: Object) -> Object:
        """Apply Hookwright's fields of an object by server-side apply; the apply releases omitted fields."""
        return await self._request(
            "PATCH", path, body=body, media=_APPLY, params={"fieldManager": FIELD_MANAGER, "force": "true"}
        )

    async def merge(self, path: str, body: Object) -> Object:
        """Apply a JSON merge patch (RFC 7396)."""
        return await self._request("PATCH", path, body=body, media=_MERGE, params={"fieldManager": FIELD_MANAGER})

    async def delete(self, path: str, *, uid: str) -> None:
        """Delete the object if it still has this uid; an object that is already deleted is no error."""
        try:
            await self._request("DELETE", path, body={"preconditions": {"uid": uid}})
        except KubeError as error:
            if error.status != 404:
                raise

    async def _request(
        self,
        method: str,
        path: str,
        *,
        body: Object | None = None,
        media: str = "application/json",
        params: Mapping[str, str] | None = None,
    ) -> Object:
        for last in (False, True):
            self._refresh()
            try:
                if self._fence is not None and body is not None:
                    return await self._send_fenced(method, path, _Fenced(body, self._fence), media, params)
                payload = aiohttp.JsonPayload(body) if body is not None else None
                return await self._send(method, path, payload, media, params)
            except KubeError as error:
                if error.status != 401 or last:
                    raise
                self._read_at = float("-inf")
        raise AssertionError("unreachable")

    def _refresh(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._read_at > _RELOGIN_SECONDS:
            self._info, self._read_at = _login(), now

    async def _send_fenced(
        self, method: str, path: str, body: "_Fenced", media: str, params: Mapping[str, str] | None
    ) -> Object:
        withheld = NotLeading(f"{method} {path}: not sent, because this replica is not the leader")
        if not body.fence.holds:
            raise withheld
        try:
            # A request that hangs is aborted before another replica can lead.
            with body.fence.writing:
                async with asyncio.timeout(body.fence.left):
                    return await self._send(method, path, body, media, params)
        except TimeoutError:
            raise KubeUnavailable(f"{method} {path}: no answer before the leadership expired") from None
        except KubeUnavailable:
            if body.withheld:
                raise withheld from None
            raise

    async def _send(
        self, method: str, path: str, body: aiohttp.JsonPayload | None, media: str, params: Mapping[str, str] | None
    ) -> Object:
        assert self._session is not None, "use KubernetesClient.connect()"
        headers = {**self._info.as_http_headers(), "Content-Type": media, "Accept": "application/json"}
        url = f"{self._info.server.rstrip('/')}{path}"
        try:
            async with self._session.request(
                method, url, data=body, params=params, headers=headers, ssl=self._ssl, proxy=self._info.proxy_url
            ) as answer:
                content = await answer.json(content_type=None)
                status = answer.status
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise KubeUnavailable(
                f"{method} {path}: the API server does not answer ({type(error).__name__})"
            ) from error
        if status < 400:
            return content if isinstance(content, dict) else {}
        raise _refusal(method, path, status, content)


class _Fenced(aiohttp.JsonPayload):
    """A request body that asks the fence immediately before it is written.

    Without the fence's consent, no header is sent either.
    A paused process may resume at any point between the decision to write and the write, so the check comes as late as
    possible.
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


def _refusal(method: str, path: str, status: int, content: object) -> KubeError:
    told = content if isinstance(content, dict) else {}
    kind = KubeUnavailable if status == 429 or status >= 500 else KubeError
    return kind(
        f"{method} {path}: {status} {told.get('message', '')}".rstrip(),
        status=status,
        reason=str(told.get("reason", "")),
    )

"""A small client of the API server over httpx: lists and watches for the view, and a few writes.

kopf finds the credentials, in-cluster ServiceAccount or kubeconfig, as it does for the operator. This client reads them
again every minute, because projected tokens are replaced on disk.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Self

import httpx
import kopf

from hookwright_runtime.errors import KubeError, KubeUnavailable
from hookwright_runtime.httpx_errors import NO_ANSWER

FIELD_MANAGER: Final = "hookwright-api"
_APPLY: Final = "application/apply-patch+yaml"
_RELOGIN_SECONDS: Final = 60.0
_TIMEOUT: Final = httpx.Timeout(5.0, connect=3.0)
_SILENCE_SECONDS: Final = 90.0
"""The API server sends a bookmark about every minute; a watch that is silent for longer has a dead connection."""

Object = dict[str, Any]


def login() -> kopf.ConnectionInfo:
    """Return credentials of the pod's ServiceAccount or otherwise of the kubeconfig.

    Raises:
        KubeError: there are none.
    """
    settings = kopf.OperatorSettings()
    try:
        found = kopf.login_with_service_account(settings=settings) or kopf.login_with_kubeconfig(settings=settings)
    except kopf.LoginError as error:
        raise KubeError(f"no cluster: {error}") from None
    if found is None:
        raise KubeError("no cluster: set KUBECONFIG, or run inside a pod that has a ServiceAccount")
    return found


class ViewClient:
    """Requests to one API server; created by `connect`, closed by `close`."""

    def __init__(self, info: kopf.ConnectionInfo) -> None:
        """Create a client with these credentials."""
        self._info = info
        self._read_at = float("-inf")
        self._client = httpx.AsyncClient(
            verify=info.as_ssl_context(),
            base_url=info.server,
            timeout=_TIMEOUT,
            trust_env=False,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
        )

    @classmethod
    async def connect(cls) -> Self:
        """Log in and return a client; no request is sent yet.

        Raises:
            KubeError: no credentials were found.
        """
        # Reading files and creating a TLS context takes milliseconds, so a thread does it.
        return cls(await asyncio.to_thread(login))

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def get(self, path: str, **params: str) -> Object:
        """Return the object or the list at a path."""
        return await self._request("GET", path, params=params)

    async def page(self, path: str, *, most: int | None, **params: str) -> Object | None:
        """Return a page of a list, None if it has more bytes than ``most``; the rest of it is not read.

        Raises:
            KubeError: the API server refused the request.
        """
        self._refresh()
        headers, body = self._headers("application/json"), bytearray()
        try:
            async with self._client.stream("GET", path, params=params, headers=headers) as answer:
                async for chunk in answer.aiter_bytes():
                    body += chunk
                    if most is not None and len(body) > most:
                        return None
        except NO_ANSWER as error:
            raise KubeUnavailable(f"GET {path}: the API server does not answer ({type(error).__name__})") from error
        if answer.status_code == 401:
            self._read_at = float("-inf")
        if answer.status_code >= 400:
            raise _refusal("GET", path, answer.status_code, bytes(body))
        return _object(bytes(body))

    async def create(self, path: str, body: Object) -> Object:
        """Create an object and return its state."""
        return await self._request("POST", path, body=body, params={"fieldManager": FIELD_MANAGER})

    async def apply(self, path: str, body: Object, *, manager: str = FIELD_MANAGER) -> Object:
        """Apply Hookwright's fields of an object by server-side apply."""
        return await self._request(
            "PATCH", path, body=body, media=_APPLY, params={"fieldManager": manager, "force": "true"}
        )

    async def delete(self, path: str, *, uid: str, version: str = "") -> Object:
        """Delete the object if it still has this uid and, if given, this resourceVersion.

        Returns:
            The object if finalizers keep it, otherwise a Status.

        Raises:
            KubeError: 404 it does not exist; 409 it is another object, or has changed.
        """
        preconditions = {"uid": uid} | ({"resourceVersion": version} if version else {})
        return await self._request("DELETE", path, body={"preconditions": preconditions})

    @asynccontextmanager
    async def watch(self, path: str, params: Mapping[str, str]) -> AsyncIterator[AsyncIterator[Object]]:
        """Open a watch; inside the context, iterate over its events.

        Raises:
            KubeError: the API server refused the watch, or the watch broke.
        """
        self._refresh()
        timeout = httpx.Timeout(_SILENCE_SECONDS, connect=3.0)
        try:
            async with self._client.stream(
                "GET", path, params={**params, "watch": "1"}, headers=self._headers("application/json"), timeout=timeout
            ) as answer:
                if answer.status_code >= 400:
                    raise _refusal("WATCH", path, answer.status_code, await answer.aread())
                yield _events(answer)
        except httpx.HTTPError as error:
            raise KubeUnavailable(f"WATCH {path}: connection lost ({type(error).__name__})") from error

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
                return await self._send(method, path, body, media, params)
            except KubeError as error:
                if error.status != 401 or last:
                    raise
                self._read_at = float("-inf")
        raise AssertionError("unreachable")

    def _refresh(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._read_at > _RELOGIN_SECONDS:
            self._info, self._read_at = login(), now

    def _headers(self, media: str) -> dict[str, str]:
        return {**self._info.as_http_headers(), "Content-Type": media, "Accept": "application/json"}

    async def _send(
        self, method: str, path: str, body: Object | None, media: str, params: Mapping[str, str] | None
    ) -> Object:
        content = None if body is None else json.dumps(body).encode()
        try:
            answer = await self._client.request(
                method, path, content=content, params=params, headers=self._headers(media)
            )
        except NO_ANSWER as error:
            raise KubeUnavailable(
                f"{method} {path}: the API server does not answer ({type(error).__name__})"
            ) from error
        if answer.status_code >= 400:
            raise _refusal(method, path, answer.status_code, answer.content)
        return _object(answer.content)


async def _events(answer: httpx.Response) -> AsyncIterator[Object]:
    async for line in answer.aiter_lines():
        if line:
            yield _object(line)


def _object(text: bytes | str) -> Object:
    try:
        told = json.loads(text)
    except ValueError as error:
        raise KubeUnavailable("the API server's answer is not JSON") from error
    return told if isinstance(told, dict) else {}


def _refusal(method: str, path: str, status: int, content: bytes) -> KubeError:
    try:
        told = _object(content)
    except KubeUnavailable:
        told = {}
    kind = KubeUnavailable if status == 429 or status >= 500 else KubeError
    explanation = str(told.get("message", ""))
    return kind(
        f"{method} {path}: {status} {explanation}".rstrip(),
        status=status,
        reason=str(told.get("reason", "")),
        explanation=explanation,
        causes=(told.get("details") or {}).get("causes") or (),
    )

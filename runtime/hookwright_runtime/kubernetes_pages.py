"""Bounded answers of the API server: lists in pages of bounded bytes, and watch events trimmed when they arrive.

A page has a number of objects, but an object may have 1.5 MB: 500 of them in one page would be in memory several times.
So a page that exceeds its bytes is dropped and requested again with fewer objects. kopf's session and that of
`KubernetesClient` have this as a middleware of aiohttp.
"""

import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

import aiohttp

from hookwright_crds.trimming import trimmed_secret

PAGE_BYTES: Final = 4 * 1024 * 1024
"""Most bytes of a page with more than one object, as JSON: 500 objects of 8 KiB."""
MOST_OBJECTS: Final = 500
_SMALL_LINE: Final = 16 * 1024
"""A watch event up to this many bytes is not trimmed on arrival; the cache keeps only a part of it anyway."""
# The quotes of this pattern are escaped within a text of JSON.
_VERSION: Final = re.compile(rb'"resourceVersion":"([0-9]+)"')
_BOOKMARK: Final = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%s"}}}\n'

Trim = Callable[[Mapping[str, Any]], dict[str, Any]]
"""A function that returns the kept part of an object."""


class Page(aiohttp.ClientResponse):
    """An answer whose body may already be read and trimmed."""

    read_already: dict[str, Any] | None = None

    async def json(self, **options: Any) -> Any:
        """Return the parsed body."""
        return await super().json(**options) if self.read_already is None else self.read_already


class Pager:
    """A middleware of one session that remembers how many objects fit into a page."""

    def __init__(
        self, page_bytes: int = PAGE_BYTES, *, trim: Trim = trimmed_secret, known: set[str] | None = None
    ) -> None:
        self._page_bytes, self._trim, self._known = page_bytes, trim, set[str]() if known is None else known
        self._fitting: dict[str, int] = {}

    async def __call__(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Send a request; read and trim a list here, and a watch while its events arrive."""
        query = request.url.query
        if request.method != "GET" or not query.keys() & {"limit", "watch"}:
            return await handler(request)
        if "watch" in query:
            answer = await handler(request)
            answer.content = _Lines(answer.content, self._trim, self._known)  # type: ignore[assignment]
            return answer
        return await self._page(request, handler, int(query["limit"] or MOST_OBJECTS))

    async def _page(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType, limit: int
    ) -> aiohttp.ClientResponse:
        path = request.url.path
        while True:
            number = min(limit, self._fitting.get(path, MOST_OBJECTS))
            request.url = request.url.update_query(limit=str(number))
            answer = await handler(request)
            if answer.status != 200 or not isinstance(answer, Page):
                return answer
            body = await _read(answer.content, self._page_bytes if number > 1 else None)
            if body is None:
                answer.close()
                self._fitting[path] = max(1, number // 4)
                continue
            if len(body) < self._page_bytes // 4:
                self._fitting[path] = min(number * 2, MOST_OBJECTS)
            answer.read_already = page = json.loads(body)
            page["items"] = [self._trim(item) for item in page.get("items") or ()]
            answer.release()
            return answer


class _Lines:
    """The content of a watch, one line per chunk, with large lines trimmed, and bookmarks for known versions."""

    def __init__(self, content: aiohttp.StreamReader, trim: Trim, known: set[str]) -> None:
        self._content, self._trim, self._known = content, trim, known

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        """Yield one whole event at a time."""
        line = bytearray()
        async for chunk in self._content.iter_chunked(size):
            for part in chunk.splitlines(keepends=True):
                line += part
                if part.endswith(b"\n"):
                    yield self._bookmark_of(line) or _trimmed_line(bytes(line), self._trim)
                    line = bytearray()
        if line:
            yield bytes(line)

    def _bookmark_of(self, line: bytearray) -> bytes | None:
        """Return a bookmark for an event of a known version, which is known only once; None for other events."""
        versions: list[bytes] = _VERSION.findall(line) if self._known else []
        # A tenant can give an annotation or a header this name, too.
        if len(versions) != 1 or versions[0].decode() not in self._known:
            return None
        self._known.discard(versions[0].decode())
        return _BOOKMARK % versions[0]


def _trimmed_line(line: bytes, trim: Trim) -> bytes:
    if len(line) <= _SMALL_LINE:
        return line
    event = json.loads(line)
    if "resourceVersion" in (event["object"].get("metadata") or {}) and "uid" in event["object"]["metadata"]:
        event["object"] = trim(event["object"])
    return json.dumps(event).encode() + b"\n"


async def _read(content: aiohttp.StreamReader, limit: int | None) -> bytes | None:
    """Return the body, or None as soon as it exceeds the limit of bytes."""
    body = bytearray()
    async for chunk in content.iter_any():
        body += chunk
        if limit is not None and len(body) > limit:
            return None
    return bytes(body)

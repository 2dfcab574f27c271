"""The files of the console that browsers keep: their URLs contain a hash of their content.

``htmx.min.js`` is the file of the npm package htmx.org at the version of ``dev/node/package.json``.
"""

import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

FOLDER: Final = Path(__file__).parent / "static"
PREFIX: Final = "/console/static/"
_MEDIA_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HASH_DIGITS: Final = 12
_ONE_YEAR: Final = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file as browsers get it."""

    url: str
    media_type: str
    content: bytes
    packed: bytes

    @classmethod
    def of(cls, path: Path) -> "StaticFile":
        """Read a file; its URL changes with its content."""
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()[:_HASH_DIGITS]
        url = f"{PREFIX}{path.stem}-{digest}{path.suffix}"
        return cls(url, _MEDIA_TYPES[path.suffix], content, gzip.compress(content, mtime=0))


FILES: Final = {path.name: StaticFile.of(path) for path in sorted(FOLDER.iterdir()) if path.suffix in _MEDIA_TYPES}
_BY_URL: Final = {file.url: file for file in FILES.values()}
URLS: Final = frozenset(_BY_URL)


def static_url(name: str) -> str:
    """Return the URL of a file in ``static/``."""
    return FILES[name].url


async def serve_file(request: Request) -> Response:
    """Return a file; browsers may keep it for a year, because another content has another URL."""
    file = _BY_URL[request.url.path]
    headers = {"Cache-Control": _ONE_YEAR, "Vary": "Accept-Encoding", "X-Content-Type-Options": "nosniff"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.packed, headers={**headers, "Content-Encoding": "gzip"}, media_type=file.media_type)
    return Response(file.content, headers=headers, media_type=file.media_type)

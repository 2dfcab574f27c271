"""The files of the console that browsers keep: their URLs contain a hash of their content.

``htmx.min.js`` is the file of the npm package htmx.org at the version of ``dev/node/package.json``.
"""

import gzip
import hashlib
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

FOLDER: Final = Path(__file__).parent / "static"
_MEDIA_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_HASH_DIGITS: Final = 12
_HEADERS: Final = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "Vary": "Accept-Encoding",
    "X-Content-Type-Options": "nosniff",
}


def _url_of(path: Path) -> str:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:_HASH_DIGITS]
    return f"/console/static/{path.stem}-{digest}{path.suffix}"


URL_BY_NAME: Final = {path.name: _url_of(path) for path in sorted(FOLDER.iterdir()) if path.suffix in _MEDIA_TYPES}
URLS: Final = frozenset(URL_BY_NAME.values())
_CONTENTS: Final = {url: (FOLDER / name).read_bytes() for name, url in URL_BY_NAME.items()}
_GZIP_CONTENTS: Final = {url: gzip.compress(content, mtime=0) for url, content in _CONTENTS.items()}


async def serve_file(request: Request) -> Response:
    """Return a file; browsers may keep it for a year, because another content has another URL."""
    url = request.url.path
    media_type = _MEDIA_TYPES[Path(url).suffix]
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(_GZIP_CONTENTS[url], 200, {**_HEADERS, "Content-Encoding": "gzip"}, media_type)
    return Response(_CONTENTS[url], 200, _HEADERS, media_type)

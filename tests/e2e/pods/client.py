"""HTTP client in a pod: sends the requests that it reads as JSON from standard input, and prints the answers.

A request has ``method`` and ``url``, and may have ``headers``, ``body`` and ``token``. With ``token`` it carries the
pod's own ServiceAccount token for the intake. An answer has ``status`` (0 if there was none), ``headers`` and ``body``.
"""

import json
import socket
import sys
import time
from collections.abc import Mapping
from http.client import HTTPResponse
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, Request, build_opener

TOKEN = Path("/var/run/secrets/hookwright.dev/token")
SECONDS = 35.0
REACH_SECONDS = 20.0
CONNECT_SECONDS = 2.0

# Directly to the Service: a proxy from the environment would answer in its place.
_OPENER = build_opener(ProxyHandler({}))


def answered(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to one request."""
    headers = dict(asked.get("headers") or {})
    if asked.get("token"):
        headers["Authorization"] = f"Bearer {TOKEN.read_text().strip()}"
    body = asked.get("body")
    request = Request(  # noqa: S310 - the suite names the URL
        asked["url"],
        data=None if body is None else body.encode(),
        headers=headers,
        method=asked["method"],
    )
    try:
        reach(asked["url"])
        with _OPENER.open(request, timeout=SECONDS) as answer:
            return _told(answer)
    except HTTPError as answer:
        return _told(answer)
    except OSError as fault:
        return {"status": 0, "headers": {}, "body": str(fault)}


def reach(url: str) -> None:
    """Return when a connection to the URL's host can be made; raise OSError if none can for a while.

    A Service takes a moment to exist on a node. A connection that begins earlier may hang forever, although the
    next one works, so each connection has a short timeout.
    """
    parts, deadline = urlsplit(url), time.monotonic() + REACH_SECONDS
    while True:
        try:
            socket.create_connection((parts.hostname or "", parts.port or 80), timeout=CONNECT_SECONDS).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def _told(answer: HTTPResponse | HTTPError) -> dict[str, Any]:
    headers = {name.lower(): value for name, value in answer.headers.items()}
    return {"status": answer.status, "headers": headers, "body": answer.read().decode(errors="replace")}


if __name__ == "__main__":
    json.dump([answered(asked) for asked in json.load(sys.stdin)], sys.stdout)

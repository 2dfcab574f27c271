"""Receiver in a pod: has many paths, one for each endpoint, and checks both signatures of each delivery.

``PUT /<name>`` with ``{"secrets": […], "status": 200}`` sets an endpoint's secrets and the answer.
``POST /<name>`` is a delivery. ``GET /<name>`` returns the number of ``good`` deliveries, the ``wrong`` ones by their
fault, and how many ``times`` each ``messageId`` was answered 2xx.
"""

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from aiohttp import web

from hookwright_dev.receiver import verdict

PORT = 8080


@dataclass(slots=True)
class Path:
    """State of one endpoint."""

    secrets: list[str] = field(default_factory=list)
    status: int = 200
    good: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    times: Counter[str] = field(default_factory=Counter)


class Paths:
    """The endpoints by name."""

    def __init__(self) -> None:
        self._known: defaultdict[str, Path] = defaultdict(Path)

    async def choose(self, request: web.Request) -> web.Response:
        """Set an endpoint's secrets and its answer."""
        document, path = await request.json(), self._known[request.match_info["name"]]
        path.secrets = document["secrets"]
        path.status = document["status"]
        return web.Response(status=204)

    async def take(self, request: web.Request) -> web.Response:
        """Check a delivery, and return the chosen status."""
        path, body = self._known[request.match_info["name"]], await request.read()
        if fault := verdict(request.headers, body, path.secrets):
            path.wrong[fault] += 1
        else:
            path.good += 1
            if 200 <= path.status < 300:
                path.times[json.loads(body)["messageId"]] += 1
        return web.Response(status=path.status)

    async def tell(self, request: web.Request) -> web.Response:
        """Return the deliveries to an endpoint."""
        path = self._known[request.match_info["name"]]
        return web.json_response({"good": path.good, "wrong": path.wrong, "times": path.times})


if __name__ == "__main__":
    paths = Paths()
    app = web.Application()
    app.router.add_put("/{name}", paths.choose)
    app.router.add_post("/{name}", paths.take)
    app.router.add_get("/{name}", paths.tell)
    web.run_app(app, port=PORT, access_log=None, print=None)

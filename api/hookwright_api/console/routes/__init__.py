"""The pages of the console, one module per subject; each adds its routes to `ROUTES`.

The application gets the routes, the files, and the pages for errors from here.
"""

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Scope

from hookwright_api.console.navigation import HOME
from hookwright_api.console.page_route import ROUTES
from hookwright_api.console.routes import (  # noqa: F401 - each adds its routes
    deliveries,
    endpoints,
    first_delivery,
    keys,
    projects,
    replays,
    search,
    sessions,
    test_events,
    verification,
)
from hookwright_api.console.static_files import URLS, serve_file
from hookwright_api.console.visit import visit_in
from hookwright_runtime.problems import ProblemError

__all__ = ["ROUTES", "add_console", "problem_page"]


def add_console(app: FastAPI) -> None:
    """Add every page and file of the console."""
    for route in ROUTES:
        app.add_route(route.path, route.serve, methods=[route.method], include_in_schema=False)
    for url in sorted(URLS):
        app.add_route(url, serve_file, methods=["GET"], include_in_schema=False)
    app.add_route(HOME.rstrip("/"), _to_home, methods=["GET"], include_in_schema=False)


async def _to_home(_: Request) -> Response:
    return RedirectResponse(HOME, 308)


def problem_page(scope: Scope, problem: ProblemError) -> Response | None:
    """Return the page of a refusal; None if the request is not for the console. A browser at / goes to the console."""
    path = scope["path"]
    is_root = path == "/" and scope["method"] == "GET" and problem.status == 404
    if is_root and "text/html" in Headers(scope=scope).get("accept", ""):
        return RedirectResponse(HOME, 302)
    is_page = path == HOME.rstrip("/") or path.startswith(HOME)
    return visit_in(scope).render_problem(problem) if is_page else None

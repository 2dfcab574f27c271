"""The console as a part of the application: its routes, its files, and its pages for errors."""

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Scope

from hookwright_api.console.navigation import HOME
from hookwright_api.console.page_route import ConsoleRoute
from hookwright_api.console.routes import console_routes
from hookwright_api.console.static_files import URLS, serve_file
from hookwright_api.console.templating import render_problem
from hookwright_runtime.problems import ProblemError


def add_console(app: FastAPI) -> None:
    """Add every page and file of the console."""
    for route in console_routes():
        _add(app, route)
    for url in sorted(URLS):
        app.add_route(url, serve_file, methods=["GET"], include_in_schema=False)
    app.add_route(HOME.rstrip("/"), _to_home, methods=["GET"], include_in_schema=False)


def _add(app: FastAPI, route: ConsoleRoute) -> None:
    async def serve(request: Request) -> Response:
        return await route.serve(request)

    app.add_route(route.path, serve, methods=[route.method], include_in_schema=False)


async def _to_home(_: Request) -> Response:
    return RedirectResponse(HOME, 308)


def problem_page(scope: Scope, problem: ProblemError) -> Response | None:
    """Return the page of a refusal; None if the request is not for the console."""
    path = scope["path"]
    if path != HOME.rstrip("/") and not path.startswith(HOME):
        return None
    return render_problem(Request(scope), problem)

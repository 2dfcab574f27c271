"""The application: routes, errors, the OpenAPI description, and its background tasks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from importlib.metadata import version
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import Scope

from hookwright_api.console.routes import add_console, problem_page
from hookwright_api.console.static_files import URLS as FILES_OF_CONSOLE
from hookwright_api.http.openapi import CONTACT, LICENSE, SERVERS, TAGS, describe, methods_of
from hookwright_api.http.request_checks import Middleware, problem_answer
from hookwright_api.http.swagger_ui import add_swagger_ui
from hookwright_api.key_usage import KeyUsage
from hookwright_api.operator_client import OperatorClient
from hookwright_api.rate_limits import Limiter
from hookwright_api.routes import routers
from hookwright_api.services import Services, utc_now
from hookwright_api.settings import ApiSettings
from hookwright_api.view.view import View
from hookwright_crds.trimming import trimmed_with_labels
from hookwright_runtime.kubernetes import KubernetesClient
from hookwright_runtime.problems import ProblemError
from hookwright_runtime.validation import from_validation

DESCRIPTION: Final = (
    "Webhooks, the API keys that give access to them, and the events they deliver. An organization's projects are "
    "declared in Kubernetes; an object created here is also a Kubernetes resource, and its name is its `id`."
)

_MANAGER: Final = "hookwright-api"


@asynccontextmanager
async def running(settings: ApiSettings) -> AsyncIterator[Services]:
    """Connect, keep the view up to date inside the context, then close everything."""
    async with AsyncExitStack() as stack:
        kube = await KubernetesClient.connect(_MANAGER, seconds=5.0, connections=0, trim=trimmed_with_labels)
        stack.push_async_callback(kube.close)
        operator = OperatorClient(settings.operator_url, settings.operator_token_file)
        stack.push_async_callback(operator.close)
        limiter = Limiter(settings)
        stack.push_async_callback(limiter.close)
        view = View()
        key_use = KeyUsage(kube, view.keys, interval=settings.key_used_interval, now=utc_now)
        feeding = view.follow(kube, users_namespace=settings.users_namespace, namespaces=settings.watch_namespaces)
        tasks = [asyncio.create_task(work) for work in (*feeding, key_use.run())]
        stack.push_async_callback(_end, tasks)
        yield Services(settings, view, kube, operator, limiter, key_use)


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    # An error of one task must not leave the others unawaited.
    await asyncio.gather(*tasks, return_exceptions=True)


def assemble(settings: ApiSettings) -> FastAPI:
    """Return the application with its routes, which need ``app.state.services``."""
    app = FastAPI(
        title="Hookwright",
        version=version("hookwright"),
        description=DESCRIPTION,
        openapi_tags=TAGS,
        servers=SERVERS,
        contact=CONTACT,
        license_info=LICENSE,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
    )
    add_swagger_ui(app)
    for router in routers():
        app.include_router(router)
    if settings.console:
        add_console(app)
    app.state.answer_of = _page_or_document if settings.console else problem_answer
    app.add_exception_handler(ProblemError, _on_problem)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_middleware(
        Middleware,
        limiter=lambda: app.state.services.limiter,
        proxies=settings.trusted_proxies,
        routes=[route for part in (app.router, *routers()) for route in part.routes if isinstance(route, Route)],
        file_paths=FILES_OF_CONSOLE if settings.console else (),
        answer_of=app.state.answer_of,
    )
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]
    return app


def _page_or_document(scope: Scope, problem: ProblemError) -> Response:
    return problem_page(scope, problem) or problem_answer(scope, problem)


def _answer(request: Request, problem: ProblemError) -> Response:
    answer: Response = request.app.state.answer_of(request.scope, problem)
    return answer


async def _on_problem(request: Request, error: Any) -> Response:
    return _answer(request, error)


async def _on_invalid(request: Request, error: Any) -> Response:
    # FastAPI's location begins with the part of the request: body, query, path or header.
    return _answer(request, from_validation({**fault, "loc": fault["loc"][1:]} for fault in error.errors()))


async def _on_http(request: Request, error: Any) -> Response:
    """Answer errors of the framework: an unknown route, a wrong method, an unreadable body."""
    details = {
        400: "the body cannot be read",
        404: f"{request.url.path} does not exist",
        405: f"{request.url.path} does not accept {request.method}",
    }
    detail = details.get(error.status_code, str(error.detail))
    headers = dict(error.headers or {})
    if error.status_code == 405:
        methods = ", ".join(methods_of(request.app, request.url.path))
        headers["Allow"] = methods or f"{headers.get('Allow', 'GET')}, OPTIONS"
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=headers)
    return _answer(request, ProblemError(error.status_code, detail, headers=headers))

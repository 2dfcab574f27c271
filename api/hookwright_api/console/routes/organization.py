"""The first page: the projects of the organization, with their failing endpoints."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from hookwright_api.console.form_fields import faults_of, schemas_of
from hookwright_api.console.navigation import HOME, console_path
from hookwright_api.console.operations import attempt, call
from hookwright_api.console.page_route import ConsoleRoutes
from hookwright_api.console.sparkline import Sparkline, sparkline
from hookwright_api.console.templating import render, see
from hookwright_api.console.visits import form_of
from hookwright_api.http.guarded_route import caller_of
from hookwright_api.routes.operator_routes import get_project_statistics
from hookwright_api.routes.projects import create_project, list_projects
from hookwright_api.services import services_of
from hookwright_api.view.table import page_after
from hookwright_api.view.table_records import EndpointRecord, ProjectRecord
from hookwright_crds.documents.project_bodies import ProjectRequest
from hookwright_crds.permissions import ADMINISTER
from hookwright_runtime.problems import ProblemError, unavailable
from hookwright_runtime.validation import from_validation

console = ConsoleRoutes()

_PAGE: Final = 25
_STATISTICS_SECONDS: Final = 5.0
"""Time limit for all statistics of a page, so that a slow operator does not delay the rest of it."""
_READS_AT_ONCE: Final = 4
"""Statistics that a page reads at once. The operator refuses more than 16 reads of one organization."""


@dataclass(frozen=True, slots=True)
class ProjectSummary:
    """A project on the first page."""

    project: ProjectRecord
    endpoints: int
    attention: int
    pending: int
    line: Sparkline | None


@console.page("/", uses=(list_projects, get_project_statistics))
async def show_organization(request: Request) -> Response:
    """Show the projects, 25 on a page. The page then asks for itself again with the rates, which take longer."""
    view, organization = services_of(request).view, caller_of(request).organization
    every = view.projects.find("organization", organization)
    shown, following = page_after(every, request.query_params.get("cursor"), _PAGE)
    with_rates = "rates" in request.query_params
    rates, problem = await attempt(_lines(request, shown)) if with_rates else (None, None)
    lines: list[Sparkline | None] = [*rates] if rates is not None else [None] * len(shown)
    summaries = [
        _summary(one, view.endpoints.find("project", (organization, one.identity.name)), line)
        for one, line in zip(shown, lines, strict=True)
    ]
    return render(
        request,
        "organization.html",
        summaries=summaries,
        total=len(every),
        following=following,
        problem=problem,
        rates_url=None if with_rates else HOME + "?" + urlencode({**request.query_params, "rates": "1"}),
    )


async def _lines(request: Request, projects: Sequence[ProjectRecord]) -> list[Sparkline]:
    """Return the success rates of 24 hours."""
    places = asyncio.Semaphore(_READS_AT_ONCE)

    async def read(project: ProjectRecord) -> Any:
        async with places:
            return await call(request, get_project_statistics, project.identity.name, window="24h")

    try:
        async with asyncio.timeout(_STATISTICS_SECONDS):
            found = await asyncio.gather(*map(read, projects))
    except TimeoutError:
        raise unavailable("the operator did not answer in time, so the success rates are missing") from None
    return [sparkline(one["buckets"]) for one in found]


def _summary(project: ProjectRecord, endpoints: Sequence[EndpointRecord], line: Sparkline | None) -> ProjectSummary:
    counts = [one.endpoint.status.deliveries for one in endpoints]
    return ProjectSummary(
        project,
        endpoints=len(endpoints),
        attention=sum(one.status in ("failing", "error") for one in endpoints),
        pending=sum(one.pending for one in counts if one is not None),
        line=line,
    )


@console.page("/new-project", permission=ADMINISTER)
async def show_new_project(request: Request) -> Response:
    """Show the form for a project."""
    return _new_project(request, "", "")


def _new_project(request: Request, name: str, display_name: str, problem: ProblemError | None = None) -> Response:
    return render(
        request,
        "new_project.html",
        problem.status if problem else 200,
        name=name,
        display_name=display_name,
        schemas=schemas_of(ProjectRequest),
        problem=problem,
        faults=faults_of(problem) if problem else {},
    )


@console.action("/new-project", uses=(create_project,))
async def make_project(request: Request) -> Response:
    """Create a project."""
    form = form_of(request)
    name, display_name = form.text("name"), form.text("display_name")
    try:
        body = ProjectRequest.model_validate({"name": name, **({"display_name": display_name} if display_name else {})})
        await call(request, create_project, body)
    except ValidationError as error:
        problem = from_validation(error.errors(include_url=False, include_input=False))
    except ProblemError as refused:
        problem = refused
    else:
        return see(request, console_path("projects", name), notice="project-created")
    return _new_project(request, name, display_name, problem)

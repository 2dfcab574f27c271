"""The first page: the projects of the organization, with their failing endpoints."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import Response

from hookwright_api.console.charts import success_line
from hookwright_api.console.form_fields import fields_of, read_request
from hookwright_api.console.navigation import HOME, console_path
from hookwright_api.console.page_route import action, page
from hookwright_api.console.visit import Visit, attempt
from hookwright_api.routes.operator_routes import get_project_statistics
from hookwright_api.routes.projects import create_project, list_projects
from hookwright_api.view.table import page_after
from hookwright_api.view.table_records import ProjectRecord
from hookwright_crds.documents.project_bodies import ProjectRequest
from hookwright_crds.permissions import ADMINISTER
from hookwright_runtime.problems import unavailable

_PAGE: Final = 25
_STATISTICS_SECONDS: Final = 5.0
"""Time limit for all statistics of a page, so that a slow operator does not delay the rest of it."""
_READS_AT_ONCE: Final = 4
"""Statistics that a page reads at once. The operator refuses more than 16 reads of one organization."""


@page("/", uses=(list_projects, get_project_statistics))
async def show_organization(visit: Visit) -> Response:
    """Show the projects, 25 on a page. The page then asks for itself again with the rates, which take longer."""
    every = visit.services.view.projects.find("organization", visit.organization)
    projects, following = page_after(every, visit.query.get("cursor"), _PAGE)
    with_rates = "rates" in visit.query
    statistics, problem = await attempt(_statistics(visit, projects)) if with_rates else (None, None)
    return visit.render(
        "organization.html",
        summaries=[
            {**_summary(visit, project), "rates": rates}
            for project, rates in zip(projects, statistics or [None] * len(projects), strict=True)
        ],
        total=len(every),
        following=following,
        problem=problem,
        success_line=success_line,
        rates_url=None if with_rates else HOME + "?" + urlencode({**visit.query, "rates": "1"}),
    )


async def _statistics(visit: Visit, projects: Sequence[ProjectRecord]) -> Sequence[Any]:
    """Return the statistics of 24 hours."""
    places = asyncio.Semaphore(_READS_AT_ONCE)

    async def read(project: ProjectRecord) -> Any:
        async with places:
            return await visit.call(get_project_statistics, project.identity.name, window="24h")

    try:
        async with asyncio.timeout(_STATISTICS_SECONDS):
            return await asyncio.gather(*map(read, projects))
    except TimeoutError:
        raise unavailable("the operator did not answer in time, so the success rates are missing") from None


def _summary(visit: Visit, project: ProjectRecord) -> dict[str, Any]:
    endpoints = visit.services.view.endpoints.find("project", (visit.organization, project.identity.name))
    counts = [record.endpoint.status.deliveries for record in endpoints]
    return {
        "project": project,
        "endpoints": len(endpoints),
        "attention": sum(record.status in ("failing", "error") for record in endpoints),
        "pending": sum(count.pending for count in counts if count is not None),
    }


@page("/new-project", permission=ADMINISTER)
async def show_new_project(visit: Visit) -> Response:
    """Show the form for a project."""
    return visit.render("new_project.html", fields=fields_of(ProjectRequest))


@action("/new-project", uses=(create_project,), again=show_new_project)
async def make_project(visit: Visit) -> Response:
    """Create a project."""
    project = read_request(ProjectRequest, visit.form)
    await visit.call(create_project, project)
    return visit.see(console_path("projects", project.name), notice="project-created")

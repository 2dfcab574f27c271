"""The first page with the projects of the organization; the page of one project, its creation and its deletion."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import Response

from hookwright_api.console.charts import success_line
from hookwright_api.console.form_fields import fields_of, read_request
from hookwright_api.console.navigation import HOME, console_path
from hookwright_api.console.page_route import action, page
from hookwright_api.console.visit import Visit, attempt
from hookwright_api.console.webhook_form import event_groups
from hookwright_api.console.words import ENDPOINT_STATUSES
from hookwright_api.routes.event_types import list_event_types
from hookwright_api.routes.operator_routes import get_project_statistics
from hookwright_api.routes.projects import create_project, delete_project, get_project, list_projects, missing_grant
from hookwright_api.routes.webhooks import list_webhooks
from hookwright_api.view.table import page_after
from hookwright_api.view.table_records import EndpointRecord, ProjectRecord
from hookwright_crds.documents.project_bodies import ProjectRequest
from hookwright_crds.permissions import ADMINISTER
from hookwright_runtime.problems import FieldFault, invalid, unavailable

_PROJECTS: Final = 25
_ENDPOINTS: Final = 50
"""Most projects and endpoints on one page."""
_ATTENTION: Final = frozenset({"failing", "error"})
"""The statuses of endpoints that somebody must look at."""
_STATISTICS_SECONDS: Final = 5.0
"""Time limit for all statistics of a page, so that a slow operator does not delay the rest of it."""
_READS_AT_ONCE: Final = 4
"""Statistics that a page reads at once. The operator refuses more than 16 reads of one organization."""


@page("/", uses=(list_projects, get_project_statistics))
async def show_organization(visit: Visit) -> Response:
    """Show the projects, 25 on a page. The page then asks for itself again with the rates, which take longer."""
    every = visit.services.view.projects.find("organization", visit.organization)
    projects, following = page_after(every, visit.query.get("cursor"), _PROJECTS)
    with_rates = "rates" in visit.query
    grant = await missing_grant(visit.services, "create", visit.organization) if visit.may(ADMINISTER) else ""
    statistics, problem = await attempt(_statistics(visit, projects)) if with_rates else (None, None)
    return visit.render(
        "organization.html",
        summaries=[
            {**_summary(visit, project), "rates": rates}
            for project, rates in zip(projects, statistics or [None] * len(projects), strict=True)
        ],
        total=len(every),
        following=following,
        grant=grant,
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
    return {
        "project": project,
        "endpoints": len(endpoints),
        "attention": sum(record.status in _ATTENTION for record in endpoints),
        "pending": _pending(endpoints),
    }


def _pending(endpoints: Iterable[EndpointRecord]) -> int:
    counts = [record.endpoint.status.deliveries for record in endpoints]
    return sum(count.pending for count in counts if count is not None)


@page("/new-project", permission=ADMINISTER)
async def show_new_project(visit: Visit) -> Response:
    """Show the form for a project, or the command that allows it."""
    grant = await missing_grant(visit.services, "create", visit.organization)
    return visit.render("new_project.html", fields=fields_of(ProjectRequest), grant=grant)


@action("/new-project", uses=(create_project,), again=show_new_project)
async def make_project(visit: Visit) -> Response:
    """Create a project."""
    project = read_request(ProjectRequest, visit.form)
    await visit.call(create_project, project)
    return visit.see(console_path("projects", project.name, "start"), notice="project-created")


@page("/projects/{project}", uses=(list_webhooks,))
async def show_project(visit: Visit) -> Response:
    """Show the endpoints of a project, 50 on a page; search is for a part of the URL, id, description or event."""
    text, status = visit.query.get("q", "").strip(), visit.query.get("status", "")
    every = visit.endpoints
    counts = dict.fromkeys(ENDPOINT_STATUSES, 0)
    for record in every:
        counts[record.status] += 1
    states = _ATTENTION if status == "attention" else {status} if status else counts.keys()
    matches = [record for record in every if record.status in states and text.lower() in record.searchable]
    endpoints, following = page_after(matches, visit.query.get("cursor"), _ENDPOINTS)
    return visit.render(
        "project.html",
        endpoints=endpoints,
        total=len(every),
        found=len(matches),
        counts={name: count for name, count in counts.items() if count},
        attention=sum(counts[name] for name in _ATTENTION),
        wanted=text,
        chosen=status,
        following=following,
        is_first=not visit.query.get("cursor"),
    )


@page("/projects/{project}/event-types", uses=(list_event_types,))
async def show_event_types(visit: Visit) -> Response:
    """Show each event type with its meaning, an example and the schema of its payload."""
    event_types = visit.event_types
    return visit.render("event_types.html", event_types=event_types, groups=event_groups(event_types))


@page("/projects/{project}/delete", permission=ADMINISTER, uses=(get_project,))
async def ask_project_deletion(visit: Visit) -> Response:
    """Show what the deletion of a project discards, or the command that allows it."""
    project = await visit.call(get_project, visit.project.identity.name)
    return visit.render(
        "delete_project.html",
        endpoints=project["webhooks"],
        keys=project["keys"],
        pending=_pending(visit.endpoints),
        grant=await missing_grant(visit.services, "delete", visit.organization),
    )


@action("/projects/{project}/delete", uses=(delete_project, get_project), again=ask_project_deletion)
async def remove_project(visit: Visit) -> Response:
    """Delete a project after its name was typed."""
    name = visit.project.identity.name
    if visit.form.text("confirmation") != name:
        raise invalid(FieldFault("confirmation", f"type the name of the project, {name}"))
    await visit.call(delete_project, name, force=True)
    return visit.see(HOME, notice="project-deleted")

"""The page of a project: its endpoints, searchable; and its deletion."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from hookwright_api.console.lookup import project_of
from hookwright_api.console.navigation import HOME
from hookwright_api.console.operations import call
from hookwright_api.console.page_route import ConsoleRoutes
from hookwright_api.console.templating import render, see
from hookwright_api.console.visits import form_of
from hookwright_api.console.words import ENDPOINT_STATUSES
from hookwright_api.http.guarded_route import caller_of
from hookwright_api.routes.projects import delete_project, get_project
from hookwright_api.routes.webhooks import list_webhooks
from hookwright_api.services import services_of
from hookwright_api.view.table import page_after
from hookwright_crds.permissions import ADMINISTER
from hookwright_runtime.problems import FieldFault, ProblemError, invalid

console = ConsoleRoutes()

_PAGE: Final = 50
_ATTENTION: Final = frozenset({"failing", "error"})
"""The states of endpoints that somebody must look at."""


@console.page("/projects/{project}", uses=(list_webhooks,))
async def show_project(request: Request) -> Response:
    """Show the endpoints of a project, 50 on a page; search is for a part of the URL, id, description or event."""
    project = project_of(request)
    wanted = request.query_params.get("q", "").strip().lower()
    status = request.query_params.get("status", "")
    every = services_of(request).view.endpoints.find(
        "project", (caller_of(request).organization, project.identity.name)
    )
    counts = dict.fromkeys(ENDPOINT_STATUSES, 0)
    for one in every:
        counts[one.status] += 1
    states = _ATTENTION if status == "attention" else {status} if status else counts.keys()
    found = [one for one in every if one.status in states and wanted in one.searchable]
    shown, following = page_after(found, request.query_params.get("cursor"), _PAGE)
    return render(
        request,
        "project.html",
        project=project,
        endpoints=shown,
        total=len(every),
        found=len(found),
        counts={name: count for name, count in counts.items() if count},
        attention=sum(counts[name] for name in _ATTENTION),
        wanted=request.query_params.get("q", "").strip(),
        chosen=status,
        following=following,
        is_first=not request.query_params.get("cursor"),
    )


@console.page("/projects/{project}/delete", permission=ADMINISTER, uses=(get_project,))
async def ask_project_deletion(request: Request) -> Response:
    """Show what the deletion of a project discards."""
    return await _deletion(request)


async def _deletion(request: Request, problem: ProblemError | None = None) -> Response:
    project = project_of(request)
    where = (caller_of(request).organization, project.identity.name)
    view = services_of(request).view
    endpoints, keys = view.endpoints.find("project", where), view.keys.find("project", where)
    counts = [one.endpoint.status.deliveries for one in endpoints]
    return render(
        request,
        "delete_project.html",
        problem.status if problem else 200,
        project=project,
        endpoints=len(endpoints),
        keys=len(keys),
        pending=sum(one.pending for one in counts if one is not None),
        problem=problem,
    )


@console.action("/projects/{project}/delete", uses=(delete_project,))
async def remove_project(request: Request) -> Response:
    """Delete a project after its name was typed."""
    project = project_of(request)
    try:
        if form_of(request).text("confirmation") != project.identity.name:
            raise invalid(FieldFault("confirmation", f"type the name of the project, {project.identity.name}"))
        await call(request, delete_project, project.identity.name, force=True)
    except ProblemError as problem:
        return await _deletion(request, problem)
    return see(request, HOME, notice="project-deleted")

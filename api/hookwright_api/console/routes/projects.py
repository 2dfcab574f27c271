"""The page of a project: its endpoints, searchable; and its deletion."""

from typing import Final

from starlette.responses import Response

from hookwright_api.console.navigation import HOME
from hookwright_api.console.page_route import action, page
from hookwright_api.console.visit import Visit
from hookwright_api.console.words import ENDPOINT_STATUSES
from hookwright_api.routes.projects import delete_project, get_project
from hookwright_api.routes.webhooks import list_webhooks
from hookwright_api.view.table import page_after
from hookwright_crds.permissions import ADMINISTER
from hookwright_runtime.problems import FieldFault, invalid

_PAGE: Final = 50
_ATTENTION: Final = frozenset({"failing", "error"})
"""The states of endpoints that somebody must look at."""


@page("/projects/{project}", uses=(list_webhooks,))
async def show_project(visit: Visit) -> Response:
    """Show the endpoints of a project, 50 on a page; search is for a part of the URL, id, description or event."""
    text, status = visit.query.get("q", "").strip(), visit.query.get("status", "")
    every = visit.services.view.endpoints.find("project", visit.project_key)
    counts = dict.fromkeys(ENDPOINT_STATUSES, 0)
    for record in every:
        counts[record.status] += 1
    states = _ATTENTION if status == "attention" else {status} if status else counts.keys()
    matches = [record for record in every if record.status in states and text.lower() in record.searchable]
    endpoints, following = page_after(matches, visit.query.get("cursor"), _PAGE)
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


@page("/projects/{project}/delete", permission=ADMINISTER, uses=(get_project,))
async def ask_project_deletion(visit: Visit) -> Response:
    """Show what the deletion of a project discards."""
    project = await visit.call(get_project, visit.project.identity.name)
    records = visit.services.view.endpoints.find("project", visit.project_key)
    counts = [record.endpoint.status.deliveries for record in records]
    pending = sum(count.pending for count in counts if count is not None)
    return visit.render("delete_project.html", endpoints=project["webhooks"], keys=project["keys"], pending=pending)


@action("/projects/{project}/delete", uses=(delete_project, get_project), again=ask_project_deletion)
async def remove_project(visit: Visit) -> Response:
    """Delete a project after its name was typed."""
    name = visit.project.identity.name
    if visit.form.text("confirmation") != name:
        raise invalid(FieldFault("confirmation", f"type the name of the project, {name}"))
    await visit.call(delete_project, name, force=True)
    return visit.see(HOME, notice="project-deleted")

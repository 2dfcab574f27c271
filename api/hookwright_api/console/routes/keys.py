"""The API keys of a project: listed, created, revoked."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from secrets import token_hex
from typing import Any, Final

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from hookwright_api.console.form_fields import Form, faults_of, schemas_of
from hookwright_api.console.lookup import project_of
from hookwright_api.console.navigation import console_path
from hookwright_api.console.operations import call
from hookwright_api.console.page_route import ConsoleRoutes
from hookwright_api.console.templating import render, see
from hookwright_api.console.visits import form_of
from hookwright_api.http.guarded_route import caller_of
from hookwright_api.routes.keys import create_key, delete_key, list_keys
from hookwright_api.services import services_of
from hookwright_api.view.table_records import KeyRecord
from hookwright_crds.documents.key_bodies import KeyRequest
from hookwright_crds.keys import KeyScope
from hookwright_crds.permissions import ADMINISTER
from hookwright_runtime.problems import FieldFault, ProblemError, invalid, not_found
from hookwright_runtime.validation import from_validation

console = ConsoleRoutes()

SCOPES: Final = {
    KeyScope.SEND: "Send events and tests",
    KeyScope.READ: "Read endpoints, deliveries and statistics",
    KeyScope.MANAGE: "Create, change and delete endpoints; send deliveries again",
    KeyScope.PULL: "Take and acknowledge messages",
}
"""The rights of a key in words."""
LIFETIMES: Final = {"": "Never", "30": "In 30 days", "90": "In 90 days", "365": "In a year"}
"""The offered times of expiry, in days."""


@console.page("/projects/{project}/keys", uses=(list_keys,))
async def show_keys(request: Request) -> Response:
    """List the keys of a project; never a key itself."""
    project = project_of(request)
    listed = await call(request, list_keys, project.identity.name)
    return render(request, "keys.html", project=project, keys=listed["data"], now=services_of(request).now())


@console.page("/projects/{project}/new-key", permission=ADMINISTER)
async def show_new_key(request: Request) -> Response:
    """Show the form for a key."""
    return _form(request, Form({"scopes": [*KeyScope]}))


def _form(request: Request, form: Form, problem: ProblemError | None = None) -> Response:
    return render(
        request,
        "new_key.html",
        problem.status if problem else 200,
        project=project_of(request),
        form=form,
        scopes=SCOPES,
        lifetimes=LIFETIMES,
        schemas=schemas_of(KeyRequest),
        request_key=form.text("request_key") or token_hex(16),
        problem=problem,
        faults=faults_of(problem) if problem else {},
    )


@console.action("/projects/{project}/new-key", uses=(create_key,))
async def make_key(request: Request) -> Response:
    """Create a key, and show it once."""
    project, form = project_of(request), form_of(request)
    try:
        body = KeyRequest.model_validate(_document(form, services_of(request).now()))
        request_key = form.text("request_key") or None
        made: Mapping[str, Any] = await call(
            request, create_key, project.identity.name, body, idempotency_key=request_key
        )
    except ValidationError as error:
        return _form(request, form, from_validation(error.errors(include_url=False, include_input=False)))
    except ProblemError as problem:
        return _form(request, form, problem)
    return render(request, "made_key.html", 201, project=project, made=made, scopes=SCOPES)


def _document(form: Form, now: datetime) -> dict[str, Any]:
    written: dict[str, Any] = {"name": form.text("name"), "scopes": form.all("scopes")}
    days = form.text("lifetime")
    if days not in LIFETIMES:
        raise invalid(FieldFault("lifetime", "choose one of the offered times"))
    if days:
        # The end of that day, because a form that is sent twice must ask for the same key.
        last_day = now.astimezone(UTC) + timedelta(days=int(days))
        written["expires_at"] = last_day.replace(hour=23, minute=59, second=59, microsecond=0)
    return written


@console.page("/projects/{project}/keys/{key}/revoke", permission=ADMINISTER)
async def ask_revocation(request: Request) -> Response:
    """Show which key is revoked, and when it was used last."""
    return render(request, "revoke_key.html", project=project_of(request), key=_key_of(request), scopes=SCOPES)


def _key_of(request: Request) -> KeyRecord:
    found = services_of(request).view.keys.get(caller_of(request).organization, request.path_params["key"])
    if found is None or found.project != project_of(request).identity.name:
        raise not_found("the key")
    return found


@console.action("/projects/{project}/keys/{key}/revoke", uses=(delete_key,))
async def revoke_key(request: Request) -> Response:
    """Revoke a key."""
    project = project_of(request).identity.name
    await call(request, delete_key, project, request.path_params["key"])
    return see(request, console_path("projects", project, "keys"), notice="key-revoked")

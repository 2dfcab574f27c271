"""The pages of one endpoint: its state, its configuration, its signing secret, and what changes it."""

from collections.abc import Mapping
from secrets import token_hex
from typing import Any

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from hookwright_api.console.form_fields import faults_of
from hookwright_api.console.lookup import endpoint_of
from hookwright_api.console.navigation import console_path, endpoint_path
from hookwright_api.console.operations import attempt, call
from hookwright_api.console.ownership import ownership_of
from hookwright_api.console.page_route import ConsoleRoutes
from hookwright_api.console.templating import render, see
from hookwright_api.console.visits import form_of
from hookwright_api.rendering import own_labels
from hookwright_api.routes.webhooks import delete_webhook, get_secret, get_webhook, rotate_secret, update_webhook
from hookwright_crds.documents.webhook_bodies import RotationRequest, WebhookPatch
from hookwright_crds.permissions import EDIT, MANAGE
from hookwright_runtime.problems import ProblemError
from hookwright_runtime.validation import from_validation

console = ConsoleRoutes()

_ENDPOINT = "/projects/{project}/endpoints/{endpoint}"


async def _page(request: Request, template: str, problem: ProblemError | None = None, **context: Any) -> Response:
    """Return a page of the endpoint; with a problem, its message is at the top."""
    project, endpoint = endpoint_of(request)
    return render(
        request,
        template,
        problem.status if problem else 200,
        project=project,
        endpoint=endpoint,
        problem=problem,
        faults=faults_of(problem) if problem else {},
        owner=await ownership_of(request, endpoint),
        request_key=token_hex(16),
        **context,
    )


@console.page(_ENDPOINT, uses=(get_webhook,))
async def show_endpoint(request: Request) -> Response:
    """Show the state of an endpoint in words, and its counts."""
    return await _page(request, "endpoint.html")


@console.page(_ENDPOINT + "/configuration", uses=(get_webhook,))
async def show_configuration(request: Request) -> Response:
    """Show how deliveries are made."""
    _, endpoint = endpoint_of(request)
    return await _page(request, "configuration.html", labels=own_labels(endpoint.endpoint.metadata.labels))


@console.action(_ENDPOINT + "/suspend", uses=(update_webhook,))
async def suspend(request: Request) -> Response:
    """Suspend deliveries."""
    return await _enable(request, enabled=False, notice="endpoint-suspended")


@console.action(_ENDPOINT + "/resume", uses=(update_webhook,))
async def resume(request: Request) -> Response:
    """Resume deliveries."""
    return await _enable(request, enabled=True, notice="endpoint-resumed")


async def _enable(request: Request, *, enabled: bool, notice: str) -> Response:
    project, endpoint = endpoint_of(request)
    name = endpoint.identity.name
    await call(request, update_webhook, name, WebhookPatch(enabled=enabled), project=project.identity.name)
    return see(request, endpoint_path(project.identity.name, name), notice=notice)


@console.page(_ENDPOINT + "/delete", permission=MANAGE)
async def ask_deletion(request: Request) -> Response:
    """Show what the deletion discards."""
    return await _page(request, "delete_endpoint.html")


@console.action(_ENDPOINT + "/delete", uses=(delete_webhook,))
async def remove_endpoint(request: Request) -> Response:
    """Delete an endpoint."""
    project, endpoint = endpoint_of(request)
    try:
        await call(request, delete_webhook, endpoint.identity.name, project=project.identity.name)
    except ProblemError as problem:
        if problem.status != 409:
            raise
        return await _page(request, "delete_endpoint.html", problem)
    return see(request, console_path("projects", project.identity.name), notice="endpoint-deleted")


@console.page(_ENDPOINT + "/secret", permission=EDIT)
async def show_secret_page(request: Request) -> Response:
    """Show how the secret is made and rotated; the secret itself is read by `reveal_secret`."""
    return await _page(request, "secret.html", made=None, rotated=False)


@console.action(_ENDPOINT + "/secret/reveal", uses=(get_secret,))
async def reveal_secret(request: Request) -> Response:
    """Show the secret; the audit log has a line for it."""
    project, endpoint = endpoint_of(request)
    made, problem = await attempt(call(request, get_secret, endpoint.identity.name, project=project.identity.name))
    return await _page(request, "secret.html", problem, made=made, rotated=False)


@console.action(_ENDPOINT + "/secret/rotate", uses=(rotate_secret,))
async def make_secret(request: Request) -> Response:
    """Rotate the secret, and show the new one."""
    project, endpoint = endpoint_of(request)
    form = form_of(request)
    made: Mapping[str, Any] | None = None
    problem = None
    try:
        body = RotationRequest.model_validate({"overlap": form.text("overlap")} if form.text("overlap") else {})
        made = await call(
            request,
            rotate_secret,
            endpoint.identity.name,
            body=body,
            project=project.identity.name,
            idempotency_key=form.text("request_key") or None,
        )
    except ValidationError as error:
        problem = from_validation(error.errors(include_url=False, include_input=False))
    except ProblemError as refused:
        problem = refused
    return await _page(request, "secret.html", problem, made=made, rotated=made is not None)

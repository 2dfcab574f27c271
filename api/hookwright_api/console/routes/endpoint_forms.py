"""The forms that create and change an endpoint."""

from collections.abc import Callable
from secrets import token_hex
from typing import Any, Final, TypeVar

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from hookwright_api.console.endpoint_document import document_in, empty_form, form_of_endpoint, patch_in
from hookwright_api.console.form_fields import Form, faults_of, schemas_of
from hookwright_api.console.lookup import endpoint_of, project_of
from hookwright_api.console.navigation import endpoint_path
from hookwright_api.console.operations import call
from hookwright_api.console.ownership import ownership_of
from hookwright_api.console.page_route import ConsoleRoutes
from hookwright_api.console.templating import render, see
from hookwright_api.console.visits import form_of
from hookwright_api.rendering import own_labels
from hookwright_api.routes.webhooks import create_webhook, update_webhook
from hookwright_api.webhook_operations.webhook_document import etag_of
from hookwright_crds.documents.webhook_bodies import WebhookPatch, WebhookRequest
from hookwright_crds.endpoint_fields import LEASE_BOUNDS, TIMEOUT_BOUNDS, RateLimit
from hookwright_crds.events import CATALOGUE, CHANNEL_WILDCARDS, EVERY_TYPE, Channel
from hookwright_crds.permissions import MANAGE
from hookwright_runtime.problems import Code, ProblemError
from hookwright_runtime.validation import from_validation

console = ConsoleRoutes()

T = TypeVar("T")

CHANNELS: Final = {Channel.EMAIL: "email", Channel.WHATSAPP: "WhatsApp", Channel.SMS: "SMS"}
"""The channels in words."""
WILDCARDS: Final = {
    EVERY_TYPE: "Every event",
    **{wildcard: f"Every {CHANNELS[channel]} event" for wildcard, channel in CHANNEL_WILDCARDS.items()},
}
"""The wildcards in words."""


def _validated(make: Callable[[Any], T], document: dict[str, Any]) -> T:
    try:
        return make(document)
    except ValidationError as error:
        raise from_validation(error.errors(include_url=False, include_input=False)) from None


def _form(request: Request, template: str, form: Form, problem: ProblemError | None = None, **more: Any) -> Response:
    faults = faults_of(problem) if problem else {}
    for field, shown in (("rate_limit", "per_minute"), ("pull", "lease")):
        if field in faults:
            faults[shown] = faults.pop(field)
    return render(
        request,
        template,
        problem.status if problem else 200,
        project=project_of(request),
        form=form,
        catalogue=CATALOGUE,
        channels=CHANNELS,
        wildcards=WILDCARDS,
        schemas={**schemas_of(RateLimit), **schemas_of(WebhookRequest)},
        timeout_bounds=TIMEOUT_BOUNDS,
        lease_bounds=LEASE_BOUNDS,
        problem=problem,
        faults=faults,
        **more,
    )


@console.page("/projects/{project}/new-endpoint", permission=MANAGE)
async def show_new_endpoint(request: Request) -> Response:
    """Show the form for an endpoint."""
    return _form(request, "new_endpoint.html", empty_form(), request_key=token_hex(16), header_names=())


@console.action("/projects/{project}/new-endpoint", uses=(create_webhook,))
async def make_endpoint(request: Request) -> Response:
    """Create an endpoint, and show its signing secret."""
    project, form = project_of(request), form_of(request)
    request_key = form.text("request_key") or token_hex(16)
    try:
        body = _validated(WebhookRequest.model_validate, document_in(form))
        made = await call(request, create_webhook, body, project=project.identity.name, idempotency_key=request_key)
    except ProblemError as problem:
        if problem.code is Code.IDEMPOTENCY_KEY_REUSED:
            problem = ProblemError(
                409,
                "your first request created the endpoint, with other fields; it is in the list of endpoints, where you "
                "can change it",
            )
        elif problem.status != 503:
            # A corrected form is another request. After a 503, the same form repeats the request.
            request_key = token_hex(16)
        return _form(request, "new_endpoint.html", form, problem, request_key=request_key, header_names=())
    return render(request, "made_endpoint.html", 201, project=project, made=made)


@console.page("/projects/{project}/endpoints/{endpoint}/edit", permission=MANAGE)
async def show_edit(request: Request) -> Response:
    """Show the form with the present fields."""
    _, endpoint = endpoint_of(request)
    labels = own_labels(endpoint.endpoint.metadata.labels)
    return await _edit(request, form_of_endpoint(endpoint.endpoint, labels), etag_of(endpoint.endpoint.metadata))


async def _edit(request: Request, form: Form, etag: str, problem: ProblemError | None = None) -> Response:
    _, endpoint = endpoint_of(request)
    return _form(
        request,
        "edit_endpoint.html",
        form,
        problem,
        endpoint=endpoint,
        header_names=sorted(endpoint.endpoint.spec.headers),
        etag=etag,
        owner=await ownership_of(request, endpoint),
    )


@console.action("/projects/{project}/endpoints/{endpoint}/edit", uses=(update_webhook,))
async def change_endpoint(request: Request) -> Response:
    """Change an endpoint, unless it changed since the form was shown."""
    project, endpoint = endpoint_of(request)
    form, name = form_of(request), endpoint.identity.name
    try:
        fields = patch_in(form, own_labels(endpoint.endpoint.metadata.labels))
        patch = _validated(WebhookPatch.model_validate, fields)
        await call(
            request, update_webhook, name, patch, project=project.identity.name, if_match=form.text("etag") or None
        )
    except ProblemError as problem:
        return await _edit(request, form, form.text("etag"), problem)
    return see(request, endpoint_path(project.identity.name, name, "configuration"), notice="endpoint-changed")

"""Webhook endpoints of a project: registered, listed, deleted."""

from typing import Annotated

from fastapi import APIRouter, Body, Header, Query, Request, Response

from hookwright_api.http.guarded_route import (
    MERGE_PATCH,
    GuardedRoute,
    OptionalBodyRoute,
    PatchRoute,
    audit,
    caller_of,
    needs,
)
from hookwright_api.http.openapi import sends
from hookwright_api.http.responses import answer, list_answer
from hookwright_api.idempotency import bound_key
from hookwright_api.rendering import endpoint_detail, endpoint_summary
from hookwright_api.routes.keys import IdempotencyKey
from hookwright_api.routes.scoping import ProjectQuery, endpoint_named, one_project, optional_project
from hookwright_api.services import services_of
from hookwright_api.view.table import page_after
from hookwright_api.webhook_operations.webhook_changes import change, check_expiry, check_url_scheme, delete
from hookwright_api.webhook_operations.webhook_creation import WebhookCreation, create, register
from hookwright_api.webhook_operations.webhook_document import etag_of
from hookwright_api.webhook_operations.webhook_rotation import rotate
from hookwright_crds.documents.delivery_bodies import Limit
from hookwright_crds.documents.webhook_bodies import (
    NewWebhookAnswer,
    RotationRequest,
    SecretAnswer,
    SigningSecret,
    Status,
    WebhookDetailAnswer,
    WebhookPatch,
    WebhookRequest,
    WebhooksAnswer,
)
from hookwright_crds.permissions import EDIT, MANAGE, READ

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"], route_class=GuardedRoute)
changes = APIRouter(prefix="/v1/webhooks", tags=["webhooks"], route_class=PatchRoute)
rotations = APIRouter(prefix="/v1/webhooks", tags=["webhooks"], route_class=OptionalBodyRoute)

IfMatch = Annotated[
    str | None,
    Header(description="The ETag of an earlier answer; 412 if a field or label of the webhook has changed since."),
]


@router.post(
    "",
    status_code=201,
    response_model=NewWebhookAnswer,
    operation_id="createWebhook",
    responses={201: sends("ETag", "Location")},
)
@needs(MANAGE)
async def create_webhook(
    request: Request, body: WebhookRequest, project: ProjectQuery = None, idempotency_key: IdempotencyKey = None
) -> Response:
    """Register an endpoint; the answer has the secret that signs deliveries.

    A repetition by the same credential with the same Idempotency-Key gets the answer of the first request, or 409 if
    the secret was replaced since. 503 means that the endpoint is not ready in time. With an Idempotency-Key it remains,
    and a repetition returns it; otherwise it is deleted.
    """
    services, caller = services_of(request), caller_of(request)
    name = one_project(request, project)
    check_url_scheme(services, body.url)
    check_expiry(services, body.expires_at)
    creation = WebhookCreation(caller.organization, name, body)
    result = await create(services, creation, bound_key(idempotency_key, caller.credential_uid), creator=caller.actor)
    its_id = result.record.identity.name
    if result.is_new:
        audit(request, "webhook.create", target=its_id, project=name)
    registration = await register(services, result)
    if not result.is_new:
        audit(request, "secret.read", target=its_id, project=name)
    document = {**endpoint_summary(registration.record.endpoint), "secret": registration.secret}
    return answer(document, 201, Location=f"/v1/webhooks/{its_id}", ETag=etag_of(registration.record.endpoint.metadata))


@router.get("", response_model=WebhooksAnswer, operation_id="listWebhooks")
@needs(READ)
async def list_webhooks(
    request: Request,
    *,
    status: Annotated[Status | None, Query(description="Only endpoints with this status.")] = None,
    limit: Annotated[Limit | None, Query(description="Endpoints on one page; without it the page has all.")] = None,
    cursor: Annotated[str | None, Query(max_length=512, description="The `next` of the previous page.")] = None,
    project: ProjectQuery = None,
) -> Response:
    """List the endpoints of a project, including those declared in YAML, oldest first.

    Pages are stable: an endpoint that is made between two requests is on the last page.
    """
    name = one_project(request, project)
    endpoints = services_of(request).view.endpoints.find("project", (caller_of(request).organization, name))
    if status is not None:
        endpoints = [endpoint for endpoint in endpoints if endpoint.status == status]
    page, following = page_after(endpoints, cursor, limit)
    return list_answer([endpoint.rendered for endpoint in page], following)


@router.get("/{id}", response_model=WebhookDetailAnswer, operation_id="getWebhook", responses={200: sends("ETag")})
@needs(READ)
async def get_webhook(request: Request, id: str, project: ProjectQuery = None) -> Response:  # noqa: A002
    """Show an endpoint with its conditions and delivery counts."""
    record = endpoint_named(request, id, one_project(request, project))
    return answer(endpoint_detail(record.endpoint), ETag=etag_of(record.endpoint.metadata))


@changes.patch(
    "/{id}",
    response_model=WebhookDetailAnswer,
    operation_id="updateWebhook",
    responses={200: sends("ETag")},
    openapi_extra={
        "requestBody": {"content": {MERGE_PATCH: {"schema": {"$ref": "#/components/schemas/WebhookPatch"}}}}
    },
)
@needs(MANAGE)
async def update_webhook(
    request: Request,
    id: str,  # noqa: A002
    body: WebhookPatch,
    project: ProjectQuery = None,
    if_match: IfMatch = None,
) -> Response:
    """Change an endpoint by a JSON merge patch (RFC 7396), and return its new state.

    Only the named fields change. null resets a field to its default. An endpoint that is declared in YAML is a 409 that
    names the owner of its fields.
    """
    name = one_project(request, project)
    record = endpoint_named(request, id, name)
    result = await change(services_of(request), record.identity, body, if_match)
    audit(request, "webhook.update", target=id, project=name)
    return answer(endpoint_detail(result.endpoint), ETag=etag_of(result.endpoint.metadata))


@rotations.post("/{id}/rotate-secret", response_model=SecretAnswer, operation_id="rotateWebhookSecret")
@needs(MANAGE)
async def rotate_secret(
    request: Request,
    id: str,  # noqa: A002
    *,
    # Not `RotationRequest | None`: generated clients cannot send a body that may be null.
    body: Annotated[RotationRequest, Body(default_factory=RotationRequest)],
    project: ProjectQuery = None,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Make a new signing secret; the replaced one also signs until `previous_signs_until`.

    Each request rotates the secret, unless it repeats an Idempotency-Key. 503 says whether the rotation was requested.
    """
    name = one_project(request, project)
    identity = endpoint_named(request, id, name).identity
    bound = bound_key(idempotency_key, caller_of(request).credential_uid)
    secret, is_new = await rotate(services_of(request), identity, body.overlap, bound)
    audit(request, "secret.rotate" if is_new else "secret.read", target=id, project=name)
    return _secret_answer(id, secret)


@router.get("/{id}/secret", response_model=SecretAnswer, operation_id="getWebhookSecret")
@needs(EDIT)
async def get_secret(request: Request, id: str, project: ProjectQuery = None) -> Response:  # noqa: A002
    """Show the signing secret of an endpoint to a user; the audit log has a line for each read."""
    record = endpoint_named(request, id, optional_project(request, project))
    secret = await services_of(request).operator.secret(record.identity.namespace, record.identity.name)
    audit(request, "secret.read", target=id, project=record.project)
    return _secret_answer(id, secret)


def _secret_answer(name: str, secret: SigningSecret) -> Response:
    document = {"id": name, "secret": secret.secret, "previous_signs_until": secret.previous_signs_until}
    return answer(document)


@router.delete("/{id}", status_code=204, operation_id="deleteWebhook")
@needs(MANAGE)
async def delete_webhook(request: Request, id: str, project: ProjectQuery = None) -> Response:  # noqa: A002
    """Delete an endpoint; its pending deliveries are discarded.

    An endpoint that is declared in YAML is a 409 that names the owner of its fields.
    """
    services = services_of(request)
    name = one_project(request, project)
    record = endpoint_named(request, id, name)
    resource = await delete(services, record.identity)
    if resource.get("kind") == "WebhookEndpoint":
        services.view.endpoints.put(resource)
    else:
        services.view.endpoints.forget(record)
    audit(request, "webhook.delete", target=id, project=name)
    return Response(status_code=204)

"""Webhook endpoints of a project: registered, listed, tested, deleted."""

from typing import Any

from fastapi import APIRouter, Request, Response

from hookwright_api.http.guarded_route import KeyOrSessionRoute, KeyRoute, caller_of
from hookwright_api.http.responses import answer, from_kube, from_operator, list_answer
from hookwright_api.idempotency import bound_key
from hookwright_api.operator_client import OperatorError
from hookwright_api.rendering import endpoint_detail, endpoint_summary
from hookwright_api.routes.keys import IdempotencyKey
from hookwright_api.routes.scoping import ProjectQuery, endpoint_named, one_project
from hookwright_api.schemas import NewWebhookAnswer, TestAnswer, WebhookDetailAnswer, WebhookRequest, WebhooksAnswer
from hookwright_api.services import services_of
from hookwright_api.view.view import object_path
from hookwright_api.webhook_creation import WebhookCreation, register
from hookwright_runtime.endpoint_tests import TooManyTestsError
from hookwright_runtime.errors import KubeError
from hookwright_runtime.problems import FieldFault, invalid, too_many

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"], route_class=KeyOrSessionRoute)
tests = APIRouter(prefix="/v1/webhooks", tags=["webhooks"], route_class=KeyRoute)


@router.post("", status_code=201, response_model=NewWebhookAnswer, operation_id="createWebhook")
async def create_webhook(
    request: Request, body: WebhookRequest, project: ProjectQuery = None, idempotency_key: IdempotencyKey = None
) -> Response:
    """Register an endpoint; the answer has the secret that signs deliveries.

    A repetition by the same credential with the same Idempotency-Key gets the answer of the first request. 503 means
    that the operator is unavailable, and that no endpoint was created.
    """
    services, caller = services_of(request), caller_of(request)
    name = one_project(request, project)
    if body.url[:5].lower() == "http:" and not services.settings.allow_http:
        raise invalid(FieldFault("url", "must be an https URL, such as https://example.com/hooks"))
    wanted = WebhookCreation(caller.organization, name, body.url, tuple(body.events))
    record, secret = await register(services, wanted, bound_key(idempotency_key, caller.credential_uid))
    document = {**endpoint_summary(record.endpoint), "secret": secret}
    return answer(document, 201, Location=f"/v1/webhooks/{record.identity.name}")


@router.get("", response_model=WebhooksAnswer, operation_id="listWebhooks")
async def list_webhooks(request: Request, project: ProjectQuery = None) -> Response:
    """List all endpoints of a project, including those declared in YAML, oldest first."""
    name = one_project(request, project)
    found = services_of(request).view.endpoints.find("project", (caller_of(request).organization, name))
    return list_answer([endpoint.rendered for endpoint in found])


@router.get("/{id}", response_model=WebhookDetailAnswer, operation_id="getWebhook")
async def get_webhook(request: Request, id: str, project: ProjectQuery = None) -> Response:  # noqa: A002
    """Show an endpoint with its conditions and delivery counts."""
    found = endpoint_named(request, id, one_project(request, project))
    return answer(endpoint_detail(found.endpoint))


@router.delete("/{id}", status_code=204, operation_id="deleteWebhook")
async def delete_webhook(request: Request, id: str, project: ProjectQuery = None) -> Response:  # noqa: A002
    """Delete an endpoint; its pending deliveries are discarded."""
    services = services_of(request)
    found = endpoint_named(request, id, one_project(request, project))
    identity = found.identity
    path = object_path("webhookendpoints", identity.namespace, identity.name)
    try:
        left: dict[str, Any] = await services.kube.delete(path, uid=identity.uid)
    except KubeError as error:
        if error.status != 409:
            raise from_kube(error, "the webhook") from None
        left = {}
    if left.get("kind") == "WebhookEndpoint":
        services.view.endpoints.put(left)
    else:
        services.view.endpoints.forget(found)
    return Response(status_code=204)


@tests.post("/{id}/test", response_model=TestAnswer, operation_id="testWebhook", response_model_exclude_none=True)
async def test_webhook(request: Request, id: str) -> Response:  # noqa: A002
    """Send one synthetic, signed `delivered` event now, and return the result. There is no retry.

    429 means that too many tests are in progress: 2 of one endpoint, or 16 of one organization.
    """
    found = endpoint_named(request, id, one_project(request, None))
    try:
        outcome = await services_of(request).intake.test(found.identity.namespace, found.identity.name)
    except TooManyTestsError as error:
        raise too_many(str(error)) from None
    except OperatorError as error:
        raise from_operator(error, "the webhook") from None
    return answer(outcome)

"""Webhook endpoints of a project: listed, shown, changed, deleted.

A change or a deletion reads the object, checks who owns it, and writes only the named fields.
"""

import secrets
from collections.abc import Awaitable, Callable, Container, Iterable
from contextlib import suppress
from typing import Annotated, Any, Final, TypeVar

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import ValidationError

from hookwright_api.auth.callers import ProjectQuery, caller_of, endpoint_named, one_project
from hookwright_api.http.openapi import sends
from hookwright_api.http.request_checks import MERGE_PATCH, GuardedRoute, audit, needs
from hookwright_api.http.responses import answer, from_kube, list_answer
from hookwright_api.routes.created_objects import check_expiry
from hookwright_api.services import Services, services_of
from hookwright_api.view.table import page_after
from hookwright_api.view.table_records import EndpointRecord, Identity
from hookwright_api.webhook_credentials import (
    NO_CREDENTIALS,
    CredentialPlan,
    hidden_credentials,
    plan_credentials,
    refuse_moves,
)
from hookwright_api.webhook_document import (
    check_etag,
    document_of,
    endpoint_detail,
    etag_of,
    labels_patch,
    merged,
    refuse_declared,
    spec_of,
)
from hookwright_crds.base import ObjectMeta, object_path
from hookwright_crds.documents.credential_bodies import GIVEN_FIELDS, CredentialsChange
from hookwright_crds.documents.delivery_bodies import Limit
from hookwright_crds.documents.webhook_bodies import (
    Status,
    WebhookDetailAnswer,
    WebhookPatch,
    WebhookRequest,
    WebhooksAnswer,
)
from hookwright_crds.events import SUBSCRIPTIONS, UnknownEventTypeError, is_own_type
from hookwright_crds.permissions import MANAGE, READ
from hookwright_crds.reading import read
from hookwright_crds.resources import WebhookEndpoint
from hookwright_crds.trimming import trimmed_with_labels
from hookwright_runtime.errors import KubeError
from hookwright_runtime.problems import FieldFault, ProblemError, invalid, not_found
from hookwright_runtime.validation import from_validation

Object = dict[str, Any]
T = TypeVar("T")

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"], route_class=GuardedRoute)

_ATTEMPTS: Final = 5
"""Attempts to write while the operator writes the status at the same time."""

IfMatch = Annotated[
    str | None,
    Header(description="The ETag of an earlier answer; 412 if a field or label of the webhook has changed since."),
]


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


@router.delete("/{id}", status_code=204, operation_id="deleteWebhook")
@needs(MANAGE)
async def delete_webhook(request: Request, id: str, project: ProjectQuery = None) -> Response:  # noqa: A002
    """Delete an endpoint; its pending deliveries are discarded.

    An endpoint that is declared in YAML is a 409 that names the owner of its fields.
    """
    services, name = services_of(request), one_project(request, project)
    record = endpoint_named(request, id, name)
    await delete(services, record.identity)
    services.view.endpoints.forget(record)
    audit(request, "webhook.delete", target=id, project=name)
    return Response(status_code=204)


@router.patch(
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
    identity = endpoint_named(request, id, name).identity
    record = await change(services_of(request), identity, body, if_match)
    audit(request, "webhook.update", target=id, project=name)
    return answer(endpoint_detail(record.endpoint), ETag=etag_of(record.endpoint.metadata))


async def delete(services: Services, identity: Identity) -> None:
    """Delete an object that `/v1` owns.

    Raises:
        ProblemError: as `with_live`; 409, `/v1` does not own it.
    """

    async def remove(live: Object) -> None:
        refuse_declared(live)
        # Another client may have begun to declare the object since it was read.
        meta = live["metadata"]
        await services.kube.delete(_path(identity), uid=meta["uid"], resource_version=meta["resourceVersion"])

    await with_live(services, identity, remove)


async def change(services: Services, identity: Identity, patch: WebhookPatch, if_match: str | None) -> EndpointRecord:
    """Apply a merge patch, and return the new state.

    Fields that the patch does not name stay as they are, also if another client changes them at the same time.

    Args:
        services: of the process.
        identity: of the endpoint.
        patch: the patch.
        if_match: the header of the request; the write then needs the state that was compared.

    Raises:
        ProblemError: as `with_live`; 409, `/v1` does not own it; 412, it changed; 422, the result is not valid, or
            header values would follow another target.
    """
    fields = patch.model_dump(mode="json", exclude_unset=True)
    check_url_scheme(services, fields.get("url"))
    check_expiry(services, patch.expires_at)
    # With another target, a header that is set at the same time must not follow.
    same_state = if_match is not None or not fields.keys().isdisjoint(("url", "pull", *GIVEN_FIELDS))
    plan = NO_CREDENTIALS

    async def apply(live: Object) -> EndpointRecord:
        nonlocal plan
        # The write of a status is no reason for a 412, so a new attempt compares the new state.
        check_etag(if_match, ObjectMeta.model_validate(trimmed_with_labels(live)["metadata"]))
        refuse_declared(live)
        if not fields:
            return keep(services, live)
        after = _check_result(live, fields)
        check_event_types(services, identity.namespace, fields.get("events", ()), live["spec"]["events"])
        # The write of an earlier attempt was refused, so no spec names its Secrets. Their hosts may be others.
        if plan.created:
            await _remove_secrets(services, identity, plan.created)
        plan = plan_credentials(identity.name, fields, after, live["spec"], secrets.token_hex(8))
        if plan.created:
            await change_secrets(services, identity, created=plan.created)
        patch = _kubernetes_patch(live, fields, same_state=same_state)
        patch["spec"] |= plan.spec
        return await write(services, identity, patch)

    try:
        record = await with_live(services, identity, apply)
    except ProblemError as problem:
        # Of a 5xx it is not known whether the spec names them.
        if plan.created and problem.status < 500:
            await _remove_secrets(services, identity, plan.created)
        raise
    return await _remove_replaced(services, record, plan) if plan.removed else record


async def _remove_replaced(services: Services, record: EndpointRecord, plan: CredentialPlan) -> EndpointRecord:
    """Delete Secrets that no spec names, after the operator uses the new ones; return the newest known state."""
    generation, identity = record.endpoint.metadata.generation, record.identity

    def is_reconciled(state: EndpointRecord | None) -> bool:
        return state is None or state.endpoint.status.observed_generation >= generation

    limit = services.settings.create_timeout
    with suppress(TimeoutError):
        newest = await services.view.endpoints.wait(identity.namespace, identity.name, is_reconciled, seconds=limit)
        await _remove_secrets(services, identity, plan.removed)
        return newest or record
    return record


async def _remove_secrets(services: Services, identity: Identity, names: Iterable[str]) -> None:
    # Without the operator, they stay until the endpoint is deleted; nothing uses them.
    with suppress(ProblemError):
        await change_secrets(services, identity, removed=tuple(names))


async def change_secrets(services: Services, identity: Identity, **change: Any) -> None:
    """Let the operator create and delete Secrets of an endpoint; ``change`` has the fields of `CredentialsChange`.

    Raises:
        ProblemError: 409, a name is in use, or the quota is used up; 503, the operator is unavailable.
    """
    body = CredentialsChange(uid=identity.uid, **change)
    await services.operator.change_credentials(identity.namespace, identity.name, body)


def check_url_scheme(services: Services, url: str | None) -> None:
    """Return if the installation allows the scheme of a URL.

    Raises:
        ProblemError: 422, plain http is not allowed.
    """
    if url is not None and url[:5].lower() == "http:" and not services.settings.allow_http:
        raise invalid(FieldFault("url", "must be an https URL, such as https://example.com/hooks"))


def check_event_types(
    services: Services, organization: str, events: Iterable[str], present_events: Container[str] = ()
) -> None:
    """Return if each event type of a request is known, or the endpoint has it already.

    Raises:
        ProblemError: 422 with the nearest names.
    """
    own_types = services.view.own_types(organization)
    for index, name in enumerate(events):
        if is_own_type(name) and name not in own_types and name not in present_events:
            raise invalid(FieldFault(f"events[{index}]", str(UnknownEventTypeError(name, own_types, SUBSCRIPTIONS))))


def _check_result(live: Object, fields: Object) -> Object:
    """Return the document of the endpoint with the fields of a merge patch, if it is valid."""
    endpoint, unsupported_fields = read(WebhookEndpoint, live)
    if unsupported_fields.faults:
        raise ProblemError(409, f"the webhook was written by a newer version. {unsupported_fields.sentence}")
    before = {**document_of(endpoint), **hidden_credentials(endpoint)}
    if "labels" not in fields:
        # Other clients may have set more labels than `/v1` accepts.
        del before["labels"]
    after: Object = merged(before, fields)
    try:
        WebhookRequest.model_validate(after)
    except ValidationError as error:
        raise from_validation(error.errors(include_url=False, include_input=False)) from None
    refuse_moves(before, fields)
    return after


def _kubernetes_patch(live: Object, fields: Object, *, same_state: bool) -> Object:
    """Return the merge patch of the object; with ``same_state``, the API server refuses it for another state."""
    meta = live["metadata"]
    metadata: Object = {"uid": meta["uid"]} | ({"resourceVersion": meta["resourceVersion"]} if same_state else {})
    if labels := labels_patch(fields, meta.get("labels") or {}):
        metadata["labels"] = labels
    return {"metadata": metadata, "spec": spec_of(fields)}


async def with_live(services: Services, identity: Identity, act: Callable[[Object], Awaitable[T]]) -> T:
    """Read the object, call ``act`` with it, and return its result; again if the object changed in between.

    Raises:
        ProblemError: 404, it was deleted; 409, it changes too often; otherwise as `from_kube`, or of ``act``.
    """
    for _ in range(_ATTEMPTS):
        live = await read_live(services, identity)
        try:
            return await act(live)
        except KubeError as error:
            if error.status != 409:
                raise _refusal_of(error) from None
    raise ProblemError(409, "the webhook changes too often at the moment; nothing was done, repeat the request")


async def read_live(services: Services, identity: Identity) -> Object:
    """Return the object with the owners of its fields, which the view does not keep.

    Raises:
        ProblemError: 404, it was deleted; 503, the API server is unavailable.
    """
    try:
        live = await services.kube.get(_path(identity))
    except KubeError as error:
        raise _refusal_of(error) from None
    if live["metadata"]["uid"] != identity.uid or "deletionTimestamp" in live["metadata"]:
        raise not_found("the webhook")
    return live


def _refusal_of(error: KubeError) -> ProblemError:
    return not_found("the webhook") if error.status == 404 else from_kube(error, "the webhook")


async def write(services: Services, identity: Identity, patch: Object) -> EndpointRecord:
    """Write a merge patch of the object, and return the new state."""
    return keep(services, await services.kube.merge(_path(identity), patch))


def keep(services: Services, resource: Object) -> EndpointRecord:
    """Put a state into the view, and return the newest known state."""
    trimmed_object = trimmed_with_labels(resource)
    record = services.view.endpoints.put(trimmed_object)
    # Another client may have deleted it at the same time.
    return record if record is not None else EndpointRecord.of(trimmed_object)


def _path(identity: Identity) -> str:
    return object_path("webhookendpoints", identity.namespace, identity.name)

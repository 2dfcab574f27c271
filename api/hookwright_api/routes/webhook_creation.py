"""Registration of an endpoint: write it to the cluster, then wait until the operator has made it ready.

An endpoint that is not ready in time is deleted, except if the request had an Idempotency-Key: then it remains, and a
repetition of the request returns it.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import structlog
from fastapi import APIRouter, Request, Response

from hookwright_api.auth.callers import ProjectQuery, caller_of, one_project
from hookwright_api.http.openapi import sends
from hookwright_api.http.request_checks import GuardedRoute, audit, needs
from hookwright_api.http.responses import answer, from_kube
from hookwright_api.idempotency import (
    HEADER,
    bound_key,
    check_same,
    found_or_free,
    generations,
    request_digest,
    rotated_since,
)
from hookwright_api.routes.created_objects import IdempotencyKey, check_expiry, created_object, take_back
from hookwright_api.routes.webhook_secrets import served_secret
from hookwright_api.routes.webhooks import change_secrets, check_event_types, check_url_scheme, keep
from hookwright_api.services import Services, services_of
from hookwright_api.view.table_records import EndpointRecord
from hookwright_api.webhook_credentials import CredentialPlan, plan_credentials, without_values
from hookwright_api.webhook_document import endpoint_summary, etag_of, spec_of
from hookwright_crds.base import object_path
from hookwright_crds.conditions import CREDENTIALS_NOT_FOUND, find
from hookwright_crds.documents.credential_bodies import CredentialObject
from hookwright_crds.documents.webhook_bodies import NewWebhookAnswer, WebhookRequest
from hookwright_crds.permissions import MANAGE
from hookwright_runtime.errors import KubeError
from hookwright_runtime.problems import ProblemError, unavailable

log = structlog.get_logger(__name__)

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"], route_class=GuardedRoute)

_PREFIX: Final = "wh-"
_ID_LENGTH: Final = 12
_NAME_ALPHABET: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


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
    the secret was replaced since. 503 means that the endpoint is not ready in time, or that it is not known whether it
    exists. With an Idempotency-Key it remains, and a repetition returns it. Otherwise one that is not ready is deleted;
    if the outcome is not known, list the webhooks before you repeat the request.
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
    record, secret = await register(services, result, creation.credentials(its_id).created)
    if not result.is_new:
        audit(request, "secret.read", target=its_id, project=name)
    document = {**endpoint_summary(record.endpoint), "secret": secret}
    return answer(document, 201, Location=f"/v1/webhooks/{its_id}", ETag=etag_of(record.endpoint.metadata))


@dataclass(frozen=True, slots=True)
class WebhookCreation:
    """An endpoint to register."""

    organization: str
    project: str
    body: WebhookRequest

    def digest(self) -> str:
        """Return the digest that distinguishes this request from another; a field with its default changes nothing."""
        fields = without_values(self._fields())
        return request_digest({"organization": self.organization, "project": self.project, **fields})

    def credentials(self, name: str) -> CredentialPlan:
        """Return the plan of its credentials; a repetition has the same."""
        fields = self._fields()
        return plan_credentials(name, fields, fields, {}, "")

    def manifest(self, name: str, creator: str, *, repeatable: bool) -> dict[str, Any]:
        """Return the WebhookEndpoint."""
        spec = {"projectRef": {"name": self.project}, **spec_of(self._fields()), **self.credentials(name).spec}
        digest = self.digest() if repeatable else None
        manifest = created_object("WebhookEndpoint", self.organization, name, spec, creator=creator, request=digest)
        metadata = manifest["metadata"]
        metadata["labels"] = {**self.body.labels, **metadata["labels"]}
        return manifest

    def _fields(self) -> dict[str, Any]:
        return self.body.model_dump(mode="json", exclude_defaults=True)


class Created(NamedTuple):
    """An endpoint that may not be ready yet.

    Attributes:
        record: the endpoint.
        is_new: whether this request created it; otherwise an earlier one with the same Idempotency-Key did.
        repeatable: whether the request had an Idempotency-Key.
    """

    record: EndpointRecord
    is_new: bool
    repeatable: bool


async def create(
    services: Services, creation: WebhookCreation, idempotency_key: str | None, *, creator: str
) -> Created:
    """Write an endpoint to the cluster, or find the one that an earlier request with the same Idempotency-Key wrote.

    Args:
        services: of the process.
        creation: the endpoint.
        idempotency_key: makes the registration repeatable.
        creator: the caller, whom the annotation of the object names.

    Raises:
        ProblemError: 409, 422, or 503 if the API server is unavailable.
    """
    name, record = _name(services, creation, idempotency_key)
    if record is not None:
        return Created(record, is_new=False, repeatable=True)
    check_event_types(services, creation.organization, creation.body.events)
    repeatable = idempotency_key is not None
    manifest = creation.manifest(name, creator, repeatable=repeatable)
    try:
        resource = await services.kube.post(object_path("webhookendpoints", creation.organization), manifest)
    except KubeError as error:
        if error.reason == "AlreadyExists" and repeatable:
            return Created(await _others(services, creation, name), is_new=False, repeatable=True)
        raise from_kube(error, "the webhook") from None
    return Created(keep(services, resource), is_new=True, repeatable=repeatable)


def _name(
    services: Services, creation: WebhookCreation, idempotency_key: str | None
) -> tuple[str, EndpointRecord | None]:
    """Return the name to use, and the object that an earlier request with the same Idempotency-Key created under it."""
    if idempotency_key is None:
        return _PREFIX + "".join(services.choose(_NAME_ALPHABET) for _ in range(_ID_LENGTH)), None
    ids = generations(_ID_LENGTH, "webhook", creation.organization, creation.project, idempotency_key)
    endpoint = partial(services.view.endpoints.get, creation.organization)
    name, record = found_or_free([_PREFIX + suffix for suffix in ids], endpoint, services.now())
    if record is not None:
        check_same(record.endpoint.metadata.annotations, creation.digest())
    return name, record


async def _others(services: Services, creation: WebhookCreation, name: str) -> EndpointRecord:
    """Return the object that another replica has just created for the same Idempotency-Key, when the view has it."""
    try:
        endpoint = await services.view.endpoints.wait(
            creation.organization, name, lambda record: record is not None, seconds=services.settings.create_timeout
        )
    except TimeoutError:
        raise ProblemError(409, f"the webhook of this {HEADER} is being deleted; use a new one") from None
    assert endpoint is not None
    check_same(endpoint.endpoint.metadata.annotations, creation.digest())
    return endpoint


async def register(
    services: Services, result: Created, credentials: Mapping[str, CredentialObject] | None = None
) -> tuple[EndpointRecord, str]:
    """Return an endpoint when it is ready, with its signing secret.

    Args:
        services: of the process.
        result: the endpoint.
        credentials: its Secrets; a repetition creates those that are missing and that the endpoint still names.

    Raises:
        ProblemError: 409, the request is a repetition, and the secret was replaced since the creation; 503, the
            endpoint is not ready in time. It is deleted, except if the request can be repeated.
    """
    record, limit = result.record, services.settings.create_timeout
    identity, endpoints = record.identity, services.view.endpoints
    ready = secret = None
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(limit):
                present_names = record.endpoint.spec.credential_names
                if created := {name: secret for name, secret in (credentials or {}).items() if name in present_names}:
                    await change_secrets(services, identity, created=created)
                ready = await endpoints.wait(identity.namespace, identity.name, _settled, seconds=limit)
                secret = await served_secret(services.operator, identity) if ready else None
    except (asyncio.CancelledError, ProblemError):
        # If the process stops or the caller disconnects, a webhook whose secret nobody knows must not remain.
        if not result.repeatable:
            await asyncio.shield(take_back(services, endpoints, "webhookendpoints", record))
        raise
    if ready is not None and secret is not None:
        signing = ready.endpoint.spec.signing
        if not result.is_new and (secret.rotation or signing.rotation or signing.secret_ref):
            raise rotated_since()
        return ready, secret.secret
    waited_for = "secret" if ready else "status"
    log.warning("webhook not ready in time", name=identity.name, waited_for=waited_for, stays=result.repeatable)
    if result.repeatable:
        # Another replica may have answered a repetition of this request already, so the object must remain.
        raise unavailable("the webhook is not ready yet; send the same request again")
    await asyncio.shield(take_back(services, endpoints, "webhookendpoints", record))
    raise unavailable("the webhook was not ready in time, so it was deleted")


def _settled(record: EndpointRecord | None) -> bool:
    if record is None:
        return True
    status = record.endpoint.status
    ready = find(status.conditions, "Ready")
    return status.signing_secret_ref is not None and ready is not None and ready.reason != CREDENTIALS_NOT_FOUND

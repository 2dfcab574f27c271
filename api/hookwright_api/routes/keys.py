"""API keys of a project: created with their digest only, listed, revoked."""

import asyncio
from functools import partial
from typing import Any

import structlog
from fastapi import APIRouter, Request, Response

from hookwright_api.auth.callers import caller_of, project_named
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
)
from hookwright_api.routes.created_objects import IdempotencyKey, check_expiry, created_object, take_back
from hookwright_api.services import Services, services_of
from hookwright_api.view.table_records import KeyRecord
from hookwright_crds.base import format_timestamp, object_path
from hookwright_crds.documents.key_bodies import KeyRequest, KeysAnswer, NewKeyAnswer
from hookwright_crds.keys import KEY_ID_LENGTH, KeyScope, MintedKey, mint
from hookwright_crds.permissions import ADMINISTER, ANY_USER
from hookwright_runtime.errors import KubeError
from hookwright_runtime.problems import ProblemError, not_found, unavailable

log = structlog.get_logger(__name__)

router = APIRouter(prefix="/v1/projects/{project}/keys", tags=["keys"], route_class=GuardedRoute)


@router.post(
    "",
    status_code=201,
    response_model=NewKeyAnswer,
    operation_id="createKey",
    responses={201: sends("Location")},
)
@needs(ADMINISTER)
async def create_key(
    request: Request, project: str, body: KeyRequest, idempotency_key: IdempotencyKey = None
) -> Response:
    """Create a key. Its plaintext is only in this answer; the cluster stores its SHA-256.

    The key is valid when the answer arrives. 503 means that the operator does not answer and that no key was created. A
    repetition by the same user with the same Idempotency-Key creates no second key. Its answer is 409, because the key
    cannot be shown again.
    """
    services = services_of(request)
    project = project_named(request, project).identity.name
    check_expiry(services, body.expires_at)
    caller = caller_of(request)
    organization = caller.organization
    digest = request_digest(body.model_dump(mode="json"))
    bound = bound_key(idempotency_key, caller.credential_uid)
    key_id = _fresh_id(services, organization, project, bound, digest)
    key = mint(services.choose, key_id=key_id)
    spec, repeatable_digest = _spec(project, body, key), digest if idempotency_key else None
    manifest = created_object("ApiKey", organization, key.key_id, spec, creator=caller.actor, request=repeatable_digest)
    try:
        resource = await services.kube.post(object_path("apikeys", organization), manifest)
    except KubeError as error:
        if error.reason == "AlreadyExists":
            raise _made_before(key.key_id) from None
        raise from_kube(error, "the key") from None
    services.view.keys.put(resource)
    await _confirmed(services, KeyRecord.of(resource))
    audit(request, "key.create", target=key.key_id, project=project)
    document = {
        "id": key.key_id,
        "name": body.name,
        "key": key.plaintext,
        "scopes": list(body.scopes or KeyScope),
        "created_at": resource["metadata"]["creationTimestamp"],
    }
    return answer(document, 201, Location=f"/v1/projects/{project}/keys")


async def _confirmed(services: Services, record: KeyRecord) -> None:
    """Return when the operator has confirmed a new key, so that every replica accepts it.

    Raises:
        ProblemError: 503 if the operator did not confirm it in time; the ApiKey is deleted then.
    """
    identity, keys = record.identity, services.view.keys
    try:
        present = await keys.wait(
            identity.namespace,
            identity.name,
            lambda candidate: candidate is None or candidate.confirmed,
            seconds=services.settings.create_timeout,
        )
    except BaseException as error:
        # If a caller disconnects during the confirmation, a key without an owner must not remain.
        await asyncio.shield(take_back(services, keys, "apikeys", record))
        if not isinstance(error, TimeoutError):
            raise
        raise unavailable("the operator did not confirm the key in time, so it was deleted") from None
    if present is None or present.identity.uid != identity.uid:
        raise ProblemError(409, "the key was deleted during its creation; create another key")


def _fresh_id(
    services: Services, organization: str, project: str, idempotency_key: str | None, digest: str
) -> str | None:
    """Return the id that is derived from an Idempotency-Key; None if there is no header."""
    if idempotency_key is None:
        return None
    ids = generations(KEY_ID_LENGTH, "key", organization, project, idempotency_key)
    key_id, record = found_or_free(ids, partial(services.view.keys.get, organization), services.now())
    if record is not None:
        check_same(record.annotations, digest)
        raise _made_before(key_id)
    return key_id


def _made_before(key_id: str) -> ProblemError:
    return ProblemError(
        409,
        f"the key {key_id} was created by an earlier request with this {HEADER} and cannot be shown again; "
        f"if that answer is lost, delete the key and create another one with a new {HEADER}",
    )


def _spec(project: str, body: KeyRequest, key: MintedKey) -> dict[str, Any]:
    spec: dict[str, Any] = {"projectRef": {"name": project}, "displayName": body.name, "digest": key.digest}
    if body.scopes is not None:
        spec["scopes"] = list(body.scopes)
    if body.expires_at is not None:
        spec["expiresAt"] = format_timestamp(body.expires_at)
    return spec


@router.get("", response_model=KeysAnswer, operation_id="listKeys")
@needs(ANY_USER)
async def list_keys(request: Request, project: str) -> Response:
    """List the keys of a project, including those declared in YAML; never a key or its digest."""
    project = project_named(request, project).identity.name
    keys = services_of(request).view.keys.find("project", (caller_of(request).organization, project))
    return answer({"data": [_shown(key) for key in keys]})


def _shown(key: KeyRecord) -> dict[str, Any]:
    return {
        "id": key.identity.name,
        "name": key.display_name or key.identity.name,
        "scopes": list(key.scopes),
        "created_at": key.identity.created,
        "last_used_at": key.last_used_at,
        "expires_at": key.expires_at,
    }


@router.delete("/{id}", status_code=204, operation_id="deleteKey")
@needs(ADMINISTER)
async def delete_key(request: Request, project: str, id: str) -> Response:  # noqa: A002 - the contract's name
    """Revoke a key; it is invalid at once."""
    services = services_of(request)
    project = project_named(request, project).identity.name
    key = services.view.keys.get(caller_of(request).organization, id)
    if key is None or key.project != project:
        raise not_found("the key")
    identity = key.identity
    try:
        await services.kube.delete(object_path("apikeys", identity.namespace, identity.name), uid=identity.uid)
    except KubeError as error:
        if error.status != 409:
            raise from_kube(error, "the key") from None
    services.view.keys.forget(key)
    audit(request, "key.delete", target=id, project=project)
    return Response(status_code=204)

"""Signing secrets of webhooks: shown, and rotated.

A rotation increases ``spec.signing.rotation``, and waits until the operator has made the secret. It cannot be taken
back, because an old secret never comes back. The object has an annotation with the latest rotations that had an
``Idempotency-Key``. The API server refuses the write if the object changed since it was read, so two replicas cannot
rotate twice for one key.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Body, Request, Response

from hookwright_api.auth.callers import ProjectQuery, caller_of, endpoint_named, one_project, optional_project
from hookwright_api.http.request_checks import GuardedRoute, audit, needs
from hookwright_api.http.responses import answer
from hookwright_api.idempotency import HEADER, LIFETIME, bound_key, key_reused, request_digest, rotated_since
from hookwright_api.operator_client import OperatorClient
from hookwright_api.routes.created_objects import IdempotencyKey
from hookwright_api.routes.webhooks import with_live, write
from hookwright_api.services import Services, services_of
from hookwright_api.view.table_records import EndpointRecord, Identity
from hookwright_api.webhook_document import refuse_declared
from hookwright_crds.documents.webhook_bodies import RotationRequest, SecretAnswer, SigningSecret
from hookwright_crds.permissions import EDIT, MANAGE
from hookwright_runtime.problems import ProblemError, not_found, unavailable

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"], route_class=GuardedRoute)

ROTATIONS_ANNOTATION: Final = "hookwright.dev/rotation-requests"
"""Annotation of an endpoint: its latest rotations with an Idempotency-Key, each as ``key:request:rotation:seconds``."""
_MOST_REMEMBERED: Final = 8
_DIGITS: Final = 16
_FIRST_DELAY: Final = 0.1
_LONGEST_DELAY: Final = 1.0
"""Seconds between two requests for a secret: the first and the longest delay."""

Object = dict[str, Any]


@router.get("/{id}/secret", response_model=SecretAnswer, operation_id="getWebhookSecret")
@needs(EDIT)
async def get_secret(request: Request, id: str, project: ProjectQuery = None) -> Response:  # noqa: A002
    """Show the signing secret of an endpoint to a user; the audit log has a line for each read."""
    record = endpoint_named(request, id, optional_project(request, project))
    secret = await services_of(request).operator.secret(record.identity.namespace, record.identity.name)
    audit(request, "secret.read", target=id, project=record.project)
    return _secret_answer(id, secret)


@router.post("/{id}/rotate-secret", response_model=SecretAnswer, operation_id="rotateWebhookSecret")
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
    services, name = services_of(request), one_project(request, project)
    identity = endpoint_named(request, id, name).identity
    bound = bound_key(idempotency_key, caller_of(request).credential_uid)

    async def rotate(live: Object) -> tuple[int, EndpointRecord | None]:
        _refuse(live)
        patch, rotation = _plan(live, body.overlap, bound, services.now())
        if rotation is not None:
            return rotation, None
        record = await write(services, identity, patch)
        return record.endpoint.spec.signing.rotation, record

    rotation, record = await with_live(services, identity, rotate)
    secret = await _made(services, identity, rotation, record)
    audit(request, "secret.read" if record is None else "secret.rotate", target=id, project=name)
    return _secret_answer(id, secret)


def _secret_answer(name: str, secret: SigningSecret) -> Response:
    document = {"id": name, "secret": secret.secret, "previous_signs_until": secret.previous_signs_until}
    return answer(document)


@dataclass(frozen=True, slots=True)
class RotationEntry:
    """A rotation that had an Idempotency-Key.

    Attributes:
        key: digest of the key and the credential that sent it.
        request: digest of the request.
        rotation: the value of ``spec.signing.rotation`` that it wrote.
        at: seconds since the epoch.
    """

    key: str
    request: str
    rotation: int
    at: int


def remembered(annotations: dict[str, str], now: datetime) -> list[RotationEntry]:
    """Return the rotations of the last 24 hours that an annotation has, oldest first; a wrong entry is ignored."""
    since = int((now - LIFETIME).timestamp())
    entries = []
    for text in annotations.get(ROTATIONS_ANNOTATION, "").split():
        parts = text.split(":")
        if len(parts) == 4 and all(part.isdecimal() and len(part) < 16 for part in parts[2:]):
            entries.append(RotationEntry(parts[0], parts[1], int(parts[2]), int(parts[3])))
    return [entry for entry in entries if entry.at > since]


def annotation_of(entries: list[RotationEntry]) -> str:
    """Return the annotation for rotations; of too many, the latest stay."""
    latest = entries[-_MOST_REMEMBERED:]
    return " ".join(f"{entry.key}:{entry.request}:{entry.rotation}:{entry.at}" for entry in latest)


def _refuse(live: Object) -> None:
    refuse_declared(live)
    reference = (live["spec"].get("signing") or {}).get("secretRef")
    if reference:
        raise ProblemError(
            409, f'the webhook signs with the Secret "{reference["name"]}" that you make; change that Secret instead'
        )


def _plan(live: Object, overlap: str | None, idempotency_key: str | None, now: datetime) -> tuple[Object, int | None]:
    """Return the merge patch that rotates, or the rotation that an earlier request with the same key wrote."""
    meta, signing = live["metadata"], live["spec"].get("signing") or {}
    present = int(signing.get("rotation") or 0)
    metadata: Object = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    if idempotency_key is not None:
        key = hashlib.sha256(idempotency_key.encode()).hexdigest()[:_DIGITS]
        request = request_digest({"overlap": overlap})[:_DIGITS]
        entries = remembered(meta.get("annotations") or {}, now)
        for entry in entries:
            if entry.key == key:
                return {}, _repeated(entry, request, present)
        entries.append(RotationEntry(key, request, present + 1, int(now.timestamp())))
        metadata["annotations"] = {ROTATIONS_ANNOTATION: annotation_of(entries)}
    changes: Object = {"rotation": present + 1} | ({} if overlap is None else {"overlap": overlap})
    return {"metadata": metadata, "spec": {"signing": changes}}, None


def _repeated(entry: RotationEntry, request: str, present: int) -> int:
    if entry.request != request:
        raise key_reused()
    if entry.rotation != present:
        raise rotated_since()
    return entry.rotation


async def _made(
    services: Services, identity: Identity, rotation: int, changed_record: EndpointRecord | None = None
) -> SigningSecret:
    """Wait until the operator serves the secret of a rotation; the secret of a later one is a 409."""
    generation = changed_record.endpoint.metadata.generation if changed_record else 0

    def reconciled(record: EndpointRecord | None) -> bool:
        return record is None or record.endpoint.status.observed_generation >= generation

    limit = services.settings.create_timeout
    try:
        async with asyncio.timeout(limit):
            if await services.view.endpoints.wait(identity.namespace, identity.name, reconciled, seconds=limit) is None:
                raise not_found("the webhook")
            secret = await served_secret(services.operator, identity, rotation)
    except TimeoutError:
        raise unavailable(
            "the rotation is requested, and the operator has not made the secret yet; until then the old one signs. "
            f"Repeat the request with the same {HEADER}, or read the secret later"
        ) from None
    if secret.rotation != rotation:
        raise rotated_since()
    return secret


async def served_secret(
    operator: OperatorClient,
    identity: Identity,
    rotation: int = 0,
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> SigningSecret:
    """Return the signing secret of an endpoint when the operator serves it; the caller limits the wait.

    The operator may write the status a moment before it serves the secret. Each delay is twice the one before, up to
    1 s, so that one request of a tenant does not become hundreds of requests to the operator.

    Args:
        operator: its client.
        identity: of the endpoint.
        rotation: the lowest ``spec.signing.rotation`` of the secret.
        sleep: waits for seconds.
    """
    delay = _FIRST_DELAY
    while True:
        with suppress(ProblemError):
            secret = await operator.secret(identity.namespace, identity.name)
            if secret.rotation >= rotation:
                return secret
        await sleep(delay)
        delay = min(2 * delay, _LONGEST_DELAY)

"""Rotation of a signing secret: increase ``spec.signing.rotation``, and wait until the operator has made the secret.

A rotation cannot be taken back, because an old secret never comes back. The object has an annotation with the latest
rotations that had an ``Idempotency-Key``. The API server refuses the write if the object changed since it was read, so
two replicas cannot rotate twice for one key.
"""

import asyncio
import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from hookwright_api.http.responses import from_kube
from hookwright_api.idempotency import HEADER, LIFETIME, key_reused, request_digest, rotated_since
from hookwright_api.services import Services
from hookwright_api.view.table_records import EndpointRecord, Identity
from hookwright_api.webhook_operations.webhook_changes import read_live, write
from hookwright_api.webhook_operations.webhook_creation import served_secret
from hookwright_api.webhook_operations.webhook_document import refuse_declared
from hookwright_crds.documents.webhook_bodies import SigningSecret
from hookwright_runtime.errors import KubeError
from hookwright_runtime.problems import ProblemError, not_found, unavailable

ROTATIONS_ANNOTATION: Final = "hookwright.dev/rotation-requests"
"""Annotation of an endpoint: its latest rotations with an Idempotency-Key, each as ``key:request:rotation:seconds``."""
_MOST_REMEMBERED: Final = 8
_DIGITS: Final = 16
_ATTEMPTS: Final = 5
"""Attempts to write while the operator writes the status at the same time."""

Object = dict[str, Any]


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


async def rotate(
    services: Services, identity: Identity, overlap: str | None, idempotency_key: str | None
) -> tuple[SigningSecret, bool]:
    """Rotate the signing secret; return the new one, and whether this request rotated it.

    Args:
        services: of the process.
        identity: of the endpoint.
        overlap: how long the replaced secret also signs; None keeps the endpoint's overlap.
        idempotency_key: together with the credential; a repetition returns the secret that the first request made.

    Raises:
        ProblemError: 404, the endpoint was deleted; 409, `/v1` does not own it, or a later request rotated the secret
            again; 422, another request had this key; 503, the secret is not ready yet, or as `from_kube`.
    """
    for _ in range(_ATTEMPTS):
        live = await read_live(services, identity)
        _refuse(live)
        patch, rotation = _plan(live, overlap, idempotency_key, services.now())
        if rotation is not None:
            return await _made(services, identity, rotation), False
        try:
            record = await write(services, identity, patch)
        except KubeError as error:
            if error.status == 409:
                continue
            raise from_kube(error, "the webhook") from None
        return await _made(services, identity, record.endpoint.spec.signing.rotation, record), True
    raise ProblemError(409, "the webhook changes too often at the moment; nothing was done, repeat the request")


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

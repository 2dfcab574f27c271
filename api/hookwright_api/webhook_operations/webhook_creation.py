"""Registration of an endpoint: write it to the cluster, then wait until the operator has made it ready.

An endpoint that is not ready in time is deleted, except if the request had an Idempotency-Key: then it remains, and a
repetition of the request returns it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import structlog

from hookwright_api.http.responses import from_kube
from hookwright_api.idempotency import (
    CREATOR_ANNOTATION,
    HEADER,
    REQUEST_ANNOTATION,
    check_same,
    found_or_free,
    generations,
    request_digest,
    rotated_since,
)
from hookwright_api.operator_client import OperatorClient
from hookwright_api.services import Services
from hookwright_api.view.table_records import EndpointRecord, Identity
from hookwright_api.webhook_operations.webhook_document import spec_of
from hookwright_crds import API_VERSION
from hookwright_crds.base import MADE_BY_API, object_path
from hookwright_crds.conditions import find
from hookwright_crds.documents.webhook_bodies import SigningSecret, WebhookRequest
from hookwright_runtime.errors import KubeError, KubeUnavailable
from hookwright_runtime.problems import ProblemError, unavailable

log = structlog.get_logger(__name__)

_PREFIX: Final = "wh-"
_ID_LENGTH: Final = 12
_NAME_ALPHABET: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_LATE_SECONDS: Final = 60.0
"""Seconds for which the result of an unanswered write is awaited."""
_LATE: Final[set[asyncio.Task[None]]] = set()
"""asyncio itself keeps no reference to tasks."""
_FIRST_DELAY: Final = 0.1
_LONGEST_DELAY: Final = 1.0
"""Seconds between two requests for a secret: the first and the longest delay."""


@dataclass(frozen=True, slots=True)
class WebhookCreation:
    """An endpoint to register."""

    organization: str
    project: str
    body: WebhookRequest

    def digest(self) -> str:
        """Return the digest that distinguishes this request from another; a field with its default changes nothing."""
        return request_digest({"organization": self.organization, "project": self.project, **self._fields()})

    def manifest(self, name: str, annotations: dict[str, str]) -> dict[str, Any]:
        """Return the WebhookEndpoint."""
        return {
            "apiVersion": API_VERSION,
            "kind": "WebhookEndpoint",
            "metadata": {
                "name": name,
                "namespace": self.organization,
                "labels": {**self.body.labels, **MADE_BY_API},
                "annotations": annotations,
            },
            "spec": {"projectRef": {"name": self.project}, **spec_of(self._fields())},
        }

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


class Registered(NamedTuple):
    """A registered endpoint.

    Attributes:
        record: the endpoint, ready.
        secret: its signing secret.
    """

    record: EndpointRecord
    secret: str


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
    annotations = {CREATOR_ANNOTATION: creator} | ({REQUEST_ANNOTATION: creation.digest()} if idempotency_key else {})
    try:
        resource = await services.kube.post(
            object_path("webhookendpoints", creation.organization), creation.manifest(name, annotations)
        )
    except KubeError as error:
        if error.reason == "AlreadyExists" and idempotency_key:
            return Created(await _others(services, creation, name), is_new=False, repeatable=True)
        if isinstance(error, KubeUnavailable) and not idempotency_key:
            _watch_for(services, creation.organization, name)
        raise from_kube(error, "the webhook") from None
    return Created(_put(services, resource), is_new=True, repeatable=idempotency_key is not None)


def _watch_for(services: Services, organization: str, name: str) -> None:
    """Delete the object that the API server may have written without an answer."""

    async def take_back_when_seen() -> None:
        try:
            late_record = await services.view.endpoints.wait(
                organization, name, lambda record: record is not None, seconds=_LATE_SECONDS
            )
        except TimeoutError:
            return
        assert late_record is not None
        await _take_back(services, late_record)

    task = asyncio.create_task(take_back_when_seen())
    _LATE.add(task)
    task.add_done_callback(_LATE.discard)


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


def _put(services: Services, resource: dict[str, Any]) -> EndpointRecord:
    record = services.view.endpoints.put(resource)
    # Another client may have deleted it at the same time.
    return record if record is not None else EndpointRecord.of(resource)


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


async def register(services: Services, result: Created) -> Registered:
    """Return an endpoint when it is ready, with its signing secret.

    Raises:
        ProblemError: 409, the request is a repetition, and the secret was replaced since the creation; 503, the
            endpoint is not ready in time. It is deleted, except if the request can be repeated.
    """
    record = result.record
    try:
        async with asyncio.timeout(services.settings.create_timeout):
            ready, secret = await _ready(services, record)
    except asyncio.CancelledError:
        # If the process stops or the caller disconnects, a webhook whose secret nobody knows must not remain.
        if not result.repeatable:
            await asyncio.shield(_take_back(services, record))
        raise
    except (TimeoutError, _DeletedError) as error:
        present = services.view.endpoints.get(record.identity.namespace, record.identity.name)
        log.warning(
            "webhook not ready in time, it stays" if result.repeatable else "webhook not ready in time, deleting it",
            name=record.identity.name,
            reason=type(error).__name__,
            waited_for="secret" if present is not None and _settled(present) else "status",
        )
    else:
        if not result.is_new and (secret.rotation or _signs_differently(ready)):
            raise rotated_since()
        return Registered(ready, secret.secret)
    if result.repeatable:
        # Another replica may have answered a repetition of this request already, so the object must remain.
        raise unavailable("the webhook is not ready yet; send the same request again")
    await asyncio.shield(_take_back(services, record))
    raise unavailable("the webhook was not ready in time, so it was deleted")


class _DeletedError(Exception):
    """The endpoint was deleted during the wait."""


async def _ready(services: Services, record: EndpointRecord) -> tuple[EndpointRecord, SigningSecret]:
    """Return the endpoint and its secret as soon as the operator has created both."""
    identity = record.identity
    ready = await services.view.endpoints.wait(
        identity.namespace, identity.name, _settled, seconds=services.settings.create_timeout
    )
    if ready is None:
        raise _DeletedError
    return ready, await served_secret(services.operator, identity)


def _signs_differently(record: EndpointRecord) -> bool:
    """Return whether the secret of the creation was replaced, which `/v1` itself does only by a rotation."""
    signing = record.endpoint.spec.signing
    return bool(signing.rotation or signing.secret_ref)


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


def _settled(record: EndpointRecord | None) -> bool:
    if record is None:
        return True
    status = record.endpoint.status
    return status.signing_secret_ref is not None and find(status.conditions, "Ready") is not None


async def _take_back(services: Services, record: EndpointRecord) -> None:
    identity = record.identity
    path = object_path("webhookendpoints", identity.namespace, identity.name)
    try:
        resource = await services.kube.delete(path, uid=identity.uid)
    except KubeError as error:
        if error.status != 409:
            log.warning("webhook not ready and not deleted, it remains", name=identity.name, error=str(error))
            return
        resource = {}
    if resource.get("kind") == "WebhookEndpoint":
        services.view.endpoints.put(resource)
    else:
        services.view.endpoints.forget(record)

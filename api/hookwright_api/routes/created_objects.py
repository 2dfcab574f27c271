"""What the creations of projects, keys and webhooks share: the object, its expiry, and its removal after a failure."""

from datetime import datetime
from typing import Annotated, Any, TypeVar

import structlog
from fastapi import Header

from hookwright_api.idempotency import CREATOR_ANNOTATION, HEADER, REQUEST_ANNOTATION
from hookwright_api.services import Services
from hookwright_api.view.table import Record, Table
from hookwright_crds import API_VERSION
from hookwright_crds.base import MADE_BY_API, object_path
from hookwright_runtime.errors import KubeError
from hookwright_runtime.problems import FieldFault, invalid

log = structlog.get_logger(__name__)

R = TypeVar("R", bound=Record)

IdempotencyKey = Annotated[
    str | None, Header(alias=HEADER, description="Makes the request repeatable for 24 hours.", max_length=255)
]


def check_expiry(services: Services, expires_at: datetime | None) -> None:
    """Return if a time at which an object expires is in the future, or if there is none.

    Raises:
        ProblemError: 422, the time has passed.
    """
    if expires_at is not None and expires_at <= services.now():
        raise invalid(FieldFault("expires_at", "must be a time in the future"))


def created_object(
    kind: str, namespace: str, name: str, spec: dict[str, Any], *, creator: str, request: str | None = None
) -> dict[str, Any]:
    """Return the object that a request creates.

    Args:
        kind: of the object.
        namespace: the organization.
        name: of the object.
        spec: of the object.
        creator: the caller, whom an annotation names.
        request: digest of the request, if it can be repeated.
    """
    annotations = {CREATOR_ANNOTATION: creator} | ({REQUEST_ANNOTATION: request} if request else {})
    metadata = {"name": name, "namespace": namespace, "labels": {**MADE_BY_API}, "annotations": annotations}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


async def take_back(services: Services, table: Table[R], plural: str, record: R) -> None:
    """Delete a new object that did not become ready: the caller does not get its secret."""
    identity = record.identity
    try:
        await services.kube.delete(object_path(plural, identity.namespace, identity.name), uid=identity.uid)
    except KubeError as error:
        if error.status != 409:
            where = {"resource": plural, "namespace": identity.namespace, "name": identity.name}
            log.warning("object not ready and not deleted, it remains", **where, error=str(error))
            return
    table.forget(record)

"""Changes of an endpoint by `/v1`: read the object, check who owns it, and write only the named fields."""

from datetime import datetime
from typing import Any, Final

from pydantic import ValidationError

from hookwright_api.http.responses import from_kube
from hookwright_api.services import Services
from hookwright_api.view.table_records import EndpointRecord, Identity
from hookwright_api.webhook_operations.webhook_document import (
    check_etag,
    document_of,
    labels_patch,
    merged,
    refuse_declared,
    refuse_header_moves,
    spec_of,
)
from hookwright_crds.base import ObjectMeta, object_path
from hookwright_crds.documents.webhook_bodies import WebhookPatch, WebhookRequest
from hookwright_crds.reading import read
from hookwright_crds.resources import WebhookEndpoint
from hookwright_crds.trimming import trimmed_with_labels
from hookwright_runtime.errors import KubeError
from hookwright_runtime.problems import FieldFault, ProblemError, invalid, not_found
from hookwright_runtime.validation import from_validation

Object = dict[str, Any]

_ATTEMPTS: Final = 5
"""Attempts to write while the operator writes the status at the same time."""
_CHANGES_TOO_OFTEN: Final = "the webhook changes too often at the moment; nothing was done, repeat the request"


def check_url_scheme(services: Services, url: str | None) -> None:
    """Return if the installation allows the scheme of a URL.

    Raises:
        ProblemError: 422, plain http is not allowed.
    """
    if url is not None and url[:5].lower() == "http:" and not services.settings.allow_http:
        raise invalid(FieldFault("url", "must be an https URL, such as https://example.com/hooks"))


def check_expiry(services: Services, expires_at: datetime | None) -> None:
    """Return if a time at which an endpoint expires is in the future, or if there is none.

    Raises:
        ProblemError: 422, the time has passed.
    """
    if expires_at is not None and expires_at <= services.now():
        raise invalid(FieldFault("expires_at", "must be a time in the future"))


async def change(services: Services, identity: Identity, patch: WebhookPatch, if_match: str | None) -> EndpointRecord:
    """Apply a merge patch, and return the new state.

    Fields that the patch does not name stay as they are, also if another client changes them at the same time.

    Args:
        services: of the process.
        identity: of the endpoint.
        patch: the patch.
        if_match: the header of the request; the write then needs the state that was compared.

    Raises:
        ProblemError: 404, the endpoint was deleted; 409, `/v1` does not own it; 412, it changed; 422, the result is
            not valid, or header values would follow another target; 503, the API server is unavailable.
    """
    fields = patch.model_dump(mode="json", exclude_unset=True)
    if fields.get("url") is not None:
        check_url_scheme(services, fields["url"])
    check_expiry(services, patch.expires_at)
    # With another target, a header that is set at the same time must not follow.
    same_state = if_match is not None or not fields.keys().isdisjoint(("url", "pull"))
    for _ in range(_ATTEMPTS):
        live = await read_live(services, identity)
        check_etag(if_match, ObjectMeta.model_validate(trimmed_with_labels(live)["metadata"]))
        refuse_declared(live)
        if not fields:
            return keep(services, live)
        _check_result(live, fields)
        try:
            return await write(services, identity, _kubernetes_patch(live, fields, same_state=same_state))
        except KubeError as error:
            # The write of a status is no reason for a 412, so the new state is compared.
            if error.status != 409 or not same_state:
                raise from_kube(error, "the webhook") from None
    raise ProblemError(409, _CHANGES_TOO_OFTEN)


def _kubernetes_patch(live: Object, fields: Object, *, same_state: bool) -> Object:
    """Return the merge patch of the object; with ``same_state``, the API server refuses it for another state."""
    meta = live["metadata"]
    metadata: Object = {"uid": meta["uid"]} | ({"resourceVersion": meta["resourceVersion"]} if same_state else {})
    if labels := labels_patch(fields, meta.get("labels") or {}):
        metadata["labels"] = labels
    return {"metadata": metadata, "spec": spec_of(fields)}


async def read_live(services: Services, identity: Identity) -> Object:
    """Return the object with the owners of its fields, which the view does not keep.

    Raises:
        ProblemError: 404, it was deleted; 503, the API server is unavailable.
    """
    try:
        live = await services.kube.get(_path(identity))
    except KubeError as error:
        if error.status == 404:
            raise not_found("the webhook") from None
        raise from_kube(error, "the webhook") from None
    if live["metadata"]["uid"] != identity.uid or "deletionTimestamp" in live["metadata"]:
        raise not_found("the webhook")
    return live


async def delete(services: Services, identity: Identity) -> Object:
    """Delete an object that `/v1` owns, and return it if finalizers keep it; otherwise return nothing.

    Raises:
        ProblemError: 404, it was deleted; 409, `/v1` does not own it, or it changes too often; 503, the API server is
            unavailable.
    """
    for _ in range(_ATTEMPTS):
        live = await read_live(services, identity)
        refuse_declared(live)
        try:
            # Another client may have begun to declare the object since it was read.
            version = live["metadata"]["resourceVersion"]
            return await services.kube.delete(_path(identity), uid=identity.uid, resource_version=version)
        except KubeError as error:
            if error.status != 409:
                raise from_kube(error, "the webhook") from None
    raise ProblemError(409, _CHANGES_TOO_OFTEN)


async def write(services: Services, identity: Identity, patch: Object) -> EndpointRecord:
    """Write a merge patch of the object, and return the new state.

    Raises:
        ProblemError: 404, it was deleted.
        KubeError: the API server refused the write.
    """
    try:
        return keep(services, await services.kube.merge(_path(identity), patch))
    except KubeError as error:
        if error.status == 404:
            raise not_found("the webhook") from None
        raise


def keep(services: Services, resource: Object) -> EndpointRecord:
    """Put a state into the view, and return the newest known state."""
    trimmed_object = trimmed_with_labels(resource)
    record = services.view.endpoints.put(trimmed_object)
    return record if record is not None else EndpointRecord.of(trimmed_object)


def _check_result(live: Object, fields: Object) -> None:
    endpoint, unsupported_fields = read(WebhookEndpoint, live)
    if unsupported_fields.faults:
        raise ProblemError(409, f"the webhook was written by a newer version. {unsupported_fields.sentence}")
    before = document_of(endpoint)
    if "labels" not in fields:
        # Other clients may have set more labels than `/v1` accepts.
        del before["labels"]
    try:
        WebhookRequest.model_validate(merged(before, fields))
    except ValidationError as error:
        raise from_validation(error.errors(include_url=False, include_input=False)) from None
    refuse_header_moves(before, fields)


def _path(identity: Identity) -> str:
    return object_path("webhookendpoints", identity.namespace, identity.name)

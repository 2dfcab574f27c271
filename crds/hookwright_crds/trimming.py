"""Pure: the bounded part of an object that Hookwright keeps, whatever size the tenant gives the rest.

A tenant can give an object 256 KiB of annotations, any number of labels and finalizers, and a Secret 1 MiB of data.
Hookwright keeps the metadata that it reads, and the fields of a Secret that it writes.
"""

import base64
from collections.abc import Iterable, Mapping
from typing import Any, Final

from hookwright_crds.base import CREDENTIAL_LABEL, MANAGED_BY, MANAGER
from hookwright_crds.sessions import SESSION_KEY_FIELD

KEPT_BYTES: Final = 4096
"""Maximum bytes that are kept of an object's annotations, finalizers and own labels, and of a Secret's fields, each."""
CREDENTIAL_BYTES: Final = 16_384
"""Maximum bytes that are kept of the fields of a Secret or ConfigMap for deliveries, with names; Secrets in base64."""
TOKEN_TYPE: Final = "kubernetes.io/service-account-token"  # noqa: S105 - the type of a Secret
"""Such a Secret cannot be offered: a user who may only create Secrets could read the token that it gets."""
MORE_FINALIZERS: Final = "hookwright.dev/more"
"""A placeholder in the list of finalizers for those that were removed; no finalizer has this name."""

PAIR_FIELDS: Final = ("tls.crt", "tls.key")
"""The fields of a Secret with a client certificate and its key."""
AUTHORITIES_FIELD: Final = "ca.crt"
"""The field of a ConfigMap with the certificates that an endpoint trusts."""

_PREFIX: Final = "hookwright.dev/"
_FINALIZER: Final = "hookwright.dev/deliveries"
_OWNERS: Final = 16
_PLAIN: Final = ("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp")
_LABELS: Final = (MANAGED_BY, "hookwright.dev/owner-uid", CREDENTIAL_LABEL)
_FIELDS: Final = ("secret", "previous", "previous-2", "previous-3", "key")
"""Fields of Secrets that the operator creates for endpoints and ApiKeys."""


def trimmed(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with the kept part of its metadata; the kind's schema limits the size of spec and status."""
    return {**body, "metadata": _metadata(body["metadata"])}


def trimmed_with_labels(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object as `trimmed` does, also with its labels without a prefix, up to the limit."""
    result, labels = trimmed(body), body["metadata"].get("labels") or {}
    if labels:
        plain_labels = _within((name, text) for name, text in labels.items() if "/" not in name)
        result["metadata"]["labels"] |= plain_labels
    return result


def trimmed_secret(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Secret or ConfigMap with the kept parts of its metadata and of its data; other objects have no data."""
    result = trimmed(body)
    result.pop("binaryData", None)
    if "data" in body:
        data, labels = body["data"] or {}, result["metadata"].get("labels", {})
        is_credential = is_offered(labels) and body.get("type") != TOKEN_TYPE
        # cert-manager can add keystores beside a certificate, which must not take its room.
        first = {name: data[name] for name in (*PAIR_FIELDS, AUTHORITIES_FIELD) if name in data}
        ordered = {**first, **dict(sorted(data.items()))}
        result["data"] = _within(ordered.items(), CREDENTIAL_BYTES) if is_credential else _fields(data)
    return result


def is_offered(labels: Mapping[str, str]) -> bool:
    """Whether a tenant offers a Secret or ConfigMap for deliveries; the operator's own Secrets are never offered."""
    return labels.get(CREDENTIAL_LABEL) == "true" and labels.get(MANAGED_BY) != MANAGER


def secret_fields(body: Mapping[str, Any]) -> dict[str, str]:
    """Return a Secret's content as text; binary fields are empty."""
    return {name: decode_field(text) for name, text in (body.get("data") or {}).items()}


def decode_field(text: str) -> str:
    """Return the text of a Secret's field, empty if it is binary."""
    try:
        return base64.b64decode(text, validate=True).decode()
    except ValueError:
        return ""


def _metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    result = {name: metadata[name] for name in _PLAIN if name in metadata}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if labels:
        result["labels"] = {name: labels[name] for name in _LABELS if name in labels}
    if annotations:
        result["annotations"] = _within((name, text) for name, text in annotations.items() if name.startswith(_PREFIX))
    if finalizers := metadata.get("finalizers"):
        result["finalizers"] = _finalizers(finalizers)
    if owners := metadata.get("ownerReferences"):
        ours = [owner for owner in owners if str(owner.get("apiVersion", "")).startswith(_PREFIX)]
        result["ownerReferences"] = ours[:_OWNERS]
    return result


def _finalizers(finalizers: list[str]) -> list[str]:
    if sum(map(len, finalizers)) <= KEPT_BYTES:
        return finalizers
    return [*{_FINALIZER}.intersection(finalizers), MORE_FINALIZERS]


def _fields(data: Mapping[str, str]) -> dict[str, str]:
    """Return the known fields; a field that is too long becomes empty, so that it counts as invalid."""
    fields = {name: data[name] for name in _FIELDS if name in data}
    session_keys = ((name, text) for name, text in data.items() if SESSION_KEY_FIELD.fullmatch(name))
    return dict.fromkeys(fields, "") | _within([*fields.items(), *session_keys])


def _within(items: Iterable[tuple[str, str]], room: int = KEPT_BYTES) -> dict[str, str]:
    """Return the items that fit into the limit, chosen in their order."""
    result = {}
    for name, text in items:
        size = len(name) + len(text)
        if size <= room:
            result[name] = text
            room -= size
    return result

"""Pure: the bounded part of an object that Hookwright keeps, whatever size the tenant gives the rest.

A tenant can give an object 256 KiB of annotations, any number of labels and finalizers, and a Secret 1 MiB of data.
Hookwright keeps the metadata that it reads, and the fields of a Secret that it writes.
"""

import base64
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

KEPT_BYTES: Final = 4096
"""Maximum bytes that are kept of an object's annotations, finalizers and own labels, and of a Secret's fields, each."""
MORE_FINALIZERS: Final = "hookwright.dev/more"
"""A placeholder in the list of finalizers for those that were removed; no finalizer has this name."""

_PREFIX: Final = "hookwright.dev/"
_FINALIZER: Final = "hookwright.dev/deliveries"
_OWNERS: Final = 16
_PLAIN: Final = ("name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp")
_LABELS: Final = ("app.kubernetes.io/managed-by", "hookwright.dev/owner-uid")
_FIELDS: Final = ("secret", "previous", "previous-2", "previous-3", "key")
"""Fields of Secrets that the operator creates for endpoints and ApiKeys; session keys match the next pattern."""
_SESSION_KEY: Final = re.compile(r"k[0-9]{1,12}")


def trimmed(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object with the kept part of its metadata; the kind's schema limits the size of spec and status."""
    return {**body, "metadata": _metadata(body["metadata"])}


def trimmed_with_labels(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object as `trimmed` does, also with its labels without a prefix, up to the limit."""
    kept, labels = trimmed(body), body["metadata"].get("labels") or {}
    if labels:
        own = _within((name, text) for name, text in labels.items() if "/" not in name)
        kept["metadata"]["labels"] |= own
    return kept


def trimmed_secret(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Secret with the kept parts of its metadata and of its data; other objects have no data."""
    kept = trimmed(body)
    if "data" in body:
        kept["data"] = _fields(body["data"] or {})
    return kept


def secret_fields(body: Mapping[str, Any]) -> dict[str, str]:
    """Return a Secret's content as text; binary fields are empty."""
    return {name: decode_field(written) for name, written in (body.get("data") or {}).items()}


def decode_field(written: str) -> str:
    """Return the text of a Secret's field, empty if it is binary."""
    try:
        return base64.b64decode(written, validate=True).decode()
    except ValueError:
        return ""


def _metadata(written: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: written[name] for name in _PLAIN if name in written}
    labels, annotations = written.get("labels") or {}, written.get("annotations") or {}
    if labels:
        kept["labels"] = {name: labels[name] for name in _LABELS if name in labels}
    if annotations:
        kept["annotations"] = _within((name, text) for name, text in annotations.items() if name.startswith(_PREFIX))
    if finalizers := written.get("finalizers"):
        kept["finalizers"] = _finalizers(finalizers)
    if owners := written.get("ownerReferences"):
        ours = [owner for owner in owners if str(owner.get("apiVersion", "")).startswith(_PREFIX)]
        kept["ownerReferences"] = ours[:_OWNERS]
    return kept


def _finalizers(written: list[str]) -> list[str]:
    if sum(map(len, written)) <= KEPT_BYTES:
        return written
    return [*{_FINALIZER}.intersection(written), MORE_FINALIZERS]


def _fields(data: Mapping[str, str]) -> dict[str, str]:
    """Return the known fields; a field that is too long becomes empty, so that it counts as invalid."""
    known = {name: data[name] for name in _FIELDS if name in data}
    session_keys = ((name, text) for name, text in data.items() if _SESSION_KEY.fullmatch(name))
    return dict.fromkeys(known, "") | _within([*known.items(), *session_keys])


def _within(items: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the items that fit into the limit, chosen in their order."""
    kept, left = {}, KEPT_BYTES
    for name, text in items:
        size = len(name) + len(text)
        if size <= left:
            kept[name] = text
            left -= size
    return kept

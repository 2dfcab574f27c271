"""Pure: the rotation of a generated key: when a new one is needed, and how long a replaced one stays valid.

A rotated key keeps its public id, so one look-up finds the new key and the replaced keys. The replaced keys are in the
status only. A tenant can write annotations, and a digest in an annotation could be that of another tenant's key. So if
the status is lost, the overlaps end early.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from hookwright_crds.base import format_timestamp, parse_duration, parse_timestamp
from hookwright_crds.resources import PREVIOUS_KEYS, ApiKey, PreviousKey
from hookwright_operator.watch.objects import Secret

ROTATION_ANNOTATION: Final = "hookwright.dev/key-rotation"
"""On the ApiKey and its handover Secret: the ``spec.rotation`` for which the key was generated."""
UNTIL_ANNOTATION: Final = "hookwright.dev/replaced-until"
"""On the handover Secret: the end of the overlap of the key that the Secret's key replaced."""


def rotation_of(key: ApiKey, secret: Secret | None) -> int:
    """Return the ``spec.rotation`` for which the present key was generated; 0 if no record of it exists."""
    if key.status.key_id is not None:
        return key.status.rotation
    if ROTATION_ANNOTATION in key.metadata.annotations:
        return _number(key.metadata.annotations)
    return _number(secret.annotations) if secret is not None and not secret.foreign else 0


def made_for(key: ApiKey, secret: Secret) -> bool:
    """Return whether the Secret has the key of the present rotation, because a replica ended before the status."""
    return ROTATION_ANNOTATION in secret.annotations and _number(secret.annotations) == key.spec.rotation


def rotation_annotations(key: ApiKey, now: datetime) -> dict[str, str]:
    """Return the annotations of a Secret with a new key; the Secret of a first key needs none."""
    if not key.spec.rotation:
        return {}
    until = now + parse_duration(key.spec.overlap)
    return {ROTATION_ANNOTATION: str(key.spec.rotation), UNTIL_ANNOTATION: format_timestamp(until)}


def replaced(key: ApiKey, digest: str, secret: Secret, now: datetime) -> tuple[PreviousKey, ...]:
    """Return the replaced keys after a rotation.

    Args:
        key: the ApiKey.
        digest: of the key that is replaced now.
        secret: the handover Secret with the new key.
        now: the time.
    """
    latest = now + parse_duration(key.spec.overlap)
    try:
        text = secret.annotations.get(UNTIL_ANNOTATION, "")
        until = min(parse_timestamp(text), latest)
    except ValueError:
        until = latest
    newest = (PreviousKey(digest=digest, until=until),) if now < until else ()
    return (*newest, *still_valid(key, now))[:PREVIOUS_KEYS]


def still_valid(key: ApiKey, now: datetime) -> tuple[PreviousKey, ...]:
    """Return the replaced keys whose overlap has not ended; an overlap of 0s ends all of them, as after a leak."""
    if not parse_duration(key.spec.overlap):
        return ()
    return tuple(predecessor for predecessor in key.status.previous if now < predecessor.until)


def _number(annotations: Mapping[str, str]) -> int:
    text = annotations.get(ROTATION_ANNOTATION, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 7 else 0

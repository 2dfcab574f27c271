"""Pure: POSTs that can be repeated for 24 hours, without stored answers.

A POST with an ``Idempotency-Key`` creates an object whose name follows from the key. Two replicas cannot create it
twice, because the API server refuses the second one. The object itself carries the digest of the request, which
distinguishes a repetition from another request with the same key.

The name of a webhook or an API key also follows from the credential. So another credential of the same project that
guesses the Idempotency-Key does not get the stored answer, which has the signing secret.

Source: draft-ietf-httpapi-idempotency-key-header-07; another request with the same key is a 422 (2.7).
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from hookwright_api.view.table import Record
from hookwright_runtime.problems import Code, FieldFault, ProblemError, invalid

R = TypeVar("R", bound=Record)

HEADER: Final = "Idempotency-Key"
REQUEST_ANNOTATION: Final = "hookwright.dev/idempotency-request"
"""Annotation of a created object: the SHA-256 of the request that created it."""
CREATOR_ANNOTATION: Final = "hookwright.dev/created-by"
"""Annotation of a created object: the user or key that created it, as the audit log names it."""
LIFETIME: Final = timedelta(hours=24)
GENERATIONS: Final = 8
"""How often one key may create a new object, each time a day later, while its earlier objects still exist."""

_ID_ALPHABET: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_KEY: Final = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?")


def check_key(value: str | None) -> str | None:
    """Return the header's value; None if there is none.

    Raises:
        ProblemError: 422, it is empty, too long or not printable ASCII.
    """
    if value is None or _KEY.fullmatch(value):
        return value
    raise invalid(FieldFault(HEADER, "must be 1 to 255 printable ASCII characters"))


def bound_key(value: str | None, credential: str) -> str | None:
    """Return the header's value together with the credential that sent it; None if there is no header.

    Args:
        value: the header's value.
        credential: uid of the ApiKey, or of the user's Secret.

    Raises:
        ProblemError: as `check_key`.
    """
    key = check_key(value)
    return None if key is None else f"{credential}\0{key}"


def derived_id(length: int, *parts: str) -> str:
    """Return an id of ``[a-z0-9]`` that is derived from the parts, 5 bits per character."""
    number = int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest())
    characters = []
    for _ in range(length):
        number, rest = divmod(number, len(_ID_ALPHABET))
        characters.append(_ID_ALPHABET[rest])
    return "".join(characters)


def request_digest(body: Mapping[str, Any]) -> str:
    """Return the digest of a request: the SHA-256 of its content, independent of the order of fields."""
    return hashlib.sha256(json.dumps(body, sort_keys=True, default=str).encode()).hexdigest()


def expired(created_at: datetime, now: datetime) -> bool:
    """Return whether a key that created an object at ``created_at`` may create a new one."""
    return now - created_at >= LIFETIME


def found_or_free(names: Iterable[str], find: Callable[[str], R | None], now: datetime) -> tuple[str, R | None]:
    """Return the object that a key created within its lifetime, with its name; else a free name and None.

    Args:
        names: of all generations, the oldest first. Older objects may be deleted already, so each one is looked at
            before a free name is taken.
        find: returns the object of a name, None if there is none.
        now: the present time.

    Raises:
        ProblemError: 409, no name is free.
    """
    objects = {name: find(name) for name in names}
    for name, record in objects.items():
        if record is not None and not expired(record.identity.created, now):
            return name, record
    for name, record in objects.items():
        if record is None:
            return name, None
    raise ProblemError(409, f"this {HEADER} was used too often; use a new one")


def generations(length: int, *parts: str) -> list[str]:
    """Return the ids that follow from a key, of each generation."""
    return [derived_id(length, *parts, str(generation)) for generation in range(GENERATIONS)]


def check_same(annotations: Mapping[str, str], digest: str) -> None:
    """Return if the request is a repetition.

    Raises:
        ProblemError: 422, it is another request.
    """
    if annotations.get(REQUEST_ANNOTATION) != digest:
        raise key_reused()


def key_reused() -> ProblemError:
    """Return the 422 for a key of another request."""
    fault = FieldFault(HEADER, "was used within 24 hours for another request; use a new key")
    return invalid(fault, code=Code.IDEMPOTENCY_KEY_REUSED)


def rotated_since() -> ProblemError:
    """Return the 409 for a repetition whose signing secret is not the current one."""
    return ProblemError(
        409, f"the secret was replaced after the request with this {HEADER}; its secret is not the current one"
    )

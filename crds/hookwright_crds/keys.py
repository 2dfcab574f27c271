"""Pure: the format of an API key and its digest.

A key has the form ``hw_<keyId>_<secret><checksum>``. Secret scanners can search for the prefix. The public id
identifies the key in a look-up. The secret has 43 base62 characters, more than 256 random bits. The checksum has six
characters. It distinguishes a typing error or a truncated paste from an unknown key without a look-up. Only the SHA-256
of the whole key is stored.
"""

import hashlib
import hmac
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Final

from pydantic import AfterValidator

PREFIX: Final = "hw"
KEY_ID_LENGTH: Final = 12
SECRET_LENGTH: Final = 43
CHECKSUM_LENGTH: Final = 6
KEY_ID_PATTERN: Final = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
"""A key's public id; a declared key's id is its object's name, so this is an RFC 1123 label."""
DIGEST_LENGTH: Final = len("sha256:") + 64
DIGEST_PATTERN: Final = r"^sha256:[0-9a-f]{64}$"

_BASE62: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_ALPHABET: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_KEY: Final = re.compile(
    rf"{PREFIX}_(?P<key_id>{KEY_ID_PATTERN[1:-1]})_"
    rf"(?P<secret>[0-9A-Za-z]{{{SECRET_LENGTH}}})(?P<checksum>[0-9A-Za-z]{{{CHECKSUM_LENGTH}}})",
)


class KeyScope(StrEnum):
    """A right of a key.

    ``send`` events and tests, ``read`` everything of the project, ``manage`` its webhooks, ``pull`` messages of them.
    """

    SEND = "send"
    READ = "read"
    MANAGE = "manage"
    PULL = "pull"


def _each_once(scopes: tuple[KeyScope, ...] | None) -> tuple[KeyScope, ...] | None:
    if scopes is not None and len(set(scopes)) < len(scopes):
        raise ValueError("must not name a scope twice")
    return scopes


Scopes = Annotated[tuple[KeyScope, ...] | None, AfterValidator(_each_once)]
"""The rights of a key; None: all."""


class MalformedKeyError(ValueError):
    """An error for a string that is not an API key; the message never repeats the string."""

    def __init__(self) -> None:
        super().__init__(f"not an API key: expected {PREFIX}_<keyId>_<secret><checksum>, whole and unaltered")


@dataclass(frozen=True, slots=True)
class MintedKey:
    """A new key: its public id, its plaintext (which is shown once) and its digest."""

    key_id: str
    plaintext: str = field(repr=False)
    digest: str


def _base62(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, remainder = divmod(number, 62)
        digits.append(_BASE62[remainder])
    return "".join(reversed(digits))


def _checksum(body: str) -> str:
    return _base62(zlib.crc32(body.encode("ascii")), CHECKSUM_LENGTH)


def digest(plaintext: str) -> str:
    """Return ``sha256:<64 hex digits>`` of the whole key, the only form of the key that is stored."""
    return f"sha256:{hashlib.sha256(plaintext.encode()).hexdigest()}"


def mint(choose: Callable[[str], str], *, key_id: str | None = None) -> MintedKey:
    """Generate a new key.

    Args:
        choose: draws one character of a string, as ``secrets.choice`` does.
        key_id: the public id to use; None draws 12 characters of ``[a-z0-9]``.

    Raises:
        ValueError: the key id is not an RFC 1123 label, so no request could present the key.
    """
    public = "".join(choose(_ID_ALPHABET) for _ in range(KEY_ID_LENGTH)) if key_id is None else key_id
    if not re.fullmatch(KEY_ID_PATTERN, public):
        raise ValueError(f"key id {public!r} must be 1 to 63 of a-z, 0-9 and '-', without '-' at either end")
    body = f"{PREFIX}_{public}_{''.join(choose(_BASE62) for _ in range(SECRET_LENGTH))}"
    plaintext = body + _checksum(body)
    return MintedKey(key_id=public, plaintext=plaintext, digest=digest(plaintext))


def is_identity(key_id: str, digest: str) -> bool:
    """Return whether two texts have the forms of a key id and of a digest."""
    return bool(re.fullmatch(KEY_ID_PATTERN, key_id) and re.fullmatch(DIGEST_PATTERN, digest))


def key_id_of(plaintext: str) -> str:
    """Return the public id inside a presented key.

    Raises:
        MalformedKeyError: the shape or the checksum is wrong, so this key was never generated.
    """
    match = _KEY.fullmatch(plaintext)
    if match is None or _checksum(plaintext[:-CHECKSUM_LENGTH]) != match["checksum"]:
        raise MalformedKeyError
    return match["key_id"]


def matches(plaintext: str, kept_digest: str) -> bool:
    """Return whether a presented key has the stored digest; the comparison takes constant time."""
    return hmac.compare_digest(digest(plaintext).encode(), kept_digest.encode())

"""New API keys, made on this machine: the cluster gets only the digest.

The format is that of ``hookwright_crds.keys``; a test compares the two.
"""

import hashlib
import secrets
import zlib
from typing import NamedTuple

_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"


class LocalKey(NamedTuple):
    """A new key: its public id, the key itself, and its digest."""

    key_id: str
    plaintext: str
    digest: str


def new_key() -> LocalKey:
    """Return a new API key."""
    key_id = "".join(secrets.choice(_ID_ALPHABET) for _ in range(12))
    body = f"hw_{key_id}_{''.join(secrets.choice(_BASE62) for _ in range(43))}"
    number, checksum = zlib.crc32(body.encode()), ""
    for _ in range(6):
        number, remainder = divmod(number, 62)
        checksum = _BASE62[remainder] + checksum
    key = body + checksum
    return LocalKey(key_id, key, f"sha256:{hashlib.sha256(key.encode()).hexdigest()}")

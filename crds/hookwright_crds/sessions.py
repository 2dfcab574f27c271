"""Pure: the form of the keys that sign session tokens, in a Secret of the installation's own namespace.

The operator makes the Secret and rotates it, the API reads it. Each of its fields is one key: the
field's name is ``k<seconds since the epoch at which it was made>`` and serves as the token's ``kid``;
its content is the base64 text of 32 random bytes. The newest key signs, every one verifies, so that a
rotation logs nobody out; a key may go once every token that it signed has expired.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

SESSION_KEYS_NAME: Final = "hookwright-session-keys"
SESSION_KEYS_TYPE: Final = "hookwright.dev/session-keys"
SESSION_KEY_LENGTH: Final = 32
"""Bytes of a key; what HMAC-SHA256 needs at least (RFC 7518, 3.2)."""

_FIELD: Final = re.compile(r"k([0-9]{1,12})")


@dataclass(frozen=True, slots=True)
class SessionKey:
    """One signing key.

    Attributes:
        kid: its public name, which stands in the token's header.
        made_at: when it was made, in seconds since the epoch.
        secret: 32 random bytes.
    """

    kid: str
    made_at: int
    secret: bytes = field(repr=False)


def session_key_field(made_at: int) -> str:
    """Return the name of the field, and ``kid``, of a key made at a time in seconds since the epoch."""
    return f"k{made_at}"


def format_session_key(secret: bytes) -> str:
    """Return the content of the field of a key.

    Raises:
        ValueError: the key has not 32 bytes.
    """
    if len(secret) != SESSION_KEY_LENGTH:
        raise ValueError(f"a session key must have {SESSION_KEY_LENGTH} bytes, not {len(secret)}")
    return base64.b64encode(secret).decode()


def parse_session_keys(fields: Mapping[str, str]) -> tuple[SessionKey, ...]:
    """Return the keys in a Secret's decoded fields, the newest, which signs, first.

    Fields that hold no key are passed over: a key that cannot be read must not take the others with it.
    """
    keys = (_parse(name, text) for name, text in fields.items())
    return tuple(sorted((key for key in keys if key), key=lambda key: key.made_at, reverse=True))


def _parse(name: str, text: str) -> SessionKey | None:
    match = _FIELD.fullmatch(name)
    if match is None:
        return None
    try:
        secret = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return SessionKey(name, int(match[1]), secret) if len(secret) == SESSION_KEY_LENGTH else None

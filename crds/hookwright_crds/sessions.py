"""Pure: the form of the keys that sign session tokens, in a Secret of the installation's namespace.

The operator creates the Secret and rotates it; the API reads it. Each field of the Secret is one key. The field's name
is ``k<seconds since the epoch at its creation>`` and is the token's ``kid``. Its content is the base64 text of 32
random bytes. The newest key signs and all keys verify, so a rotation logs no user out. A key may be removed once every
token that it signed has expired.
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
"""Bytes of a key; HMAC-SHA256 needs at least this many (RFC 7518, 3.2)."""

_FIELD: Final = re.compile(r"k([0-9]{1,12})")


@dataclass(frozen=True, slots=True)
class SessionKey:
    """One signing key.

    Attributes:
        kid: its public name, which the token's header contains.
        made_at: when it was created, in seconds since the epoch.
        secret: 32 random bytes.
    """

    kid: str
    made_at: int
    secret: bytes = field(repr=False)


def session_key_field(made_at: int) -> str:
    """Return the field name, and ``kid``, of a key that is created at a time in seconds since the epoch."""
    return f"k{made_at}"


def format_session_key(secret: bytes) -> str:
    """Return the content of the field of a key.

    Raises:
        ValueError: the key does not have 32 bytes.
    """
    if len(secret) != SESSION_KEY_LENGTH:
        raise ValueError(f"a session key must have {SESSION_KEY_LENGTH} bytes, not {len(secret)}")
    return base64.b64encode(secret).decode()


def parse_session_keys(fields: Mapping[str, str]) -> tuple[SessionKey, ...]:
    """Return the keys in a Secret's decoded fields, newest first; the newest key signs.

    Invalid fields are ignored, so that one unreadable key does not disable the others.
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

"""Pure: the form of the keys that sign session tokens, and of ended sessions, each in a Secret of the users' namespace.

The operator creates the Secret and rotates it; the API reads it. Each field of the Secret is one key. The field's name
is ``k<seconds since the epoch at its creation>`` and is the token's ``kid``. Its content is the base64 text of 32
random bytes. The newest key signs and all keys verify, so a rotation logs no user out. A key may be removed once every
token that it signed has expired.

The operator also creates the Secret of ended sessions, and the API patches it. Each field is one user: its name is the
name of the user's Secret, its content is a time. Tokens of the user that were issued until then are refused. So the
Secret has at most one field for each user, however often users log out.
"""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

SESSION_KEYS_NAME: Final = "hookwright-session-keys"
SESSION_KEYS_TYPE: Final = "hookwright.dev/session-keys"
ENDED_SESSIONS_NAME: Final = "hookwright-ended-sessions"
ENDED_SESSIONS_TYPE: Final = "hookwright.dev/ended-sessions"
SESSION_KEY_LENGTH: Final = 32
"""Bytes of a key; HMAC-SHA256 needs at least this many (RFC 7518, 3.2)."""
SESSION_KEY_FIELD: Final = re.compile(r"k([0-9]{1,12})")
"""The form of the field name of a key."""

_TIME: Final = re.compile(r"[0-9]{1,15}")


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


def parse_session_end(text: str) -> float:
    """Return the content of a field of ended sessions, in milliseconds since the epoch.

    An unreadable time is infinite, so that no session of the user counts that may have been ended.
    """
    return int(text) if _TIME.fullmatch(text) else float("inf")


def _parse(name: str, text: str) -> SessionKey | None:
    match = SESSION_KEY_FIELD.fullmatch(name)
    if match is None:
        return None
    try:
        secret = base64.b64decode(text, validate=True)
    except ValueError:
        return None
    return SessionKey(name, int(match[1]), secret) if len(secret) == SESSION_KEY_LENGTH else None

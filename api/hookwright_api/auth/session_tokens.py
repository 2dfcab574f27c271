"""Session tokens: JWT (RFC 7519) signed with HMAC-SHA256 by keys that the operator creates.

A token has the user of its session and its expiry. Every request reads the user's organization from the view. It also
checks there that the user still exists with the same password.
"""

import hmac
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import jwt

from hookwright_api.view.table_records import UserRecord
from hookwright_api.view.view import View
from hookwright_crds.sessions import SessionKey

_ALGORITHM: Final = "HS256"
_ISSUER: Final = "hookwright"
_AUDIENCE: Final = "hookwright-api"
_FINGERPRINT: Final = "pwf"
_MAX_LENGTH: Final = 4096


@dataclass(frozen=True, slots=True)
class Session:
    """A session that is valid now."""

    user: UserRecord
    expires_at: datetime


def issue_token(key: SessionKey, user: UserRecord, *, now: datetime, ttl: timedelta) -> tuple[str, datetime]:
    """Return a token for a user, and its expiry, in whole seconds."""
    expires_at = (now + ttl).replace(microsecond=0)
    claims = {
        "iss": _ISSUER,
        "aud": _AUDIENCE,
        "sub": user.email,
        "iat": int(now.timestamp()),
        "exp": int(expires_at.timestamp()),
        _FINGERPRINT: user.fingerprint,
    }
    return jwt.encode(claims, key.secret, algorithm=_ALGORITHM, headers={"kid": key.kid}), expires_at


def read_token(view: View, token: str, now: datetime) -> Session | None:
    """Return the session of a token, None if it is not valid: forged, expired, or ended by a new password."""
    claims = _verified(view.session_keys, token) if len(token) <= _MAX_LENGTH else None
    if claims is None or now.timestamp() >= claims["exp"]:
        return None
    user = view.user(str(claims["sub"]))
    fingerprint = str(claims.get(_FINGERPRINT, ""))
    if user is None or not hmac.compare_digest(fingerprint.encode(), user.fingerprint.encode()):
        return None
    return Session(user, datetime.fromtimestamp(claims["exp"], tz=UTC))


def _verified(keys: tuple[SessionKey, ...], token: str) -> dict[str, Any] | None:
    try:
        kid = jwt.get_unverified_header(token).get("kid")
        key = next((known for known in keys if known.kid == kid), None)
        if key is None:
            return None
        # The expiry is checked below with the clock that is a parameter.
        return jwt.decode(
            token,
            key.secret,
            algorithms=[_ALGORITHM],
            issuer=_ISSUER,
            audience=_AUDIENCE,
            options={"require": ["exp", "iat", "sub"], "verify_exp": False, "verify_iat": False},
        )
    except (jwt.InvalidTokenError, ValueError):
        return None

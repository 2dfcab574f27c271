"""Session tokens: JWT (RFC 7519) signed with HMAC-SHA256 by keys that the operator creates.

A token has the user of its session, its expiry and the time of its issue, in milliseconds. Every request reads the
user's organization from the view. It also checks there that the user still exists with the same password, and did not
log out since.

The clocks of replicas differ. So a logout ends at least the token that it presents, and a later login issues a token
that is newer than the last logout.
"""

import hmac
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import inf
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
    issued_ms: int


def issue_token(view: View, user: UserRecord, *, now: datetime, ttl: timedelta) -> tuple[str, datetime]:
    """Return a token for a user, and its expiry, in whole seconds; the view must have a session key."""
    key = view.session_keys[0]
    end_ms = view.sessions_end(user)
    issued_ms = max(milliseconds(now), int(end_ms) + 1 if end_ms < inf else 0)
    expires_at = (now + ttl).replace(microsecond=0)
    claims = {
        "iss": _ISSUER,
        "aud": _AUDIENCE,
        "sub": user.email,
        "iat": issued_ms / 1000,
        "exp": int(expires_at.timestamp()),
        _FINGERPRINT: user.fingerprint,
    }
    return jwt.encode(claims, key.secret, algorithm=_ALGORITHM, headers={"kid": key.kid}), expires_at


def milliseconds(moment: datetime) -> int:
    """Return a time in milliseconds since the epoch."""
    return round(moment.timestamp() * 1000)


def read_token(view: View, token: str, now: datetime, ttl: timedelta) -> Session | None:
    """Return the session of a token, None if it is not valid: forged, expired, or ended by a new password or a logout.

    A token that is older than the lifetime ``ttl`` is expired too. So a shorter lifetime also counts for present
    tokens, and an end of sessions need not be kept for longer.
    """
    claims = _verified(view.session_keys, token) if len(token) <= _MAX_LENGTH else None
    if claims is None or now.timestamp() >= claims["exp"]:
        return None
    user = view.user(str(claims["sub"]))
    fingerprint = str(claims.get(_FINGERPRINT, ""))
    if user is None or not hmac.compare_digest(fingerprint.encode(), user.fingerprint.encode()):
        return None
    issued_ms = round(claims["iat"] * 1000)
    if issued_ms <= view.sessions_end(user) or milliseconds(now - ttl) >= issued_ms:
        return None
    return Session(user, datetime.fromtimestamp(claims["exp"], tz=UTC), issued_ms)


def _verified(keys: tuple[SessionKey, ...], token: str) -> dict[str, Any] | None:
    try:
        kid = jwt.get_unverified_header(token).get("kid")
        key = next((candidate for candidate in keys if candidate.kid == kid), None)
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

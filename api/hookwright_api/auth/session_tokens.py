"""Sessions: tokens, which are JWT (RFC 7519) signed with HMAC-SHA256 by keys of the operator, and their ends.

A token has the user of its session, its expiry and the time of its issue, in milliseconds. Every request reads the
user's organization from the view. It also checks there that the user still exists with the same password, and did not
log out since. The end of all sessions of a user is in a Secret that every replica watches.

The clocks of replicas differ. So a logout ends at least the token that it presents, and a later login issues a token
that is newer than the last logout.
"""

import asyncio
import base64
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any, Final

import jwt
import structlog

from hookwright_api.services import Services
from hookwright_api.view.table_records import UserRecord
from hookwright_api.view.view import View
from hookwright_crds.base import secrets_path
from hookwright_crds.sessions import ENDED_SESSIONS_NAME, SessionKey
from hookwright_runtime.errors import KubeError
from hookwright_runtime.problems import unavailable

log = structlog.get_logger(__name__)

_ALGORITHM: Final = "HS256"
_ISSUER: Final = "hookwright"
_AUDIENCE: Final = "hookwright-api"
_FINGERPRINT: Final = "pwf"
_MAX_LENGTH: Final = 4096
_SKEW: Final = timedelta(minutes=10)
"""Ends are kept for longer than tokens are valid, because the clocks of replicas may differ."""


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


async def end_sessions(services: Services, session: Session) -> None:
    """End every session of a user; return when the API server has stored it.

    Raises:
        ProblemError: 503, it is not known whether the sessions ended.
    """
    try:
        # Logouts of this replica take turns, so only those of others make more than one write necessary.
        async with asyncio.timeout(services.settings.create_timeout), services.session_ends_lock:
            # One of the logouts before this one may have ended the session.
            while services.view.sessions_end(session.user) < session.issued_ms:
                await _write_end(services, session)
    except (KubeError, TimeoutError) as error:
        log.warning("end of sessions not written, refusing the logout", error=str(error) or type(error).__name__)
        raise unavailable("it is not known whether the sessions ended; log out again") from None


async def _write_end(services: Services, session: Session) -> None:
    """Write the end once; if another replica wrote in between, return when the view has its state."""
    namespace, table = services.settings.users_namespace, services.view.ended_sessions
    ended_sessions = table.get(namespace, ENDED_SESSIONS_NAME)
    if ended_sessions is None:
        raise unavailable("the operator has not created the Secret of ended sessions yet; log out again")
    version, changes = ended_sessions.identity.version, _ends(services, session, ended_sessions.ends)
    body = {"metadata": {"resourceVersion": str(version)}, "data": changes}
    try:
        table.put(await services.kube.merge(secrets_path(namespace, ENDED_SESSIONS_NAME), body))
    except KubeError as error:
        if error.status != 409:
            raise
        # A write of an older state could replace a later end by an earlier one.
        await table.wait(
            namespace,
            ENDED_SESSIONS_NAME,
            lambda record: record is None or record.identity.version > version,
            seconds=services.settings.create_timeout,
        )


def _ends(services: Services, session: Session, ends: Mapping[str, float]) -> dict[str, str | None]:
    """Return the changed fields: the end of the user's sessions, and null for ends that no valid token can need."""
    now = services.now()
    oldest = milliseconds(now - services.settings.session_ttl - _SKEW)
    end_ms = max(milliseconds(now), session.issued_ms)
    changes: dict[str, str | None] = {name: None for name, end in ends.items() if end < oldest}
    return {**changes, session.user.identity.name: base64.b64encode(str(end_ms).encode()).decode()}

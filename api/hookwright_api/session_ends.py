"""The end of all sessions of a user, in a Secret that every replica watches."""

import asyncio
import base64
from collections.abc import Mapping
from datetime import timedelta
from typing import Final

import structlog

from hookwright_api.auth.session_tokens import Session, milliseconds
from hookwright_api.services import Services
from hookwright_crds.base import secrets_path
from hookwright_crds.sessions import ENDED_SESSIONS_NAME
from hookwright_runtime.errors import KubeError
from hookwright_runtime.problems import ProblemError, unavailable

log = structlog.get_logger(__name__)

_ATTEMPTS: Final = 8
"""Writes of one logout: logouts of this replica take turns, so only those of others make more than one necessary."""
_SKEW: Final = timedelta(minutes=10)
"""Ends are kept for longer than tokens are valid, because the clocks of replicas may differ."""


async def end_sessions(services: Services, session: Session) -> None:
    """End every session of a user; return when the API server has stored it.

    Raises:
        ProblemError: 503, the sessions were not ended.
    """
    failure = unavailable("the sessions were not ended; log out again")
    try:
        async with asyncio.timeout(services.settings.create_timeout):
            await services.session_ends_lock.acquire()
    except TimeoutError:
        raise failure from None
    try:
        # One of the logouts before this one may have ended the session.
        if services.view.sessions_end(session.user) < session.issued_ms:
            await _write_end(services, session, failure)
    finally:
        services.session_ends_lock.release()


async def _write_end(services: Services, session: Session, failure: ProblemError) -> None:
    namespace, table = services.settings.users_namespace, services.view.ended_sessions
    path = secrets_path(namespace, ENDED_SESSIONS_NAME)
    for _ in range(_ATTEMPTS):
        ended_sessions = table.get(namespace, ENDED_SESSIONS_NAME)
        if ended_sessions is None:
            raise unavailable("the operator has not created the Secret of ended sessions yet; log out again")
        version = ended_sessions.identity.version
        body = {"metadata": {"resourceVersion": str(version)}, "data": _ends(services, session, ended_sessions.ends)}
        try:
            table.put(await services.kube.merge(path, body))
        except KubeError as error:
            if error.status != 409:
                log.warning("end of sessions not written, refusing the logout", error=str(error))
                raise failure from None
        else:
            return
        try:
            # A write of an older state could replace a later end by an earlier one, so this waits for the newer state.
            await table.wait(
                namespace,
                ENDED_SESSIONS_NAME,
                lambda record, old_version=version: record is None or record.identity.version > old_version,  # type: ignore[misc]
                seconds=services.settings.create_timeout,
            )
        except TimeoutError:
            raise failure from None
    raise failure


def _ends(services: Services, session: Session, ends: Mapping[str, float]) -> dict[str, str | None]:
    """Return the changed fields: the end of the user's sessions, and null for ends that no valid token can need."""
    now = services.now()
    oldest = milliseconds(now - services.settings.session_ttl - _SKEW)
    end_ms = max(milliseconds(now), session.issued_ms)
    changes: dict[str, str | None] = {name: None for name, end in ends.items() if end < oldest}
    return {**changes, session.user.identity.name: base64.b64encode(str(end_ms).encode()).decode()}

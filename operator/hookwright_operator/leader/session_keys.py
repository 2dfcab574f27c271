"""Creation and rotation of the keys that sign the dashboard's session tokens; the API only reads them.

The Secret of ended sessions is created here too, because the API may patch this one Secret and create none.
"""

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from hookwright_crds.base import MANAGED_BY, MANAGER, secrets_path
from hookwright_crds.sessions import (
    ENDED_SESSIONS_NAME,
    ENDED_SESSIONS_TYPE,
    SESSION_KEY_LENGTH,
    SESSION_KEYS_NAME,
    SESSION_KEYS_TYPE,
    format_session_key,
    parse_session_keys,
    session_key_field,
)
from hookwright_operator.watch.changes import Changes
from hookwright_runtime.errors import KubeError
from hookwright_runtime.kubernetes import KubernetesClient

log = structlog.get_logger(__name__)

_LOOK_SECONDS: Final = 2.0
"""Seconds between two checks of the cache; a check needs no request."""
_PAUSE_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True)
class SessionKeys:
    """The Secret of the session keys, kept up to date.

    Attributes:
        rotate_after: seconds until the newest key gets a successor.
        keep: seconds for which a replaced key still verifies; at least as long as a session lasts.
    """

    kube: KubernetesClient
    changes: Changes
    namespace: str
    rotate_after: float
    keep: float
    clock: Callable[[], float]

    async def run(self) -> None:
        """Check repeatedly, until cancelled."""
        await self.changes.synced.wait()
        while True:
            try:
                await self._ensure()
                if self.changes.cache.secret_at(self.namespace, ENDED_SESSIONS_NAME) is None:
                    await self._create(ENDED_SESSIONS_NAME, ENDED_SESSIONS_TYPE, {})
                pause = _LOOK_SECONDS
            except KubeError as error:
                log.warning("session keys not written, retrying", error=str(error))
                pause = _PAUSE_SECONDS
            await asyncio.sleep(pause)

    async def _ensure(self) -> None:
        """Create a key if one is needed, and remove expired keys.

        Raises:
            KubeError: the API server refused the request, or is unavailable.
        """
        now = self.clock()
        secret = self.changes.cache.secret_at(self.namespace, SESSION_KEYS_NAME)
        keys = parse_session_keys(secret.fields) if secret else ()
        additions: dict[str, str | None] = {}
        if not keys or now - keys[0].made_at >= self.rotate_after:
            additions[session_key_field(int(now))] = format_session_key(secrets.token_bytes(SESSION_KEY_LENGTH))
        if secret is None:
            await self._create(SESSION_KEYS_NAME, SESSION_KEYS_TYPE, additions)
            return
        # The keys are sorted, the newest first.
        pairs = zip(keys[1:], keys, strict=False)
        drop: dict[str, str | None] = {
            key.kid: None for key, successor in pairs if now - successor.made_at >= self.keep
        }
        if additions or drop:
            path = secrets_path(self.namespace, SESSION_KEYS_NAME)
            self.changes.cache.see_secret(await self.kube.merge(path, {"stringData": additions, "data": drop}))
            log.info("session keys rotated", made=list(additions), dropped=list(drop))

    async def _create(self, name: str, kind: str, fields: dict[str, str | None]) -> None:
        metadata = {"name": name, "namespace": self.namespace, "labels": {MANAGED_BY: MANAGER}}
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": kind,
            "metadata": metadata,
            "stringData": fields,
        }
        try:
            self.changes.cache.see_secret(await self.kube.post(secrets_path(self.namespace), body))
        except KubeError as error:
            if error.status != 409:
                raise
            # The Secret exists without Hookwright's label, or the watch has not shown it yet: keep its content.
            label = {"metadata": {"labels": metadata["labels"]}}
            path = secrets_path(self.namespace, name)
            self.changes.cache.see_secret(await self.kube.merge(path, label))

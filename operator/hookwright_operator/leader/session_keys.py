"""Creation and rotation of the keys that sign the dashboard's session tokens; the API only reads them."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from hookwright_crds.sessions import (
    SESSION_KEY_LENGTH,
    SESSION_KEYS_NAME,
    SESSION_KEYS_TYPE,
    SessionKey,
    format_session_key,
    parse_session_keys,
    session_key_field,
)
from hookwright_operator.watch.cache import Cache
from hookwright_operator.watch.kubernetes_paths import secrets_path
from hookwright_operator.watch.objects import MANAGED_BY, MANAGER
from hookwright_runtime.errors import KubeError
from hookwright_runtime.kubernetes import KubernetesClient

log = structlog.get_logger(__name__)

_LOOK_SECONDS: Final = 2.0
"""Seconds between two checks of the cache; a check needs no request."""
_PAUSE_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True)
class Rotation:
    """The rotation times of keys, in seconds.

    Attributes:
        every: the age at which the newest key gets a successor.
        keep: how long a replaced key still verifies; at least as long as a session lasts.
    """

    every: float
    keep: float


def wants_new(keys: Sequence[SessionKey], rotation: Rotation, now: float) -> bool:
    """Return whether a new key is needed: there is none, or the newest has reached its age limit."""
    return not keys or now - keys[0].made_at >= rotation.every


def outlived(keys: Sequence[SessionKey], rotation: Rotation, now: float) -> tuple[str, ...]:
    """Return the names of the ``keys`` (newest first) that no valid token can use any more."""
    successors = zip(keys[1:], keys, strict=False)
    return tuple(key.kid for key, successor in successors if now - successor.made_at >= rotation.keep)


class SessionKeys:
    """The Secret of the session keys, kept up to date."""

    def __init__(
        self, kube: KubernetesClient, cache: Cache, *, namespace: str, rotation: Rotation, clock: Callable[[], float]
    ) -> None:
        self._kube, self._cache = kube, cache
        self._namespace, self._rotation, self._clock = namespace, rotation, clock

    async def run(self) -> None:
        """Check repeatedly, until cancelled."""
        while True:
            try:
                await self.ensure()
                pause = _LOOK_SECONDS
            except KubeError as error:
                log.warning("session keys not written, retrying", error=str(error))
                pause = _PAUSE_SECONDS
            await asyncio.sleep(pause)

    async def ensure(self) -> None:
        """Create a key if one is needed, and remove expired keys.

        Raises:
            KubeError: the API server refused the request, or is unavailable.
        """
        now = self._clock()
        known = self._cache.secret_at(self._namespace, SESSION_KEYS_NAME)
        keys = parse_session_keys(known.fields) if known else ()
        made: dict[str, str | None] = {}
        if wants_new(keys, self._rotation, now):
            made[session_key_field(int(now))] = format_session_key(secrets.token_bytes(SESSION_KEY_LENGTH))
        if known is None:
            await self._create(made)
            return
        drop: dict[str, str | None] = dict.fromkeys(outlived(keys, self._rotation, now))
        if made or drop:
            path = secrets_path(self._namespace, SESSION_KEYS_NAME)
            self._cache.see_secret(await self._kube.merge(path, {"stringData": made, "data": drop}))
            log.info("session keys rotated", made=list(made), dropped=list(drop))

    async def _create(self, fields: dict[str, str | None]) -> None:
        metadata = {"name": SESSION_KEYS_NAME, "namespace": self._namespace, "labels": {MANAGED_BY: MANAGER}}
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": SESSION_KEYS_TYPE,
            "metadata": metadata,
            "stringData": fields,
        }
        try:
            self._cache.see_secret(await self._kube.post(secrets_path(self._namespace), body))
        except KubeError as error:
            if error.status != 409:
                raise
            # The Secret exists without Hookwright's label, or the watch has not shown it yet: keep its content.
            label = {"metadata": {"labels": metadata["labels"]}}
            path = secrets_path(self._namespace, SESSION_KEYS_NAME)
            self._cache.see_secret(await self._kube.merge(path, label))

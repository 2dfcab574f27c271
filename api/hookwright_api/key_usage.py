"""Records when a key was last used: rarely, and never within a request."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import structlog

from hookwright_api.view.table import Table
from hookwright_api.view.table_records import KeyRecord
from hookwright_crds import API_VERSION
from hookwright_crds.base import format_timestamp, object_path
from hookwright_runtime.errors import KubeError
from hookwright_runtime.kubernetes import KubernetesClient

log = structlog.get_logger(__name__)

_MAX_WAITING: Final = 1000
"""Most keys that wait to be written; if there are more, a later use is written instead."""


@dataclass(eq=False)
class KeyUsage:
    """The last use of every key, written to its status once per interval by `run`."""

    kube: KubernetesClient
    keys: Table[KeyRecord]
    interval: timedelta
    now: Callable[[], datetime]
    _noted: dict[str, datetime] = field(default_factory=dict, init=False)
    _waiting: asyncio.Queue[KeyRecord] = field(default_factory=lambda: asyncio.Queue(_MAX_WAITING), init=False)

    def note(self, key: KeyRecord) -> None:
        """Record that a key was used now."""
        now = self.now()
        last_used_at = max(filter(None, (key.last_used_at, self._noted.get(key.identity.uid))), default=None)
        if (last_used_at is not None and now - last_used_at < self.interval) or self._waiting.full():
            return
        if len(self._noted) > 10 * _MAX_WAITING:
            self._noted.clear()
        self._noted[key.identity.uid] = now
        self._waiting.put_nowait(key)

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            key = await self._waiting.get()
            try:
                await self._write(key)
            except KubeError as error:
                log.warning("last use of a key not written, skipping it", key=key.identity.name, error=str(error))
            except Exception:
                # The loop lives as long as the process; no fault of one write may end it.
                log.exception("last use of a key not written, skipping it", key=key.identity.name)

    async def _write(self, key: KeyRecord) -> None:
        identity = key.identity
        body = {
            "apiVersion": API_VERSION,
            "kind": "ApiKey",
            # The uid prevents a write to another key that has the same name.
            "metadata": {"name": identity.name, "namespace": identity.namespace, "uid": identity.uid},
            "status": {"lastUsedAt": format_timestamp(self._noted.get(identity.uid, self.now()))},
        }
        path = object_path("apikeys", identity.namespace, identity.name, "status")
        self.keys.put(await self.kube.apply(path, body))

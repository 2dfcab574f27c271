"""An informer: a list, then a watch from its version, which keep a table current.

Source: Kubernetes API concepts, "Efficient detection of changes". A new watch continues at the version at which the
last one ended. Only if that version is too old (410 Gone), the informer lists again. That list also removes the objects
that were deleted in the gap.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from hookwright_api.metrics import VIEW_LISTS
from hookwright_api.view.table import Table
from hookwright_crds.trimming import trimmed_with_labels
from hookwright_runtime.errors import KubeError
from hookwright_runtime.kubernetes import KubernetesClient

log = structlog.get_logger(__name__)

Object = Mapping[str, Any]

_WATCH_SECONDS: Final = (240, 300)
_FIRST_DELAY: Final = 0.1
_LONGEST_DELAY: Final = 5.0
_random_between: Final = random.uniform
"""So that replicas do not send their requests at the same time."""


@dataclass(eq=False)
class Informer:
    """An informer of one table for one path.

    Attributes:
        kube: the client of the API server.
        name: the resource, for metrics and the log.
        path: the path to list and watch.
        table: the target of the objects.
        params: selectors.
        namespace: the namespace of the path, None for all.
        synced: set after the first list.
    """

    kube: KubernetesClient
    name: str
    path: str
    table: Table[Any]
    params: Mapping[str, str] = field(default_factory=dict)
    namespace: str | None = None
    synced: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _version: str = field(default="", init=False)
    _failures: int = field(default=0, init=False)
    _alive_at: float | None = field(default=None, init=False)

    def age(self, now: float) -> float:
        """Return the seconds since the last data of the API server; infinite before the first."""
        return float("inf") if self._alive_at is None else max(0.0, now - self._alive_at)

    async def run(self) -> None:
        """Update the table until cancelled."""
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
                self._failures = 0
            except KubeError as error:
                if error.status == 410:
                    log.info("watch expired, listing again", resource=self.name)
                    self._version = ""
                    continue
                log.warning("watch failed", resource=self.name, error=str(error))
                await self._back_off()
            except Exception:
                # A watch that has ended finally would leave revoked keys valid, so the informer restarts after every
                # error.
                log.exception("watch failed unexpectedly, listing again", resource=self.name)
                self._version = ""
                await self._back_off()

    async def _back_off(self) -> None:
        delay = min(_FIRST_DELAY * 2.0**self._failures, _LONGEST_DELAY)
        self._failures = min(self._failures + 1, 10)
        await asyncio.sleep(_random_between(delay / 2, delay))

    def _alive(self) -> None:
        self._alive_at = asyncio.get_running_loop().time()
        self._failures = 0

    async def _list(self) -> None:
        objects: list[Object] = []
        version = ""
        async for page in self.kube.pages(self.path, **self.params):
            objects += page["items"]
            version = str(page["metadata"].get("resourceVersion", ""))
        self._version = version
        self.table.replace(objects, int(version or 0), namespace=self.namespace)
        self._alive()
        VIEW_LISTS.labels(self.name).inc()
        self.synced.set()

    async def _watch(self) -> None:
        seconds = int(_random_between(*_WATCH_SECONDS))
        params = {
            **self.params,
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }
        async with self.kube.watch(self.path, **params) as events:
            self._alive()
            await self._follow(events)

    async def _follow(self, events: AsyncIterator[Object]) -> None:
        async for event in events:
            kind, resource = event.get("type"), event.get("object") or {}
            if kind == "ERROR":
                raise KubeError(f"WATCH {self.path}: {resource.get('message')}", status=int(resource.get("code") or 0))
            if kind in ("ADDED", "MODIFIED"):
                self.table.put(trimmed_with_labels(resource))
            elif kind == "DELETED":
                self.table.remove(resource)
            self._version = resource["metadata"]["resourceVersion"]
            self._alive()

"""An informer: a list, then a watch from its version, which keep a table current.

Source: Kubernetes API concepts, "Efficient detection of changes". A new watch continues at the version at which the
last one ended. Only if that version is too old (410 Gone), the informer lists again. That list also removes the objects
that were deleted in the gap.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
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


class ExpiredError(Exception):
    """The watch cannot continue from its last version (410 Gone)."""


class Informer:
    """An informer of one table for one path."""

    def __init__(
        self,
        kube: KubernetesClient,
        name: str,
        path: str,
        table: Table[Any],
        *,
        params: Mapping[str, str] | None = None,
        namespace: str | None = None,
        choose: Callable[[float, float], float] = random.uniform,
    ) -> None:
        """Initialize without running.

        Args:
            kube: the client of the API server.
            path: the path to list and watch.
            table: the target of the objects.
            name: the resource, for metrics and the log.
            params: selectors.
            namespace: the namespace of the path, None for all.
            choose: returns a random number between two, so that replicas do not send their requests at the same time.
        """
        self.name = name
        self.synced = asyncio.Event()
        self._kube = kube
        self._path = path
        self._table = table
        self._params = dict(params or {})
        self._namespace = namespace
        self._choose = choose
        self._version = ""
        self._failures = 0
        self._alive_at: float | None = None

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
            except ExpiredError:
                log.info("watch expired, listing again", resource=self.name)
                self._version = ""
            except KubeError as error:
                if error.status == 410:
                    self._version = ""
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
        await asyncio.sleep(self._choose(delay / 2, delay))

    def _alive(self) -> None:
        self._alive_at = asyncio.get_running_loop().time()
        self._failures = 0

    async def _list(self) -> None:
        objects: list[Object] = []
        version = ""
        async for page in self._kube.pages(self._path, **self._params):
            objects += page["items"]
            version = str(page["metadata"].get("resourceVersion", ""))
        self._version = version
        self._table.replace(objects, int(version or 0), namespace=self._namespace)
        self._alive()
        VIEW_LISTS.labels(self.name).inc()
        self.synced.set()

    async def _watch(self) -> None:
        seconds = int(self._choose(*_WATCH_SECONDS))
        params = {
            **self._params,
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(seconds),
        }
        async with self._kube.watch(self._path, **params) as events:
            self._alive()
            await self._follow(events)

    async def _follow(self, events: AsyncIterator[Object]) -> None:
        async for event in events:
            kind, resource = event.get("type"), event.get("object") or {}
            if kind == "ERROR":
                if resource.get("code") == 410:
                    raise ExpiredError
                raise KubeError(f"WATCH {self._path}: {resource.get('message')}", status=int(resource.get("code") or 0))
            if kind in ("ADDED", "MODIFIED"):
                self._table.put(trimmed_with_labels(resource))
            elif kind == "DELETED":
                self._table.remove(resource)
            self._version = resource["metadata"]["resourceVersion"]
            self._alive()

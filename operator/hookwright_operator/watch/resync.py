"""Comparison of the cache with the objects in the API server.

At the start, no event reports that the watches have shown every object. If a watch is interrupted for too long, the API
server no longer knows the missed events. kopf then lists the objects again and shows the existing ones, but it does not
report the deleted ones. So after such a gap, this module lists every kind once more. It also lists kinds of which kopf
showed no object, because all objects of them may be deleted.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import structlog

from hookwright_crds.base import core_path, object_path
from hookwright_operator.watch.changes import Changes
from hookwright_operator.watch.objects import MODELS, SELECTORS, WATCHED_KINDS, WatchedKind, plural
from hookwright_runtime.kubernetes import KubernetesClient

log = structlog.get_logger(__name__)

_PAUSE: Final = 2.0
_LOOK_SECONDS: Final = 0.1
_LOOKS: Final = 50
_METADATA: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


async def uids_of(kube: KubernetesClient, kind: WatchedKind, namespaces: Collection[str]) -> set[str]:
    """Return the uids of all watched objects of a kind, page by page.

    Args:
        kube: used to list the objects.
        kind: kind of the objects.
        namespaces: the namespaces to list; empty: all.

    Raises:
        KubeError: the objects cannot be listed.
    """
    uids: set[str] = set()
    selectors = SELECTORS if kind is None else SELECTORS[1:] if kind == "ConfigMap" else ()
    for namespace in namespaces or (None,):
        path = object_path(plural(kind), namespace) if kind in MODELS else core_path(plural(kind), namespace)
        for query in [{"labelSelector": selector} for selector in selectors] or [{}]:
            async for page in kube.pages(path, accept=_METADATA, **query):
                uids.update(body["metadata"]["uid"] for body in page["items"])
    return uids


@dataclass(frozen=True, slots=True)
class Resync:
    """The comparison of the cache with lists of the API server.

    Attributes:
        namespaces: the namespaces to serve; empty: all.
    """

    kube: KubernetesClient
    changes: Changes
    namespaces: Collection[str]

    async def until_shown(self) -> None:
        """Return when the watches have shown everything that exists.

        Raises:
            KubeError: the lists cannot be read.
        """
        while True:
            missing = {uid for kind in WATCHED_KINDS for uid in await uids_of(self.kube, kind, self.namespaces)}
            # A watch never shows an object that was created and deleted within a gap, so the list is read again after a
            # while.
            for _ in range(_LOOKS):
                missing = {uid for uid in missing if not self.changes.cache.knows(uid)}
                if not missing:
                    return
                await asyncio.sleep(_LOOK_SECONDS)

    async def run(self) -> None:
        """Apply missed deletions to the cache each time that kopf has listed a kind again, until cancelled."""
        while True:
            await asyncio.sleep(_PAUSE)
            if self.changes.was_relisted:
                await self._resync()

    async def _resync(self) -> None:
        self.changes.was_relisted = False
        try:
            deletions = sum([await self._resync_kind(kind) for kind in WATCHED_KINDS])
        except BaseException:
            self.changes.was_relisted = True
            raise
        if deletions:
            log.info("watch missed deletions, applying them now", objects=deletions)

    async def _resync_kind(self, kind: WatchedKind) -> int:
        before = list(self.changes.cache.names(kind))
        present = await uids_of(self.kube, kind, self.namespaces)
        deletions = [(name, uid) for name, uid in before if uid not in present]
        for (namespace, name), uid in deletions:
            body = {"metadata": {"namespace": namespace, "name": name, "uid": uid}}
            self.changes.apply(kind, "DELETED", body)
        return len(deletions)

"""Applies the changes that the watches show to the cache, and adds the affected objects to the work queue."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from hookwright_crds.resources import Kind
from hookwright_operator.watch.cache import Cache
from hookwright_operator.watch.objects import Key, WatchedKind
from hookwright_operator.watch.work_queue import WorkQueue

log = structlog.get_logger(__name__)

_CHILDREN_SECONDS: Final = 0.5
"""Delay between a change of what an object names and the update of the counts there; collects many objects."""


@dataclass(slots=True)
class Changes:
    """The cache and the work queue, as the handlers update them.

    Attributes:
        complete: whether everything that existed at the start was seen; until then nothing is reconciled.
        synced: set when all of that has been reconciled once.
        was_relisted: whether kopf listed a kind again after a gap, in which deletions may have been missed.
    """

    cache: Cache
    queue: WorkQueue
    complete: bool = False
    synced: asyncio.Event = field(default_factory=asyncio.Event)
    was_relisted: bool = False

    def apply(self, kind: WatchedKind, change: str | None, body: Mapping[str, Any]) -> None:
        """Store an object in the cache, or a Secret for None, and enqueue it and the objects that depend on it."""
        if change is None and self.synced.is_set():
            self.was_relisted = True
        if kind is None or kind == "ConfigMap":
            self._apply_secret(change, body, is_config_map=kind == "ConfigMap")
            return
        meta = body["metadata"]
        key = Key(kind, meta["namespace"], meta["name"])
        before = self.cache.living(key)
        is_new = change == "DELETED" or self._store(kind, body)
        if change == "DELETED":
            self.cache.lose(kind, body)
        # An answer to an own write may have changed them before.
        references = self.cache.take_changed_references()
        if not self.complete:
            return
        for reference in references:
            self.queue.add(reference, _CHILDREN_SECONDS)
        if not is_new:
            return
        self.queue.add(key)
        # The dependents do not depend on counts. With each new one, all of them would be reconciled.
        if self.cache.living(key) != before:
            for dependent in self.cache.dependents(key):
                self.queue.add(dependent)

    def _apply_secret(self, change: str | None, body: Mapping[str, Any], *, is_config_map: bool) -> None:
        """Store a Secret or ConfigMap, and enqueue its owner and the endpoints that name it as a credential."""
        store = self.cache.lose_secret if change == "DELETED" else self.cache.see_secret
        secret = store(body, is_config_map=is_config_map)
        if secret is None or not self.complete:
            return
        owner = self.cache.owner_of(secret)
        users = self.cache.credential_users((secret.namespace, secret.name))
        for key in (*((owner,) if owner is not None else ()), *users):
            self.queue.add(key)

    async def reconcile_all(self) -> None:
        """Enqueue every object, and return when all of them have been reconciled."""
        for key in self.cache:
            self.queue.add(key)
        await self.queue.settled()

    def _store(self, kind: Kind, body: Mapping[str, Any]) -> bool:
        """Store an object in the cache; return whether it is new or changed."""
        try:
            return self.cache.see(kind, body) is not None
        except ValueError:
            meta = body["metadata"]
            log.exception("object does not fit the contract", kind=kind, namespace=meta["namespace"], name=meta["name"])
            return True

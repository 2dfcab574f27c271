"""All kopf handlers: each handler stores an object in the cache and enqueues the keys to reconcile.

kopf watches, lists and logs in. `reconcile.queue` decides when a key is reconciled. No key is reconciled before every
existing object was seen (`audit.until_shown`), because a plan from incomplete data would be wrong. kopf's own barrier,
its index functions, wakes every listed object for every other one: with 10,000 endpoints that took minutes. Only event
handlers are used, so kopf itself writes nothing: no finalizer, no annotation.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import kopf
import structlog

from hookwright_crds import GROUP, VERSION
from hookwright_crds.resources import Kind
from hookwright_crds.trimming import trimmed_secret
from hookwright_operator.pages import MOST_OBJECTS
from hookwright_operator.pulse import RENEWED, Pulse
from hookwright_operator.reconcile.cache import MODELS, Cache
from hookwright_operator.reconcile.paths import SELECTOR, plural
from hookwright_operator.reconcile.plan import Key
from hookwright_operator.reconcile.queue import WorkQueue

log = structlog.get_logger(__name__)

_CHILDREN_SECONDS: Final = 0.5
"""Delay between a child's creation or deletion and the update of its Project's counts; collects many children."""
_IDLE_SECONDS: Final = 0.1


@dataclass(slots=True)
class Watch:
    """The state that the handlers update.

    Attributes:
        complete: whether everything that existed at the start was seen; until then nothing is reconciled.
        synced: whether all of that has been reconciled once.
        pulse: when each watch was last answered.
        relisted: whether kopf listed a kind again after a gap, in which deletions may have been missed.
    """

    cache: Cache
    queue: WorkQueue
    complete: bool = False
    synced: bool = False
    relisted: bool = False
    pulse: Pulse = field(default_factory=lambda: Pulse([*map(plural, MODELS), "secrets"]))

    def see(self, kind: Kind, body: Mapping[str, Any]) -> bool:
        """Store an object in the cache; return whether it is new or changed."""
        try:
            return self.cache.see(kind, body) is not None
        except ValueError:
            meta = body["metadata"]
            log.exception("object does not fit the contract", kind=kind, namespace=meta["namespace"], name=meta["name"])
            return True

    def happened(self, kind: Kind, change: str | None, body: Mapping[str, Any]) -> None:
        """Store an object in the cache, and enqueue it and the objects that depend on it."""
        self._note(change)
        meta = body["metadata"]
        key = Key(kind, meta["namespace"], meta["name"])
        parent = self.cache.project(key.namespace, key.name)
        if change != "DELETED" and not self.see(kind, body):
            return
        project = self.cache.project_of(key)
        if change == "DELETED":
            self.cache.lose(kind, body)
        if not self.complete:
            return
        self.queue.add(key)
        if kind == "Project":
            # The other children do not depend on a Project's counts. With each new child, all of them would be
            # reconciled.
            if self.cache.project(key.namespace, key.name) != parent:
                for child in self.cache.children(key.namespace, key.name):
                    self.queue.add(child)
        elif project is not None and change != "MODIFIED":
            self.queue.add(project, _CHILDREN_SECONDS)

    def secret_happened(self, change: str | None, body: Mapping[str, Any]) -> None:
        """Store a Secret in the cache, and enqueue its owner."""
        self._note(change)
        if change != "DELETED" and self.cache.see_secret(body) is None:
            return
        secret = self.cache.lose_secret(body) if change == "DELETED" else self.cache.secret_of(body)
        owner = self.cache.owner_of(secret) if secret else None
        if owner is not None and self.complete:
            self.queue.add(owner)

    def _note(self, change: str | None) -> None:
        if change is None and self.synced:
            self.relisted = True


def own(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of an object that shares no memory with the list that contained it.

    The cache keeps some strings of an object. Strings of the list would keep the whole list in memory: 11 KiB for each
    endpoint.
    """
    copy: dict[str, Any] = json.loads(json.dumps(trimmed_secret(body)))
    return copy


def _alone(change: str | None, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object that shares no memory with others; an object of a watch event is already alone."""
    return own(body) if change is None else dict(body)


class NoDiffBase(kopf.DiffBaseStorage):
    """A diff base that compares nothing.

    kopf prepares data for change handlers in a third of its time, and this operator has no such handlers.
    """

    def build(self, **_: Any) -> kopf.BodyEssence:
        """Return nothing to compare."""
        return {}

    def fetch(self, **_: Any) -> None:
        """Return no earlier version."""

    def store(self, **_: Any) -> None:
        """Store nothing."""


class NoProgress(kopf.ProgressStorage):
    """A progress storage that never has a handler to continue."""

    def fetch(self, **_: Any) -> None:
        """Return no progress."""

    def store(self, **_: Any) -> None:
        """Store no progress."""

    def purge(self, **_: Any) -> None:
        """Remove no progress."""

    def touch(self, **_: Any) -> None:
        """Write nothing that would wake kopf."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        """Return the essence without a change."""
        return essence


def register(watch: Watch, loop: asyncio.AbstractEventLoop) -> kopf.OperatorRegistry:
    """Return kopf's registry with every handler.

    Args:
        watch: the state that the handlers update.
        loop: the event loop that owns it; kopf has its own thread and loop.
    """
    registry = kopf.OperatorRegistry()
    pulse = watch.pulse
    for kind in MODELS:
        _register_kind(registry, watch, loop, kind)

    @kopf.on.event("v1", "secrets", registry=registry, id="secret-event")
    async def secret_event(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002 - kopf's name
        loop.call_soon_threadsafe(watch.secret_happened, type, _alone(type, body))

    @kopf.on.login(registry=registry)
    async def login(**arguments: Any) -> kopf.AiohttpSession | None:
        found = kopf.login_with_service_account(**arguments) or kopf.login_with_kubeconfig(**arguments)
        return pulse.session(found) if found else None

    return registry


def _register_kind(registry: kopf.OperatorRegistry, watch: Watch, loop: asyncio.AbstractEventLoop, kind: Kind) -> None:
    @kopf.on.event(GROUP, VERSION, plural(kind), registry=registry, id=f"{kind}-event")
    async def event(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002 - kopf's name
        loop.call_soon_threadsafe(watch.happened, kind, type, _alone(type, body))


def kopf_settings() -> kopf.OperatorSettings:
    """Return kopf's settings: watch only Hookwright's objects, write nothing."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.watching.label_selectors["v1", "secrets"] = SELECTOR
    settings.watching.server_timeout = RENEWED
    settings.watching.chunk_size = MOST_OBJECTS
    settings.networking.trust_env = False
    settings.persistence.diffbase_storage = NoDiffBase()
    settings.persistence.progress_storage = NoProgress()
    # kopf starts one worker per listed object. The workers need not stay for kopf's 5 s.
    settings.queueing.idle_timeout = _IDLE_SECONDS
    return settings

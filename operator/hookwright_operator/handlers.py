"""Every kopf decorator: each handler takes an object in and names what is to be reconciled.

kopf watches, lists and logs in; when a key's turn comes is `reconcile.queue`'s business. Nothing has a turn before
everything that exists was seen (`audit.until_shown`), for a plan made from half a world would be wrong. kopf's own
barrier, its index functions, wakes every listed object at every other one: with 10,000 endpoints that took minutes.
Only event handlers are used, so kopf itself writes nothing: no finalizer, no annotation.
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
"""A Project's counts are brought up to date this long after a child came or went, many at once."""
_IDLE_SECONDS: Final = 0.1


@dataclass(slots=True)
class Watch:
    """What the handlers feed.

    Attributes:
        complete: whether everything that existed at the start was seen; until then nothing is reconciled.
        synced: whether all of that has been reconciled once.
        pulse: when each watch was last answered.
        relisted: whether kopf listed something anew after a gap, in which deletions may have been missed.
    """

    cache: Cache
    queue: WorkQueue
    complete: bool = False
    synced: bool = False
    relisted: bool = False
    pulse: Pulse = field(default_factory=lambda: Pulse([*map(plural, MODELS), "secrets"]))

    def see(self, kind: Kind, body: Mapping[str, Any]) -> bool:
        """Take an object in; tell whether it is news."""
        try:
            return self.cache.see(kind, body) is not None
        except ValueError:
            meta = body["metadata"]
            log.exception("object does not fit the contract", kind=kind, namespace=meta["namespace"], name=meta["name"])
            return True

    def happened(self, kind: Kind, change: str | None, body: Mapping[str, Any]) -> None:
        """Take an object in, and have it and what depends on it reconciled."""
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
            # Its counts are no business of theirs: with each child that comes, all of them would have a turn.
            if self.cache.project(key.namespace, key.name) != parent:
                for child in self.cache.children(key.namespace, key.name):
                    self.queue.add(child)
        elif project is not None and change != "MODIFIED":
            self.queue.add(project, _CHILDREN_SECONDS)

    def secret_happened(self, change: str | None, body: Mapping[str, Any]) -> None:
        """Take a Secret in, and have its owner reconciled."""
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
    """Return a copy of an object that shares nothing with the list in which it came.

    What is kept of an object is some of its strings. Were they those of the list, they would hold on to all the memory
    that the list took: 11 KiB for each endpoint.
    """
    copy: dict[str, Any] = json.loads(json.dumps(trimmed_secret(body)))
    return copy


def _alone(change: str | None, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object that shares nothing with others; one of which a watch tells came alone."""
    return own(body) if change is None else dict(body)


class NoDiffBase(kopf.DiffBaseStorage):
    """Compares nothing: what kopf works out for handlers of changes took a third of its time, and there are none."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        """Find nothing to compare."""
        return {}

    def fetch(self, **_: Any) -> None:
        """Have nothing to compare with."""

    def store(self, **_: Any) -> None:
        """Keep nothing."""


class NoProgress(kopf.ProgressStorage):
    """Knows no handler that is to be gone on with, and finds no trace of one."""

    def fetch(self, **_: Any) -> None:
        """Have none."""

    def store(self, **_: Any) -> None:
        """Keep none."""

    def purge(self, **_: Any) -> None:
        """Need not remove any."""

    def touch(self, **_: Any) -> None:
        """Need not wake kopf."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        """Return what was given."""
        return essence


def register(watch: Watch, loop: asyncio.AbstractEventLoop) -> kopf.OperatorRegistry:
    """Return kopf's registry with every handler.

    Args:
        watch: what the handlers feed.
        loop: the event loop that owns it; kopf has a thread and a loop of its own.
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
    """Return how kopf is to work: watch what is ours, write nothing."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.watching.label_selectors["v1", "secrets"] = SELECTOR
    settings.watching.server_timeout = RENEWED
    settings.watching.chunk_size = MOST_OBJECTS
    settings.networking.trust_env = False
    settings.persistence.diffbase_storage = NoDiffBase()
    settings.persistence.progress_storage = NoProgress()
    # A worker for each object that was listed: they need not all stay for kopf's 5 s.
    settings.queueing.idle_timeout = _IDLE_SECONDS
    return settings

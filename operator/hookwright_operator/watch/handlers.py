"""All kopf handlers: each handler stores an object in the cache and enqueues the keys to reconcile.

kopf watches, lists and logs in. `watch.work_queue` decides when a key is reconciled. No key is reconciled before every
existing object was seen (`Resync.until_shown`), because a plan from incomplete data would be wrong. kopf's own barrier,
its index functions, wakes every listed object for every other one: with 10,000 endpoints that took minutes. Only event
handlers are used, so kopf itself writes nothing: no finalizer, no annotation.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

import kopf

from hookwright_crds import GROUP, VERSION
from hookwright_crds.resources import Kind
from hookwright_crds.trimming import trimmed_secret
from hookwright_operator.watch.cache import MODELS
from hookwright_operator.watch.changes import Changes
from hookwright_operator.watch.freshness import RENEWED, WatchFreshness
from hookwright_operator.watch.kubernetes_paths import SELECTOR, plural
from hookwright_runtime.kubernetes_pages import MOST_OBJECTS

_IDLE_SECONDS: Final = 0.1


def own(change: str | None, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object that shares no memory with others; an object of a watch event is already alone.

    The cache keeps some strings of an object. Strings of a list would keep the whole list in memory: 11 KiB for each
    endpoint.
    """
    copied: dict[str, Any] = json.loads(json.dumps(trimmed_secret(body))) if change is None else dict(body)
    return copied


class NoDiffBase(kopf.MultiDiffBaseStorage):
    """A diff base that compares nothing, because no handler needs to know what changed."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        """Return nothing to compare; kopf would copy each object."""
        return {}


def register(changes: Changes, freshness: WatchFreshness, loop: asyncio.AbstractEventLoop) -> kopf.OperatorRegistry:
    """Return kopf's registry with every handler.

    Args:
        changes: applies what the handlers get.
        freshness: makes the HTTP session of kopf.
        loop: the event loop of ``changes``; kopf has its own thread and loop.
    """
    registry = kopf.OperatorRegistry()
    for kind in MODELS:

        @kopf.on.event(GROUP, VERSION, plural(kind), registry=registry, id=f"{kind}-event", param=kind)
        async def event(type: str | None, body: kopf.Body, param: Kind = kind, **_: Any) -> None:  # noqa: A002 - kopf's name
            loop.call_soon_threadsafe(changes.apply, param, type, own(type, body))

    @kopf.on.event("v1", "secrets", registry=registry, id="secret-event")
    async def secret_event(type: str | None, body: kopf.Body, **_: Any) -> None:  # noqa: A002 - kopf's name
        loop.call_soon_threadsafe(changes.apply_secret, type, own(type, body))

    @kopf.on.login(registry=registry)
    async def login(**arguments: Any) -> kopf.AiohttpSession | None:
        found = kopf.login_with_service_account(**arguments) or kopf.login_with_kubeconfig(**arguments)
        return freshness.session(found) if found else None

    return registry


def kopf_settings() -> kopf.OperatorSettings:
    """Return kopf's settings: watch only Hookwright's objects, write nothing."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.watching.label_selectors["v1", "secrets"] = SELECTOR
    settings.watching.server_timeout = RENEWED
    settings.watching.chunk_size = MOST_OBJECTS
    settings.networking.trust_env = False
    settings.persistence.diffbase_storage = NoDiffBase([])
    settings.persistence.progress_storage = kopf.MultiProgressStorage([])
    # kopf starts one worker per listed object. The workers need not stay for kopf's 5 s.
    settings.queueing.idle_timeout = _IDLE_SECONDS
    return settings

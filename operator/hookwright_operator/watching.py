"""Runs kopf in a thread and an event loop of its own.

There it can neither delay deliveries nor, when it ends, cancel the tasks of the rest of the process,
which it takes for its own; and it leaves the process's signals alone.
"""

import asyncio
import contextlib
import threading
from collections.abc import Collection
from concurrent.futures import Future
from typing import Any, Final

import kopf
import structlog
import uvloop
from kopf._core.reactor.inventory import ResourceMemories, ResourceMemory

from hookwright_crds import API_VERSION, GROUP
from hookwright_operator.errors import KubeError
from hookwright_operator.handlers import Watch, kopf_settings, register
from hookwright_operator.kube import Kube
from hookwright_operator.reconcile.cache import MODELS
from hookwright_operator.reconcile.paths import plural

log = structlog.get_logger(__name__)

_STOP_SECONDS: Final = 5.0
_SERVED_SECONDS: Final = 0.5


class Forgetful(ResourceMemories):
    """Keeps nothing of any object: kopf's 3 KiB each are for what handlers other than ours would do."""

    async def recall(self, *args: Any, **options: Any) -> ResourceMemory:
        """Return a memory that nobody remembers."""
        return await super().recall(*args, **{**options, "ephemeral": True})


async def until_served(kube: Kube) -> None:
    """Return when the API server announces every kind.

    kopf asks once, at its start, which kinds there are; one that is announced later, as happens for a moment after
    the CRDs were applied, it would not watch.
    """
    wanted = {plural(kind) for kind in MODELS}
    told = False
    while True:
        try:
            groups = {group["name"] for group in (await kube.get("/apis"))["groups"]}
            served = {one["name"] for one in (await kube.get(f"/apis/{API_VERSION}"))["resources"]}
            missing = wanted - served if GROUP in groups else wanted
        except KubeError as error:
            if error.status != 404:
                raise
            missing = wanted
        if not missing:
            return
        if not told:
            log.warning("waiting for the CustomResourceDefinitions: apply crds/*.yaml", missing=sorted(missing))
            told = True
        await asyncio.sleep(_SERVED_SECONDS)


async def watch_cluster(watch: Watch, namespaces: Collection[str]) -> None:
    """Feed ``watch`` from the cluster until cancelled.

    Args:
        watch: what the handlers feed, on the calling event loop.
        namespaces: those to serve, all where empty.
    """
    registry = register(watch, asyncio.get_running_loop())
    stop = threading.Event()
    ended: Future[None] = Future()

    def run() -> None:
        try:
            uvloop.run(
                kopf.operator(
                    registry=registry,
                    settings=kopf_settings(),
                    memories=Forgetful(),
                    clusterwide=not namespaces,
                    namespaces=namespaces,
                    stop_flag=stop,
                    # Else kopf asks the system who runs it, and an unprivileged uid has no name.
                    identity="hookwright-operator",  # type: ignore[arg-type]
                )
            )
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            ended.set_exception(error)
        else:
            ended.set_result(None)

    threading.Thread(target=run, name="kopf", daemon=True).start()
    waiter = asyncio.wrap_future(ended)
    try:
        await asyncio.shield(waiter)
    finally:
        stop.set()
        with contextlib.suppress(Exception):
            await asyncio.wait_for(waiter, _STOP_SECONDS)

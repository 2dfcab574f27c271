"""The thread and event loop of kopf.

In its own thread, kopf cannot delay deliveries. When it ends, it cancels all tasks of its loop, which must not be tasks
of the rest of the process. It also does not install signal handlers there.
"""

import asyncio
import contextlib
import threading
from collections.abc import Collection
from concurrent.futures import Future
from typing import Final

import kopf
import structlog
import uvloop

from hookwright_crds import API_VERSION, GROUP
from hookwright_operator.watch.cache import MODELS
from hookwright_operator.watch.changes import Changes
from hookwright_operator.watch.freshness import WatchFreshness
from hookwright_operator.watch.handlers import kopf_settings, register
from hookwright_operator.watch.kubernetes_paths import plural
from hookwright_runtime.errors import KubeError
from hookwright_runtime.kubernetes import KubernetesClient

log = structlog.get_logger(__name__)

_STOP_SECONDS: Final = 5.0
_SERVED_SECONDS: Final = 0.5


async def _until_served(kube: KubernetesClient) -> None:
    """Return when the API server announces every kind.

    kopf reads the kinds once, at its start. It would not watch a kind that is announced later, which happens for a
    moment after the CRDs were applied.
    """
    wanted = {plural(kind) for kind in MODELS}
    logged = False
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
        if not logged:
            log.warning(
                "CustomResourceDefinitions missing, waiting until crds/*.yaml are applied", missing=sorted(missing)
            )
            logged = True
        await asyncio.sleep(_SERVED_SECONDS)


async def watch_cluster(
    kube: KubernetesClient, changes: Changes, freshness: WatchFreshness, namespaces: Collection[str]
) -> None:
    """List and watch all kinds until cancelled.

    Args:
        kube: used to wait until every kind is served.
        changes: applies what the watches show, on the calling event loop.
        freshness: records when the watches are answered.
        namespaces: the namespaces to watch; empty: all.
    """
    await _until_served(kube)
    registry = register(changes, freshness, asyncio.get_running_loop())
    stop = threading.Event()
    ended: Future[None] = Future()

    def run() -> None:
        try:
            uvloop.run(
                kopf.operator(
                    registry=registry,
                    settings=kopf_settings(),
                    clusterwide=not namespaces,
                    namespaces=namespaces,
                    stop_flag=stop,
                    # Without an identity, kopf asks the system for the user name, and an unprivileged uid has no name.
                    identity="hookwright-operator",  # type: ignore[arg-type]
                )
            )
        except BaseException as error:  # noqa: BLE001 - passed to the waiting caller
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

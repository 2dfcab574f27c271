"""Runs kopf in a thread and an event loop of its own.

There it can neither delay deliveries nor, when it ends, cancel the tasks of the rest of the process,
which it takes for its own; and it leaves the process's signals alone.
"""

import asyncio
import contextlib
import threading
from collections.abc import Collection
from concurrent.futures import Future
from typing import Final

import kopf
import uvloop

from hookwright_operator.handlers import Watch, kopf_settings, register

_STOP_SECONDS: Final = 5.0


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
                    clusterwide=not namespaces,
                    namespaces=namespaces,
                    stop_flag=stop,
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

"""One of several replicas on one SQLite file: a process that claims and delivers until SIGTERM.

``python node.py <database> <url> <lease in ms>``. The operator locks its SQLite file. This program avoids the lock to
show the effect of claim leases if several replicas share a database.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from support.dispatcher import Engine, Plan, now_ms, subscriber

from hookwright_operator.store.database import SqliteDatabase
from hookwright_operator.store.records import Replica
from hookwright_operator.store.store import Store

MAX_IN_FLIGHT = 2


def share(path: Path, lease_ms: int) -> Store:
    """Open a store on an existing database, even if other processes have it open."""
    nobodys_lock = os.open(os.devnull, os.O_RDONLY)
    database = SqliteDatabase(path, nobodys_lock, busy_timeout=5.0)
    return Store(database, Replica(f"node/{os.getpid()}"), lease_ms=lease_ms, clock=now_ms)


async def main(path: Path, url: str, lease_ms: int) -> None:
    """Deliver to one endpoint until SIGTERM."""
    end = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
    plan = Plan(lease_ms=lease_ms, window=8, sweep=0.2)
    engine = await Engine.start(share(path, lease_ms), plan)
    engine.registry.put(subscriber("orders", url, timeout=lease_ms / 3000, max_in_flight=MAX_IN_FLIGHT))
    await end.wait()
    await engine.stop()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))

"""A child process with one engine, so that its memory is that of claims and attempts only."""

import asyncio
import sys

import uvloop
from support.dispatcher import Engine, Plan, now_ms, subscriber
from support.polling import until

from hookwright_operator.store.store import Store


async def main(url: str, receiver: str, endpoints: int) -> None:
    """Start on a prepared database, say when claims have filled the memory, and go on until stdin ends."""
    plan = Plan()
    engine = await Engine.start(await Store.open(url, instance="child", lease_ms=plan.lease_ms, clock=now_ms), plan)
    for number in range(endpoints):
        engine.registry.put(subscriber(f"uid-{number}", f"{receiver}/{number}", timeout=30))
    # One namespace uses at most half of the memory.
    await until(lambda: engine.dispatcher.queues.memory.used >= plan.memory // 2, within=60)
    sys.stdout.write("full\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    await engine.stop(grace=0)


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))

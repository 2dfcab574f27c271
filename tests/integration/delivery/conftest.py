"""Shared fixtures of the delivery tests: a real receiver, and a sender that may reach loopback."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

import pytest
import uvloop
from support.dispatcher import Engine, Plan

from hookwright_dev.receiver import Receiver
from hookwright_operator.delivery.http.guard import Guard
from hookwright_operator.delivery.http.sender import Sender
from hookwright_operator.store.store import Store

Start = Callable[..., Awaitable[Engine]]


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run on uvloop as the operator does; run marked tests on asyncio's own loop too."""
    factories: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"uvloop": uvloop.new_event_loop}
    if item.get_closest_marker("both_loops"):
        factories["asyncio"] = asyncio.new_event_loop
    return factories


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """Yield a receiver on loopback that answers 200 unless the test changes it."""
    async with Receiver() as receiver:
        yield receiver


@pytest.fixture
async def sender() -> AsyncIterator[Sender]:
    """Yield a sender whose guard allows loopback."""
    async with Sender(Guard(["127.0.0.0/8", "::1/128"]), user_agent="Hookwright/test", allow_http=True) as sender:
        yield sender


@pytest.fixture
async def start(database: Path) -> AsyncIterator[Start]:
    """Yield a function that starts an engine; every engine is stopped at the end of the test."""
    engines: list[Engine] = []

    async def start_one(plan: Plan | None = None, store: Store | None = None) -> Engine:
        engines.append(await Engine.start(store or database, plan))
        return engines[-1]

    yield start_one
    for engine in engines:
        await engine.stop(grace=1)

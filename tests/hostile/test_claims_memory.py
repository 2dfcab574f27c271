"""The bodies that claims bring into memory are bounded in bytes, even if very many deliveries are due.

The attack: 64 endpoints with 32 deliveries of 250 KiB each that are all due when an operator starts. Their bodies are
500 MiB; the memory limit for bodies is 64 MiB.
"""

# ruff: noqa: S608 - statements of our own numbers and names

import asyncio
import os
import re
import sqlite3
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web
from support.dispatcher import Engine, Plan, subscriber
from support.polling import until

from hookwright_dev.cluster.postgres import PostgresServer
from hookwright_operator.delivery.shares import CLAIMS_IN_MEMORY
from hookwright_operator.store.records import Claimed, Wants
from hookwright_operator.store.store import Store

pytestmark = pytest.mark.slow

ENDPOINTS = 64
EACH = 32
BODY_BYTES = 250 * 1024
MOST_MIB = 225
"""The mark for an operator is 250 MiB; at rest a process with Kubernetes takes 25 MiB more than this one."""
TESTS = Path(__file__).resolve().parents[1]


def filling(*, fanned_out: bool, body: str, ulid: str) -> list[str]:
    """Return the statements that put the attack into an empty database, without a slow way through the intake."""
    series = "WITH RECURSIVE series(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM series WHERE n < {last}) "
    events = EACH if fanned_out else ENDPOINTS * EACH
    event_of = f"n / {ENDPOINTS}" if fanned_out else "n"
    name = ulid.format("msg", "n")
    return [
        "INSERT INTO events (id, namespace, project, type, accepted_ms, deliveries, body) "
        + series.format(last=events - 1)
        + f"SELECT {name}, 'acme', 'billing', 'delivered', 1, {ENDPOINTS * EACH // events}, {body} FROM series",
        "INSERT INTO deliveries (id, event_id, endpoint_uid, state, reason, due_ms, attempts) "
        + series.format(last=ENDPOINTS * EACH - 1)
        + f"SELECT {ulid.format('dlv', 'n')}, {ulid.format('msg', event_of)}, 'uid-' || (n % {ENDPOINTS}),"
        " 'pending', '', 1, 0 FROM series",
        """INSERT INTO counters (endpoint_uid, slot, accepted, delivered, failed, discarded)
            SELECT endpoint_uid, 0, count(*), 0, 0, 0 FROM deliveries GROUP BY endpoint_uid""",
    ]


async def prepared(url: str) -> None:
    """Make the schema."""
    await (await Store.open(url, instance="before", lease_ms=1, clock=lambda: 1)).close()


async def sqlite_with_the_attack(path: Path, *, fanned_out: bool) -> str:
    """Return a SQLite file with everything due."""
    url = f"sqlite:///{path}"
    await prepared(url)
    ulid = "'{}_01K9' || printf('%022d', {})"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        for statement in filling(fanned_out=fanned_out, body=f"zeroblob({BODY_BYTES})", ulid=ulid):
            connection.execute(statement)
    return url


async def postgres_with_the_attack(server: PostgresServer, *, fanned_out: bool) -> str:
    """Return a PostgreSQL database with everything due; the server keeps the bodies compressed."""
    database = f"fanned_{fanned_out}".lower()
    url = await asyncio.to_thread(server.new_database, database)
    await prepared(url)
    ulid = "'{}_01K9' || lpad(CAST({} AS TEXT), 22, '0')"
    for statement in filling(fanned_out=fanned_out, body=f"CAST(repeat('x', {BODY_BYTES}) AS BYTEA)", ulid=ulid):
        await asyncio.to_thread(server.execute, statement, database=database)
    return url


@dataclass(slots=True)
class Receivers:
    """The receivers of all endpoints: they hold every request until they are opened."""

    url: str = ""
    open: asyncio.Event = field(default_factory=asyncio.Event)
    requests: Counter[str] = field(default_factory=Counter)

    async def answer(self, request: web.Request) -> web.Response:
        """Read one request whole, then hold it."""
        await request.read()
        self.requests[request.path] += 1
        await self.open.wait()
        return web.Response()


@asynccontextmanager
async def receivers() -> AsyncIterator[Receivers]:
    """Run the receivers on a port of loopback."""
    listening = Receivers()
    app = web.Application()
    app.router.add_post("/{endpoint}", listening.answer)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    listening.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield listening
    finally:
        listening.open.set()
        await runner.cleanup()


def peak_mib(pid: int) -> float:
    """Return the most memory that a process ever had, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    match = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert match
    return int(match[1]) / 1024


async def attacked(url: str) -> float:
    """Start an engine on a prepared database; return its peak of memory when every endpoint has got on."""
    async with receivers() as listening:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            str(TESTS / "hostile" / "claims_child.py"),
            url,
            listening.url,
            str(ENDPOINTS),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
        )
        assert child.stdin
        assert child.stdout
        try:
            assert await asyncio.wait_for(child.stdout.readline(), 90) == b"full\n"
            await until(lambda: asyncio.sleep(0, len(listening.requests) == ENDPOINTS), within=60)
            listening.open.set()
            await until(
                lambda: asyncio.sleep(0, min(listening.requests.values()) >= EACH // 8),
                within=120,
            )
            return peak_mib(child.pid)
        finally:
            child.stdin.close()
            try:
                await asyncio.wait_for(child.communicate(), 20)
            except TimeoutError:
                child.kill()
                await child.communicate()


@pytest.mark.parametrize("fanned_out", [False, True], ids=["one", "fanned-out"])
async def test_a_start_with_large_bodies_on_sqlite(tmp_path: Path, *, fanned_out: bool) -> None:
    """The operator stays within its mark, and every endpoint progresses, first with receivers that hang."""
    path = tmp_path / "deliveries.db"
    try:
        peak = await attacked(await sqlite_with_the_attack(path, fanned_out=fanned_out))
    finally:
        path.unlink()
    assert peak <= MOST_MIB


@pytest.mark.parametrize("fanned_out", [False, True], ids=["one", "fanned-out"])
async def test_a_start_with_large_bodies_on_postgresql(postgres: PostgresServer, *, fanned_out: bool) -> None:
    """The same on PostgreSQL, whose driver copies all rows of a statement."""
    peak = await attacked(await postgres_with_the_attack(postgres, fanned_out=fanned_out))
    assert peak <= MOST_MIB


@dataclass(slots=True)
class HeldStore:
    """A real store whose claims wait before they return."""

    store: Store
    rooms: list[int] = field(default_factory=list)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def claim(self, wants: Wants, *, room: int) -> list[Claimed]:
        """Claim, and wait."""
        self.rooms.append(room)
        claims = await self.store.claim(wants, room=room)
        await self.go_on.wait()
        return claims


async def test_nothing_else_takes_the_room_of_a_claim_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events that are accepted during a claim find only the rest of the memory, and all of it after the claim."""
    memory = 8 * 1024 * 1024
    engine = await Engine.start(tmp_path / "deliveries.db", Plan(memory=memory))
    hold = HeldStore(engine.store)
    monkeypatch.setattr(engine.dispatcher._claimer, "_store", hold)
    try:
        engine.registry.put(subscriber("fresh", "http://127.0.0.1:1"))
        engine.registry.put(subscriber("old", "http://127.0.0.1:1"))
        engine.dispatcher.waiting("old")
        await until(lambda: bool(hold.rooms))
        assert hold.rooms == [memory // CLAIMS_IN_MEMORY]
        assert engine.dispatcher.queues.memory.used == hold.rooms[0]
        assert not engine.dispatcher.queues.reserve("fresh", memory // 2 + 1)
        engine.dispatcher.queues.by_uid["fresh"].backlog = False
        assert engine.dispatcher.queues.reserve("fresh", memory // 2)
        engine.dispatcher.cancel("fresh", memory // 2)
    finally:
        monkeypatch.undo()
        hold.go_on.set()
        await until(lambda: engine.dispatcher.queues.memory.used == 0)
        await engine.stop(grace=0)

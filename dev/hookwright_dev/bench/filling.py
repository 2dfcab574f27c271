"""Databases full of old deliveries: the schema is the operator's own; the database itself generates the rows."""

# ruff: noqa: S608 - the statements consist of numbers and of names from this module

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import asyncpg

from hookwright_dev.cluster.postgres import PostgresServer
from hookwright_operator.ids import BASE32, id_digest
from hookwright_operator.store.store import Store

BODY_BYTES: Final = 315
CROWDED: Final = 5
"""Endpoints that have a tenth of all deliveries each; the others share the rest."""
ENDPOINTS: Final = 1000
MOST_PENDING: Final = 100_000
_ID_BEGIN: Final = "01K9"
_ID_BITS: Final = (20, 15, 10, 5, 0)
"""The bits of a delivery's number that its id contains between the common beginning and end of all ids."""
_ID_END: Final = "0QWERTYAAAAAAAAAA"
_DAYS: Final = 7
_DAY_MS: Final = 24 * 60 * 60 * 1000
_EXECUTE_SECONDS: Final = 1800.0

# For a database of this size on its own machine; the server's defaults are for a small one.
POSTGRES: Final = {"shared_buffers": "1GB", "max_wal_size": "8GB", "maintenance_work_mem": "512MB"}


@dataclass(frozen=True, slots=True)
class Filled:
    """A database with deliveries, and its facts.

    Attributes:
        url: value for HOOKWRIGHT_DATABASE_URL.
        rows: how many deliveries.
    """

    url: str
    rows: int


def pending_of(rows: int) -> int:
    """Pure: return how many of so many deliveries are pending: a tenth, but not more than 100,000."""
    return min(rows // 10, MOST_PENDING)


def endpoint_uid(number: int) -> str:
    """Pure: return the uid of endpoint ``number``; the first few have a tenth of all deliveries each."""
    return f"00000000-0000-4000-8000-{100_000_000_000 + number}"


def delivery_id(number: int) -> str:
    """Pure: return the id of delivery ``number``, counted from 1: a ULID, with one delivery each 32 ms."""
    return f"dlv_{_ulid(number)}"


def _ulid(number: int) -> str:
    return _ID_BEGIN + "".join(BASE32[(number >> bits) % 32] for bits in _ID_BITS) + _ID_END


def producer_id(number: int) -> str:
    """Pure: return the producer's id of event ``number``, which is also its messageId."""
    return f"r1-{100_000_000 + number}"


def statements(rows: int, now_ms: int, *, series: str, body: str, digest: str) -> list[str]:
    """Pure: return the INSERTs that fill an empty database.

    Args:
        rows: how many deliveries.
        now_ms: when the newest was accepted.
        series: the text after FROM; it yields a column ``n`` from 1 to ``rows``.
        body: an expression for an event's body.
        digest: the name of the database's function that computes `id_digest`.
    """
    end_count = rows - pending_of(rows)
    step = _DAYS * _DAY_MS / rows
    at = f"{now_ms} - CAST(({rows} - n) * {step} AS BIGINT)"
    crowded_uid = f"'00000000-0000-4000-8000-' || (100000000000 + n / 2 % {CROWDED})"
    other_uid = f"'00000000-0000-4000-8000-' || (100000000000 + {CROWDED} + n / 2 % {ENDPOINTS - CROWDED})"
    uid = f"CASE WHEN n % 2 = 0 THEN {crowded_uid} ELSE {other_uid} END"
    digits = [f"substr('{BASE32}', (n >> {bits}) % 32 + 1, 1)" for bits in _ID_BITS]
    ulid = " || ".join([f"'{_ID_BEGIN}'", *digits, f"'{_ID_END}'"])
    message, delivery = f"'msg_' || {ulid}", f"'dlv_' || {ulid}"
    identifier = "'r1-' || (100000000 + n)"
    state = f"CASE WHEN n > {end_count} THEN 'pending' WHEN n % 51 = 0 THEN 'failed' ELSE 'delivered' END"
    return [
        f"""INSERT INTO events
              (id, namespace, project, type, accepted_ms, deliveries, message_id_digest, event_id_digest, body)
            SELECT {message}, 'acme', 'billing', 'delivered', {at}, 1, {digest}('acme', {identifier}),
              {digest}('acme', {identifier}), {body}
            FROM {series}""",
        f"""INSERT INTO event_ids (namespace, project, event_id, message_id, accepted_ms)
            SELECT 'acme', 'billing', {identifier}, {message}, {at}
            FROM {series} WHERE n > {rows - rows // _DAYS}""",
        f"""INSERT INTO deliveries (id, event_id, endpoint_uid, state, reason, due_ms, attempts, owner, ended_ms)
            SELECT {delivery}, {message}, {uid}, {state}, '', {at}, CASE WHEN n > {end_count} THEN 0 ELSE 1 END, NULL,
              CASE WHEN n <= {end_count} THEN {at} END
            FROM {series}""",
        f"""INSERT INTO attempts (delivery_id, number, started_ms, duration_ms, status_code, error, response)
            SELECT {delivery}, 1, {at}, 12, 200, '', 'ok' FROM {series} WHERE n <= {end_count}""",
        """INSERT INTO counters (endpoint_uid, slot, accepted, delivered, failed, discarded)
            SELECT endpoint_uid, 0, count(*), sum(CASE WHEN state = 'delivered' THEN 1 ELSE 0 END),
              sum(CASE WHEN state = 'failed' THEN 1 ELSE 0 END), 0
            FROM deliveries GROUP BY endpoint_uid""",
    ]


# All except those of primary keys, each with its definition.
_SQLITE_INDEXES: Final = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
_POSTGRES_INDEXES: Final = """
    SELECT relname, pg_get_indexdef(oid) FROM pg_class JOIN pg_index ON indexrelid = oid
    WHERE relnamespace = 'public'::regnamespace AND NOT indisprimary
"""

_POSTGRES_DIGEST: Final = """
    CREATE FUNCTION pg_temp.id_digest(namespace text, id text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
      SELECT ('x' || left(encode(sha256(convert_to(namespace || chr(10) || id, 'UTF8')), 'hex'), 16))::bit(64)::bigint
    $$
"""


@contextmanager
def filled_postgres(server: PostgresServer, rows: int) -> Iterator[Filled]:
    """Create a database with so many deliveries, and drop it after the block."""
    name = f"rows_{rows}"
    url = server.new_database(name)
    now_ms = time.time_ns() // 1_000_000
    asyncio.run(_migrated(url))
    series = f"generate_series(1, {rows}) AS s(n)"
    body = f"'\\x{'78' * BODY_BYTES}'::bytea"
    fill = statements(rows, now_ms, series=series, body=body, digest="pg_temp.id_digest")
    asyncio.run(_fill(url, [_POSTGRES_DIGEST, *fill]))
    try:
        yield Filled(url, rows)
    finally:
        server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@contextmanager
def filled_sqlite(folder: Path, rows: int) -> Iterator[Filled]:
    """Create a file with so many deliveries, and remove it after the block."""
    path = folder / f"rows_{rows}.db"
    now_ms = time.time_ns() // 1_000_000
    asyncio.run(_migrated(f"sqlite:///{path}"))
    series = f"(WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {rows}) SELECT n FROM s)"
    body = f"X'{'78' * BODY_BYTES}'"
    fill = statements(rows, now_ms, series=series, body=body, digest="id_digest")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.create_function("id_digest", 2, id_digest, deterministic=True)
        filling = _without_indexes(dict(connection.execute(_SQLITE_INDEXES)), fill)
        for statement in ("PRAGMA synchronous = OFF", *filling, "ANALYZE"):
            connection.execute(statement)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    try:
        yield Filled(f"sqlite:///{path}", rows)
    finally:
        for part in folder.glob(f"{path.name}*"):
            part.unlink()


async def _migrated(url: str) -> None:
    await (await Store.open(url, instance="migration", lease_ms=1, clock=lambda: 0)).close()


async def _fill(url: str, fill: list[str]) -> None:
    connection = await asyncpg.connect(url, command_timeout=_EXECUTE_SECONDS)
    try:
        filling = _without_indexes(dict(await connection.fetch(_POSTGRES_INDEXES)), fill)
        for statement in (*filling, "VACUUM (ANALYZE)"):
            await connection.execute(statement)
    finally:
        await connection.close()


def _without_indexes(indexes: dict[str, str], fill: list[str]) -> list[str]:
    # Created after the rows, which takes a fraction of the time.
    return [*(f"DROP INDEX {name}" for name in indexes), *fill, *indexes.values()]

"""PostgreSQL's plans of the queries on 100,000 deliveries: each query uses its index and reads few pages."""

# ruff: noqa: S608 - the statements contain only numbers from this module

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from sqlalchemy import ClauseElement
from sqlalchemy.dialects.postgresql.asyncpg import dialect as asyncpg_dialect
from sqlalchemy.sql.compiler import SQLCompiler
from support.store_factories import TABLES, migrated

from hookwright_dev.bench.filling import CROWDED, delivery_id, endpoint_uid, filled_postgres
from hookwright_dev.cluster.postgres import PostgresServer
from hookwright_operator.store.postgres import connected
from hookwright_operator.store.records import State
from hookwright_operator.store.schema import LATENCY_COLUMNS
from hookwright_operator.store.sql import (
    accept,
    bucket_counts,
    claim,
    prune,
    pull,
    read,
    replay,
    replay_choice,
    search,
    settle,
)
from hookwright_operator.store.sql.rows import packed

NOW = 1_800_000_000_000
PENDING, ENDED, ENDPOINTS = 40_000, 60_000, 100
COUNTED = 1000
"""Endpoints that have statistics of each minute of an hour."""
GENERATE = (
    "INSERT INTO instances SELECT 'living', 9000000000000, 7, '', true",
    f"""INSERT INTO counters SELECT 'uid-' || n, 0, {(PENDING + ENDED) // ENDPOINTS}, {ENDED // ENDPOINTS},
          0, 0, {NOW}, 200
        FROM generate_series(0, {ENDPOINTS - 1}) AS n""",
    f"""INSERT INTO events
        SELECT 'msg_' || lpad(n::text, 8, '0'), 'acme', 'billing', 'delivered', {NOW} - n, 1, n, n, '{{}}'
        FROM generate_series(1, {PENDING + ENDED}) AS n""",
    f"""INSERT INTO event_ids SELECT 'acme', 'billing', 'e-' || n, 'msg_' || lpad(n::text, 8, '0'), {NOW} - n
        FROM generate_series(1, {ENDED}) AS n""",
    f"""INSERT INTO deliveries SELECT 'dlv_' || lpad(n::text, 8, '0'), 'msg_' || lpad(n::text, 8, '0'),
          'uid-' || n % {ENDPOINTS},
          CASE WHEN n > {ENDED} THEN 'pending' WHEN n % 7 = 0 THEN 'failed' ELSE 'delivered' END, '', {NOW} - n, 1,
          CASE WHEN n > {ENDED} AND n % 11 = 0 THEN 'living' END, CASE WHEN n <= {ENDED} THEN {NOW} - n END
        FROM generate_series(1, {PENDING + ENDED}) AS n""",
    f"""INSERT INTO attempts SELECT 'dlv_' || lpad(n::text, 8, '0'), 1, {NOW} - n, 5, 200, '', ''
        FROM generate_series(1, {ENDED}) AS n""",
    f"""INSERT INTO statistics
        SELECT 60, {NOW // 1000} - 60 * minute, 'uid-' || n, 1, 0, 1{", 0" * len(LATENCY_COLUMNS)}
        FROM generate_series(0, 59) AS minute, generate_series(0, {COUNTED - 1}) AS n""",
)


@pytest.fixture(scope="module")
def crowded(postgres: PostgresServer) -> Iterator[str]:
    """Create a database with 100,000 deliveries of 100 endpoints, without statistics."""
    url = postgres.new_database("crowded")
    asyncio.run(migrated(url))
    # Otherwise autovacuum could create statistics at any moment.
    tables = [f"ALTER TABLE {name} SET (autovacuum_enabled = off)" for name in TABLES]
    postgres.execute(*tables, *GENERATE, database="crowded")
    yield url
    postgres.execute('DROP DATABASE "crowded" WITH (FORCE)')


@pytest.fixture(scope="module", params=[pytest.param("without statistics", marks=pytest.mark.slow), "with statistics"])
def statistics(crowded: str, postgres: PostgresServer, request: pytest.FixtureRequest) -> str:
    """Return the crowded database, before and after its statistics were created."""
    if request.param == "with statistics":
        postgres.execute("ANALYZE", database="crowded")
    return crowded


@pytest_asyncio.fixture(params=["force_custom_plan", "force_generic_plan"])
async def connection(statistics: str, request: pytest.FixtureRequest) -> AsyncIterator["asyncpg.Connection"]:
    """Connect as the store does, with plans for the parameters (custom) and for any parameters (generic)."""
    connection = await connected(statistics)
    await connection.execute(f"SET plan_cache_mode TO {request.param}")
    yield connection
    await connection.close()


async def plan_of(
    connection: "asyncpg.Connection", statement: ClauseElement, parameters: Mapping[str, object], options: str
) -> Any:
    """Return the plan as PostgreSQL's JSON, from a transaction that is rolled back."""
    dialect = asyncpg_dialect()  # type: ignore[no-untyped-call]
    statement_text = statement.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
    assert isinstance(statement_text, SQLCompiler)
    values = statement_text.construct_params(dict(parameters))
    arguments = ", ".join(_literal(values[name]) for name in statement_text.positiontup or ())
    undone = connection.transaction()
    await undone.start()
    try:
        await connection.execute(f"PREPARE asked AS {statement_text}")
        explanation = f"EXPLAIN ({options}, FORMAT JSON) EXECUTE asked" + (f"({arguments})" if arguments else "")
        return json.loads(await connection.fetchval(explanation))[0]["Plan"]
    finally:
        await connection.execute("DEALLOCATE ALL")
        await undone.rollback()


def _literal(value: object) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


def steps(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield every step of a plan."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from steps(child)


IDS = packed([(f"dlv_{n:08}",) for n in range(ENDED, ENDED + 64)])
MADE = packed([(f"dlv_{n:08}", NOW, 5, 200, "", "") for n in range(ENDED, ENDED + 64)])
MOVED = packed([(f"dlv_{n:08}", "delivered", None, NOW) for n in range(ENDED, ENDED + 64)])
ME = {"me": "test", "now": NOW}
SETTLED = {
    "moved": MOVED,
    "made": MADE,
    "added": packed([("uid-7", 0, 64, 0, 0, NOW, 200)]),
    "slot": 1,
    "number": 64,
    **ME,
}
MESSAGES = {"endpoint": "uid-7", "now": NOW, "count": 10_000}
SHARES = packed([(f"msg_{n:08}", 1) for n in range(1, 65)])
EVENTS = packed([(f"msg_{n:08}",) for n in range(1, 65)])
BEFORE = "dlv_00050000"
TWO = packed([("uid-7",), ("uid-8",)])
OF_SEVEN = packed([("msg_00000007",)])
WITHIN = {"begin": "", "end": BEFORE, "count": 50}
STRETCH = {"endpoint": "uid-7", "begin": "dlv_0004", "end": BEFORE}

CHOSEN = {"endpoint": "uid-7", "after": "dlv_0004", "before": BEFORE, "types": packed([("delivered",)])}
MISSED = {
    **CHOSEN, "namespace": "acme", "project": "billing", "after": "msg_0004", "before": "msg_0005",
    "first_sent": "dlv_0004", "after_sent": BEFORE,
}  # fmt: skip


HOUR = {"width": 60, "keys": packed([(NOW // 1000 - 60 * minute, "uid-7") for minute in range(60)])}
"""The parameters of the statistics of an endpoint."""


PLANS: dict[str, tuple[ClauseElement, dict[str, object], str]] = {
    "claim": (
        claim.CLAIM_BESIDE_OTHERS,
        {"rows": packed([(f"uid-{n}", 32) for n in range(64)]), "share": 131_072, **ME},
        "deliveries_to_claim",
    ),
    "due too late": (
        claim.HASTEN,
        {"rows": packed([(f"uid-{n}", 60_000) for n in range(64)]), "count": 500, **ME},
        "deliveries_to_claim",
    ),
    "messages to take": (pull.TAKE, {**MESSAGES, "last_due": NOW, "last_id": "~"}, "deliveries_to_claim"),
    "last message to examine": (pull.LAST_EXAMINED, MESSAGES, "deliveries_to_claim"),
    "waiting messages": (pull.WAITING, MESSAGES, "deliveries_to_claim"),
    "messages that are not due": (pull.NOT_DUE, MESSAGES, "deliveries_to_claim"),
    "own": (claim.SET_OWNER, {"rows": IDS, **ME}, "deliveries_pkey"),
    "large bodies": (claim.BODIES, {"rows": packed([("msg_00000001",)])}, "events_pkey"),
    "release": (claim.RELEASE, {"rows": IDS, **ME}, "deliveries_pkey"),
    "next_due": (read.NEXT_DUE, ME, "deliveries_to_claim"),
    "lock": (settle.LOCK, {"rows": IDS}, "deliveries_pkey"),
    "attempts": (settle.INSERT_ATTEMPTS, {"made": MADE}, "attempts_pkey"),
    "settled before": (settle.STORED_ATTEMPTS, {"made": MADE}, "attempts_pkey"),
    "move": (settle.MOVE, {"moved": MOVED, **ME}, "deliveries_pkey"),
    "settle": (settle.SETTLE.whole, SETTLED, "deliveries_pkey"),
    "repetitions": (
        accept.REPETITIONS,
        {"rows": packed([("acme", "billing", f"e-{n}", "msg_new", n) for n in range(64)])},
        "event_ids_pkey",
    ),
    "forget ids": (
        accept.FORGET,
        {"rows": packed([("acme", "billing", f"e-{n}", "msg_new", n) for n in range(64)])},
        "event_ids_pkey",
    ),
    "discard": (prune.DISCARD, {"endpoint": "uid-7", "why": "", "count": 100, "now": NOW}, "deliveries_to_claim"),
    "prune delivered": (prune.OLD_DONE, {"before": NOW, "count": 100}, "deliveries_done_by_age"),
    "prune failed": (prune.OLD_FAILED, {"before": NOW, "count": 100}, "deliveries_failed_by_age"),
    "prune attempts": (prune._DROP_ATTEMPTS, {"rows": IDS}, "attempts_pkey"),
    "prune deliveries": (prune._DROP_DELIVERIES, {"rows": IDS}, "deliveries_pkey"),
    "shrink events": (prune._SHRINK_EVENTS, {"rows": SHARES}, "events_pkey"),
    "prune events": (prune._DROP_EVENTS, {"rows": EVENTS, "removed": 1}, "events_pkey"),
    "prune event ids": (prune.DROP_EVENT_IDS, {"before": NOW, "count": 100}, "event_ids_by_age"),
    "prune unsent events": (prune.DROP_UNSENT, {"before": "msg_0005", "count": 100}, "events_without_deliveries"),
    "next due of endpoints": (read.NEXT_DUE_OF, {"rows": TWO, **ME}, "counters_pkey"),
    "pending of endpoints": (read.PENDING_OF, {"rows": TWO}, "counters_pkey"),
    "namespaces of endpoints": (read.NAMESPACES_OF, {"rows": TWO}, "deliveries_to_claim"),
    "counts of endpoints": (read.SUMS_OF, {"rows": TWO}, "counters_pkey"),
    "next deleted endpoints": (prune.NEXT_GONE, {"after": "uid-7", "count": 500}, "gone_endpoints_pkey"),
    "forget": (prune.FORGETTABLE, {"rows": TWO}, "deliveries_log"),
    "due of a replay": (replay.DUE, {"endpoint": "uid-7", "now": NOW, "count": 200}, "deliveries_to_claim"),
    "retry": (settle._STATE, {"id": "dlv_00000007"}, "deliveries_pkey"),
    "renew": (settle._RENEW_ONE, {"delivery_id": "dlv_00000007", "now": NOW}, "deliveries_pkey"),
    "renew and drop attempts": (settle.DROP_OLD_ATTEMPTS, {"rows": IDS}, "attempts_pkey"),
    "attempts of a page": (read.ATTEMPTS_OF_PAGE, {"rows": IDS, "most": 20}, "attempts_pkey"),
    "attempts of a delivery": (read.ATTEMPTS_OF_ONE, {"rows": IDS, "most": 100}, "attempts_pkey"),
    "log": (read.NEWEST[None], {**STRETCH, "count": 50}, "deliveries_log"),
    "failed log": (read.NEWEST[State.FAILED], {**STRETCH, "count": 50}, "deliveries_failed_log"),
    "search of all": (search.OF_ENDPOINTS, {"uids": TWO, "state": None, **WITHIN}, "deliveries_pkey"),
    "deliveries of found events": (
        search.OF_EVENTS,
        {"rows": OF_SEVEN, "uids": TWO, "state": None},
        "deliveries_by_event",
    ),
    "message id": (
        search.BY_MESSAGE_ID,
        {"message_id": 7, "namespace": "acme", "count": 1001},
        "events_by_message_id",
    ),
    "event id": (search.BY_EVENT_ID, {"event_id": 7, "namespace": "acme", "count": 1001}, "events_by_event_id"),
    "stretch of a replay": (replay_choice.SUCCESSES.stretch, {**CHOSEN, "rows": 5000}, "deliveries_log"),
    "stretch of failures": (replay_choice.FAILURES.stretch, {**CHOSEN, "rows": 5000}, "deliveries_failed_log"),
    "chosen deliveries": (replay_choice.SUCCESSES.matching, {**CHOSEN, "count": 200}, "deliveries_log"),
    "chosen failures": (replay_choice.FAILURES.matching, {**CHOSEN, "count": 200}, "deliveries_failed_log"),
    "chosen types": (replay_choice.SUCCESSES.matching_types, {**CHOSEN, "count": 200}, "deliveries_log"),
    "stretch of missed events": (replay_choice.MISSES.stretch, {**MISSED, "rows": 5000}, "events_pkey"),
    "missed events": (replay_choice.MISSES.matching_types, {**MISSED, "count": 200}, "events_pkey"),
    "sent events": (replay_choice.MISSES.matching_types, {**MISSED, "count": 200}, "deliveries_log"),
    "states of a replay": (replay._STATES, {"rows": IDS}, "deliveries_pkey"),
    "statistics": (bucket_counts.BUCKETS, HOUR, "statistics_pkey"),
    "old statistics": (bucket_counts.DROP_OLD, {"width": 60, "before": 0, "count": 500}, "statistics_pkey"),
    "stretch of the log": (read.STRETCH, {**STRETCH, "rows": 5000}, "deliveries_log"),
    "state in a stretch": (read.IN_STATE, {**STRETCH, "state": "delivered", "count": 50}, "deliveries_log"),
}


TEN_TIMES = 10
ROWS, LEVELS = 64, 2
"""Of ten times as many rows an index may grow by a level, once for reading a row and once for writing it."""
SMALL = 20_000
UIDS = [endpoint_uid(number) for number in range(CROWDED, CROWDED + 64)]
OLD = packed([(delivery_id(n),) for n in range(1, 65)])
TRIED = packed([(delivery_id(n), NOW, 5, 200, "", "") for n in range(1, 65)])
PAST = 9_000_000_000_000
EVEN = {"me": "test", "now": PAST, "share": 131_072}

LOG: dict[str, object] = {"endpoint": endpoint_uid(0), "begin": "", "end": "~"}

FLAT: dict[str, tuple[ClauseElement, dict[str, object]]] = {
    "claim": (claim.CLAIM_BESIDE_OTHERS, {**EVEN, "rows": packed([(uid, 1) for uid in UIDS])}),
    "claim of a crowded endpoint": (
        claim.CLAIM_BESIDE_OTHERS,
        {**EVEN, "rows": packed([(endpoint_uid(0), 64)])},
    ),
    "own": (claim.SET_OWNER, {"rows": OLD, "me": "test"}),
    "next due": (read.NEXT_DUE, {"me": "test", "now": PAST}),
    "attempts": (settle.INSERT_ATTEMPTS, {"made": TRIED}),
    "prune": (prune.OLD_DONE, {"before": PAST, "count": 100}),
    "prune event ids": (prune.DROP_EVENT_IDS, {"before": PAST, "count": 100}),
    "log": (read.NEWEST[None], {**LOG, "count": 50}),
    "failed log": (read.NEWEST[State.FAILED], {**LOG, "count": 20}),
}


@pytest.fixture(scope="module")
def small(postgres: PostgresServer) -> Iterator[str]:
    """Create a database with deliveries of 1,000 endpoints; five endpoints have a tenth of all deliveries each."""
    with filled_postgres(postgres, SMALL) as database:
        yield database.url


@pytest.fixture(scope="module")
def big(postgres: PostgresServer) -> Iterator[str]:
    """Create the same database with ten times as many deliveries."""
    with filled_postgres(postgres, TEN_TIMES * SMALL) as database:
        yield database.url


@pytest.mark.slow
@pytest.mark.parametrize(("statement", "parameters"), FLAT.values(), ids=FLAT.keys())
async def test_ten_times_as_many_deliveries_cost_no_more(
    small: str, big: str, statement: ClauseElement, parameters: dict[str, object]
) -> None:
    """The pages that a statement reads depend on its arguments; an index may grow by a level."""
    plans = []
    for url in (small, big):
        connection = await connected(url)
        plans.append(await plan_of(connection, statement, parameters, "ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF"))
        await connection.close()
    blocks = [plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] for plan in plans]

    assert plans[0]["Actual Rows"] == plans[1]["Actual Rows"]
    assert blocks[1] < 1.5 * blocks[0] + ROWS * LEVELS, plans[1]


@pytest.mark.parametrize(("statement", "parameters", "index"), PLANS.values(), ids=PLANS.keys())
async def test_queries_go_by_their_index(
    connection: "asyncpg.Connection", statement: ClauseElement, parameters: dict[str, object], index: str
) -> None:
    """No growing table is scanned from end to end, with and without statistics."""
    plan = await plan_of(connection, statement, parameters, "COSTS OFF")

    assert index in {step.get("Index Name") for step in steps(plan)}, plan
    scans = {step.get("Relation Name") for step in steps(plan) if step["Node Type"] == "Seq Scan"}
    small = {"instances", "counters", "gone_endpoints"}
    assert scans <= small, plan
    whole = [step for step in steps(plan) if "Index" in step["Node Type"] and "Index Cond" not in step]
    assert {step.get("Relation Name") for step in whole} <= {*small, None} or (index.endswith("by_age")), plan


async def test_a_claim_touches_what_it_takes_and_little_more(connection: "asyncpg.Connection") -> None:
    """A claim reads as much for a backlog of 400 per endpoint as for one of 32."""
    statement, parameters, _ = PLANS["claim"]

    plan = await plan_of(connection, statement, parameters, "ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF")

    row_count = plan["Actual Rows"]
    assert row_count == 64 * 32
    # For each: the index, the delivery and its lock, the delivery by its id, the event by its id.
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 14 * row_count


async def test_statistics_touch_the_rows_of_their_endpoint(connection: "asyncpg.Connection") -> None:
    """A read finds each bucket of an endpoint by the key, and does not read the buckets of all endpoints."""
    options = "ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF"
    plan = await plan_of(connection, bucket_counts.BUCKETS, HOUR, options)

    assert plan["Actual Rows"] == 60
    reading = [step for step in steps(plan) if step.get("Relation Name") == "statistics"]
    assert sum(step["Actual Rows"] * step["Actual Loops"] for step in reading) <= 2 * 60, plan


async def test_a_settlement_touches_what_it_settles_and_little_more(connection: "asyncpg.Connection") -> None:
    """A settlement reads each delivery once, by its id, in the order of its rows, before it writes."""
    statement, parameters, _ = PLANS["settle"]

    plan = await plan_of(connection, statement, parameters, "ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF")

    [moving] = [step for step in steps(plan) if step.get("Operation") == "Update"]
    [reading] = moving["Plans"]
    assert 64 < reading["Shared Hit Blocks"] + reading["Shared Read Blocks"] < 10 * 64
    order = next(step for step in steps(reading) if "Plans" not in step)
    assert (reading["Node Type"], order["Node Type"]) == ("Nested Loop", "Function Scan"), plan


UNKNOWN_IDS = packed([(f"without-deliveries-{number}",) for number in range(1000)])
SOME_EVENTS = packed([(f"msg_{delivery_id(SMALL - number)[4:]}",) for number in range(1000)])
SEARCHED = {"begin": delivery_id(SMALL - 5000), "end": delivery_id(SMALL), "uids": UNKNOWN_IDS, "state": None}


@pytest.mark.parametrize(
    ("statement", "parameters"),
    {
        "endpoints": (search.OF_ENDPOINTS, {**SEARCHED, "count": 200}),
        "endpoints of events": (search.OF_EVENTS, {**SEARCHED, "rows": SOME_EVENTS}),
    }.values(),
    ids=["endpoints", "endpoints of events"],
)
async def test_a_search_compares_no_delivery_with_each_of_many_ids(
    small: str, statement: ClauseElement, parameters: dict[str, object]
) -> None:
    """Ids of endpoints and events are hashed: 5,000 deliveries and 1,000 ids need no 5,000,000 comparisons."""
    connection = await connected(small)
    plan = await plan_of(connection, statement, parameters, "ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF")
    await connection.close()

    comparisons = [step.get("Rows Removed by Join Filter", 0) * step["Actual Loops"] for step in steps(plan)]
    assert sum(comparisons) < 5000, plan
    read = [step["Actual Rows"] * step["Actual Loops"] for step in steps(plan)]
    assert sum(read) < 10 * 5000, plan

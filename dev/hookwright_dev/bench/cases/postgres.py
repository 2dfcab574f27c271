"""The store on PostgreSQL with one replica and with two: throughput, latency, and slow receivers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from hookwright_dev.bench.cases.latency import at_calm_rate
from hookwright_dev.bench.cases.options import Options
from hookwright_dev.bench.cases.throughput import MAX_IN_FLIGHT, POSTS, at_full_speed
from hookwright_dev.bench.figures import PER_SECOND, TIMES, Measure
from hookwright_dev.bench.limit import limited
from hookwright_dev.bench.loader import Target
from hookwright_dev.bench.site import ROLES, Site, running
from hookwright_dev.cluster.postgres import PostgresServer, postgres_server
from hookwright_dev.polling import eventually
from hookwright_operator.store.shard_sharing import SHARDS

DURABLE: Final = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "max_wal_size": "4GB"}
"""Settings that a database needs to survive a power cut, written out; and no checkpoint within a measurement."""
DATABASE: Final = "bench"
_URL: Final = "HOOKWRIGHT_DATABASE_URL"
_NAMES: Final = {1: "1 replica", 2: "2 replicas"}
_ENDPOINTS: Final = 100
# Shards are chosen by a hash, so a small number of endpoints would be shared unevenly.
_SLOW_ENDPOINTS: Final = 500
_FIRST_SLOW: Final = 1 + _ENDPOINTS
_SLOW_SECONDS: Final = 0.05
_SLOW_BATCH: Final = 20
_SLOW_PER_SECOND: Final = 1000
_LONGEST: Final = 120.0
_CORES: Final = 0.15
_SHARES: Final = (
    "SELECT count(*) || ' of ' || coalesce(min(n), 0) FROM (SELECT count(*) AS n FROM shards GROUP BY owner) x"
)


@dataclass(frozen=True, slots=True)
class _Targets:
    """Targets of events, all at one replica."""

    one: Sequence[Target]
    hundred: Sequence[Target]
    ten: Sequence[Target]


def measure(options: Options) -> list[Measure]:
    """Measure one replica and two, with receivers that answer at once and with slow ones, on one site."""
    measures: list[Measure] = []
    with _database() as (server, url), running({_URL: url}, server) as site:
        targets = _Targets(
            site.endpoints(1, maxInFlight=MAX_IN_FLIGHT),
            site.endpoints(_ENDPOINTS, first=1, maxInFlight=MAX_IN_FLIGHT),
            site.fan(10, maxInFlight=MAX_IN_FLIGHT),
        )
        slow = site.endpoints(_SLOW_ENDPOINTS, first=_FIRST_SLOW)
        for count in _NAMES:
            site.run(*[{_URL: url}] * count)
            _shared(site, count)
            measures += _fast(site, count, targets, options)
        measures += _slow(site, url, slow, options)
    return measures


@contextmanager
def _database() -> Iterator[tuple[PostgresServer, str]]:
    with postgres_server(DURABLE) as server:
        yield server, server.new_database(DATABASE)


def _shared(site: Site, count: int) -> None:
    """Wait until so many replicas have equal shares of the endpoints."""
    database, shares = site.database, f"{count} of {SHARDS // count}"
    assert database is not None, "replicas share a PostgreSQL server"
    eventually(lambda: database.scalar(_SHARES, DATABASE) == shares, f"{count} equal shares", within=30.0)


def _fast(site: Site, count: int, targets: _Targets, options: Options) -> list[Measure]:
    """Measure with receivers that answer at once."""
    key, name = f"postgres.{count}", f"PostgreSQL, {_NAMES[count]}"
    single, many, ten = (site.everywhere(group) for group in (targets.one, targets.hundred, targets.ten))
    measures = at_full_speed(site, f"{key}.1", f"{name}, 1 endpoint", single, options)
    measures += at_full_speed(site, f"{key}.100", f"{name}, 100 endpoints", many, options)
    title = f"{name}, 100 endpoints, {POSTS} posts at once"
    measures += at_full_speed(site, f"{key}.posts", title, many, options, concurrency=POSTS)
    measures += at_full_speed(site, f"{key}.fan", f"{name}, each event to 10 endpoints", ten, options, fan=10)
    return [*measures, *at_calm_rate(site, f"{key}.latency", f"{name}, post → arrival at 50/s", single, options)]


def _slow(site: Site, url: str, targets: Sequence[Target], options: Options) -> list[Measure]:
    """Measure with receivers that take 50 ms; replicas only deliver, and one more operator does the other work.

    Each replica has a share of a core, so that two can have twice the throughput of one.
    """
    rates: list[Measure] = []
    title = f"receivers take 50 ms, {_CORES:g} cores for each replica"
    for count, name in _NAMES.items():
        site.run({_URL: url, ROLES: "reconcile,intake"}, *[{_URL: url, ROLES: "deliver"}] * count)
        _shared(site, count)
        rate = _drained_per_second(site, targets, options)
        rates.append(Measure(f"postgres.slow.limited.{count}.rate", f"deliveries/s, {title}, {name}", rate, PER_SECOND))
    factor = rates[1].value / rates[0].value
    return [*rates, Measure("postgres.slow.limited.factor", f"{title}: two replicas against one", factor, TIMES)]


def _drained_per_second(site: Site, targets: Sequence[Target], options: Options) -> float:
    """Post a backlog, and measure from the first post to the last arrival."""
    site.loader.hang(*range(_FIRST_SLOW, _FIRST_SLOW + _SLOW_ENDPOINTS), seconds=_SLOW_SECONDS)
    with limited([operator.running.pid for operator in site.operators[1:]], _CORES):
        report = site.loader.load(
            site.everywhere(targets),
            seconds=_LONGEST,
            token=site.token,
            events=int(options.seconds * _SLOW_PER_SECOND),
            batch=_SLOW_BATCH,
            concurrency=4,
        ).clean()
    site.loader.hang()
    return report.arrived_per_second

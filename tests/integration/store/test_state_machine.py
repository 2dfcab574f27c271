"""The store behaves as a simple model does, for any sequence of operations."""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Coroutine
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from shutil import copy2
from typing import ClassVar, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy import Connection, select
from support.store_databases import DATABASE
from support.store_factories import EMPTY, LEASE_MS, Clock, event, left, logged, neighbour_of, settlement

from hookwright_dev.cluster.postgres import PostgresServer
from hookwright_operator.store.chosen_replays import Wanted
from hookwright_operator.store.records import Choice, NewDelivery, ReplayState, State
from hookwright_operator.store.schema import deliveries
from hookwright_operator.store.sql import read
from hookwright_operator.store.sql.accept import DEDUPE_WINDOW_MS
from hookwright_operator.store.store import Store

T = TypeVar("T")

ENDPOINTS = st.sampled_from(["orders", "audit"])
INSTANCES = st.sampled_from([0, 1])
OUTCOMES = st.sampled_from([State.PENDING, State.DELIVERED, State.FAILED])
AGES = st.sampled_from([-1, 30_000, DEDUPE_WINDOW_MS])
COUNTED = [State.PENDING, State.DELIVERED, State.FAILED, State.DISCARDED]


@dataclass(slots=True)
class Expected:
    """The model's state of a delivery."""

    new: NewDelivery
    due_ms: int
    owner: int | None
    state: State = State.PENDING
    attempts: int = 0
    made: int = 0
    ended_ms: int | None = None


@dataclass(slots=True)
class Job:
    """The model's state of a running replay."""

    id: str
    states: tuple[State, ...]
    reached: str = ""
    done: int = 0


class Deliveries(RuleBasedStateMachine):
    """Two replicas on one database, and a model that predicts the result of each step."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clean_up = ExitStack()
        self.clock = Clock()
        self.known: dict[str, Expected] = {}
        self.remembered: dict[str, int] = {}
        self.in_hand: dict[int, list[Expected]] = {0: [], 1: []}
        self.jobs: dict[str, Job] = {}
        self.begun = 0
        self.deleted: set[str] = set()
        self.pruned: Counter[tuple[str, State]] = Counter()

    def run(self, work: Coroutine[object, object, T]) -> T:
        """Run a call of a store."""
        return self.runner.run(work)

    @initialize()
    def open(self) -> None:
        """Begin with an empty database."""
        self.stores = self.run(self._open(self.empty_database()))
        self.leases = dict.fromkeys((0, 1), self.clock.now + LEASE_MS)

    def empty_database(self) -> str:
        """Return the URL of an empty database."""
        raise NotImplementedError

    async def _open(self, url: str) -> tuple[Store, Store]:
        first = await Store.open(url, instance="first", lease_ms=LEASE_MS, clock=self.clock)
        return first, await neighbour_of(first, url, self.clock)

    def teardown(self) -> None:
        """Close everything."""
        if hasattr(self, "stores"):
            self.run(left(self.stores[1]))
            self.run(self.stores[0].close())
        self.runner.close()
        self.clean_up.close()

    @rule(
        instance=INSTANCES,
        uids=st.lists(ENDPOINTS, max_size=3),
        claimed=st.booleans(),
        event_id=st.sampled_from([None, None, "e-1", "e-2"]),
    )
    def accept(self, instance: int, uids: list[str], *, claimed: bool, event_id: str | None) -> None:
        """Accept an event, which may be a duplicate."""
        new = event(*uids, claimed=claimed, event_id=event_id)
        answer = self.run(self.stores[instance].accept([new]))
        expires = self.remembered.get(event_id, 0) if event_id else 0
        assert answer.accepted == (self.clock.now >= expires)
        if not answer.accepted:
            return
        if event_id:
            self.remembered[event_id] = self.clock.now + DEDUPE_WINDOW_MS
        for delivery in new.deliveries:
            self.known[delivery.id] = Expected(delivery, self.clock.now, instance if claimed else None)
            if claimed:
                self.in_hand[instance].append(self.known[delivery.id])

    @rule(instance=INSTANCES, uid=ENDPOINTS, limit=st.integers(1, 4))
    def claim(self, instance: int, uid: str, limit: int) -> None:
        """Claim, and get exactly the oldest deliveries that no living replica has claimed."""
        result = self.run(self.stores[instance].claim([(uid, limit)]))
        target = sorted(
            (expected.due_ms, delivery_id)
            for delivery_id, expected in self.known.items()
            if expected.new.endpoint_uid == uid and expected.due_ms <= self.clock.now and self.free(expected, instance)
        )[:limit]
        assert [delivery.id for delivery in result] == [delivery_id for _, delivery_id in target]
        for delivery in result:
            assert delivery.attempts == self.known[delivery.id].attempts
            self.known[delivery.id].owner = instance
            self.in_hand[instance].append(self.known[delivery.id])

    def free(self, expected: Expected, claimant: int) -> bool:
        """Return whether a replica may claim the delivery, due or not."""
        owner = expected.owner
        dead = owner is not None and owner != claimant and self.leases[owner] <= self.clock.now
        return expected.state == State.PENDING and (owner is None or dead)

    @precondition(lambda self: self.in_hand[0] or self.in_hand[1])
    @rule(
        pick=st.randoms(use_true_random=False),
        state=OUTCOMES,
        delay=st.sampled_from([0, 1, 30_000]),
        most=st.integers(1, 3),
    )
    def settle(self, pick: Random, state: State, delay: int, most: int) -> None:
        """Settle attempts in one call, also of deliveries that were lost or discarded meanwhile."""
        instance = pick.choice([item for item, delivery in self.in_hand.items() if delivery])
        in_hand = self.in_hand[instance]
        drawn = [in_hand.pop(pick.randrange(len(in_hand))) for _ in range(min(most, len(in_hand)))]
        attempted = {expected.new.id: expected for expected in drawn}
        due_ms = self.clock.now + delay
        self.run(
            self.stores[instance].settle(
                [settlement(expected.new, state, due_ms=due_ms) for expected in attempted.values()]
            )
        )
        for expected in attempted.values():
            expected.made += 1
            if expected.state == State.PENDING and expected.owner == instance:
                expected.state, expected.owner = state, None
                expected.attempts += 1
                expected.due_ms = due_ms if state == State.PENDING else expected.due_ms
                expected.ended_ms = None if state == State.PENDING else self.clock.now

    @precondition(lambda self: self.in_hand[0])
    @rule()
    def release(self) -> None:
        """Release all deliveries of the first replica."""
        delivery, self.in_hand[0] = self.in_hand[0], []
        self.run(self.stores[0].release([expected.new.id for expected in delivery]))
        for expected in self.known.values():
            if expected.owner == 0 and expected.state == State.PENDING:
                expected.owner = None

    @rule(milliseconds=st.sampled_from([1, LEASE_MS // 2, LEASE_MS, 30_000, DEDUPE_WINDOW_MS]))
    def advance(self, milliseconds: int) -> None:
        """Advance the time."""
        self.clock.advance(milliseconds)

    @rule(instance=INSTANCES)
    def heartbeat(self, instance: int) -> None:
        """Renew the claim lease of a replica."""
        self.leases[instance] = self.run(self.stores[instance].heartbeat())
        assert self.leases[instance] == self.clock.now + LEASE_MS

    @rule(uid=ENDPOINTS)
    def discard(self, uid: str) -> None:
        """Delete an endpoint."""
        pending = [e for e in self.known.values() if e.new.endpoint_uid == uid and e.state == State.PENDING]
        assert self.run(self.stores[0].discard(uid, "endpoint deleted")) == len(pending)
        for expected in pending:
            expected.state, expected.owner, expected.ended_ms = State.DISCARDED, None, self.clock.now
        self.deleted.add(uid)
        if job := self.jobs.pop(uid, None):
            self.has_ended(job, ReplayState.CANCELLED)

    @rule(instance=INSTANCES, done_ago=AGES, failed_ago=AGES, limit=st.integers(1, 3))
    def prune(self, instance: int, done_ago: int, failed_ago: int, limit: int) -> None:
        """Prune old deliveries, and deleted endpoints after their last delivery."""
        done_before, failed_before = self.clock.now - done_ago, self.clock.now - failed_ago
        prune = partial(self.stores[instance].prune, delivered_before_ms=done_before, failed_before_ms=failed_before)
        # A call may examine an endpoint that still has deliveries, and remove nothing.
        calls_for_deleted = 0
        while calls_for_deleted <= len(self.deleted):
            calls_for_deleted = 0 if self.run(prune(limit=limit)) else calls_for_deleted + 1
        for delivery_id, expected in list(self.known.items()):
            before = failed_before if expected.state == State.FAILED else done_before
            if expected.ended_ms is not None and expected.ended_ms < before:
                self.pruned[expected.new.endpoint_uid, expected.state] += 1
                del self.known[delivery_id]
        for uid in self.deleted - {expected.new.endpoint_uid for expected in self.known.values()}:
            self.jobs.pop(uid, None)
            self.pruned = Counter({key: number for key, number in self.pruned.items() if key[0] != uid})
            self.deleted.discard(uid)

    @precondition(lambda self: self.known)
    @rule(pick=st.randoms(use_true_random=False))
    def retry(self, pick: Random) -> None:
        """Retry a delivery by hand."""
        delivery_id = pick.choice(list(self.known))
        expected = self.known[delivery_id]
        assert self.run(self.stores[1].retry(delivery_id)) == expected.state
        if expected.state in {State.DELIVERED, State.FAILED}:
            self.renew(expected)
        elif expected.state is State.PENDING and expected.owner is None:
            expected.due_ms = min(expected.due_ms, self.clock.now)

    def renew(self, expected: Expected) -> None:
        """Make the delivery pending again."""
        expected.state, expected.owner, expected.ended_ms = State.PENDING, None, None
        expected.due_ms, expected.attempts = self.clock.now, 0

    @rule(uid=ENDPOINTS, states=st.sampled_from([(State.FAILED,), (State.DELIVERED,), (State.DELIVERED, State.FAILED)]))
    def begin_replay(self, uid: str, states: tuple[State, ...]) -> None:
        """Begin a replay of all deliveries in some states."""
        self.begun += 1
        expected = Wanted(uid, Choice(states), 0, self.clock.now)
        replay = self.run(self.stores[0].chosen_replays.begin(f"rec_{self.begun}", expected))
        job = self.jobs.setdefault(uid, Job(f"rec_{self.begun}", states))
        assert (replay.id, replay.done, replay.state) == (job.id, job.done, ReplayState.RUNNING)
        if job.id == f"rec_{self.begun}":
            assert (replay.total, replay.total_is_exact) == (len(self.chosen(uid, job)), True)

    @rule(uid=ENDPOINTS)
    def cancel_replay(self, uid: str) -> None:
        """Cancel the running replay of an endpoint; its deliveries stay pending."""
        if job := self.jobs.pop(uid, None):
            self.run(self.stores[1].chosen_replays.cancel(job.id))
            self.has_ended(job, ReplayState.CANCELLED)

    def chosen(self, uid: str, job: Job) -> list[str]:
        """Return the deliveries that the replay still has to process, in its order."""
        ids = [endpoint for endpoint, e in self.known.items() if e.new.endpoint_uid == uid and e.state in job.states]
        return sorted(delivery_id for delivery_id in ids if delivery_id > job.reached)

    @precondition(lambda self: self.jobs)
    @rule(pick=st.randoms(use_true_random=False), instance=INSTANCES, limit=st.integers(1, 4))
    def advance_replay(self, pick: Random, instance: int, limit: int) -> None:
        """Advance a replay if its endpoint does not have too many due deliveries."""
        uid = pick.choice(list(self.jobs))
        job = self.jobs[uid]
        due = sum(
            e.new.endpoint_uid == uid and e.state == State.PENDING and e.due_ms <= self.clock.now
            for e in self.known.values()
        )
        room = 0 if due * 2 > limit else limit - due
        batch = self.chosen(uid, job)[:room]
        # None is a step that waits, 0 a search without a hit.
        result = self.run(self.stores[instance].chosen_replays.advance(job.id, limit=limit))
        assert result == (len(batch) if room else None)
        for item in batch:
            self.renew(self.known[item])
            job.reached = item
            job.done += 1
        if len(batch) < room:
            self.has_ended(self.jobs.pop(uid), ReplayState.COMPLETED)

    def has_ended(self, job: Job, state: ReplayState) -> None:
        """Check that the replay has ended, and how."""
        output = self.run(self.stores[1].replay(job.id))
        assert output is not None
        assert (output.state, output.done, output.ended_ms) == (state, job.done, self.clock.now)

    @invariant()
    def the_rows_are_as_expected(self) -> None:
        """Check that no accepted delivery disappears, and that each has the state and the owner of the model."""
        owners: dict[str | None, int | None] = {
            None: None,
            **{store.instance: one for one, store in enumerate(self.stores)},
        }

        def rows(connection: Connection) -> dict[str, tuple[str, int | None]]:
            result = connection.execute(select(deliveries.c.id, deliveries.c.state, deliveries.c.owner))
            return {delivery_id: (state, owners[owner]) for delivery_id, state, owner in result}

        assert self.run(self.stores[0].transactions.read("test", rows)) == {
            delivery_id: (expected.state, expected.owner) for delivery_id, expected in self.known.items()
        }

    @invariant()
    def the_running_replays_are_as_expected(self) -> None:
        """Check that an endpoint has at most one running replay, with the progress of the model."""
        running = self.run(self.stores[1].running_replays())
        assert {job.endpoint_uid: (job.id, job.done) for job in running} == {
            uid: (job.id, job.done) for uid, job in self.jobs.items()
        }

    @invariant()
    def the_counters_equal_the_rows(self) -> None:
        """Check the counters, which are stored and not computed from the deliveries."""
        counts = self.run(self.stores[0].read(read.counts))
        for uid in ("orders", "audit"):
            states = Counter(e.state for e in self.known.values() if e.new.endpoint_uid == uid)
            states += Counter({state: number for (of, state), number in self.pruned.items() if of == uid})
            if uid in counts:
                assert [getattr(counts[uid], state) for state in COUNTED] == [states[state] for state in COUNTED]
            else:
                assert not states

    @invariant()
    def next_due_names_the_earliest_that_is_free(self) -> None:
        """Check that next_due names each endpoint with deliveries that the replica can claim, and no others."""
        for instance, store in enumerate(self.stores):
            free = [(e.new.endpoint_uid, e.due_ms) for e in self.known.values() if self.free(e, instance)]
            assert self.run(store.next_due()) == {uid: min(due for of, due in free if of == uid) for uid, _ in free}

    @invariant()
    def the_log_shows_what_there_is(self) -> None:
        """Check that the pages contain all deliveries, the newest first, in total and of each state."""
        for uid in ("orders", "audit"):
            of_endpoint = sorted(
                (endpoint for endpoint in self.known.values() if endpoint.new.endpoint_uid == uid),
                key=_id,
                reverse=True,
            )
            for state in (None, *State):
                result = self.run(logged(self.stores[0], uid, state=state, limit=2))
                assert result == [endpoint.new.id for endpoint in of_endpoint if state in {None, endpoint.state}]

    @invariant()
    def every_attempt_is_in_the_log(self) -> None:
        """Check that attempts are numbered from 1 without a gap."""
        for uid in ("orders", "audit"):
            for record in self.run(self.stores[0].read_log(read.log, uid, limit=1000))[0]:
                creation = self.known[record.id].made
                assert [attempt.number for attempt in record.attempts] == list(range(1, creation + 1))


def _id(expected: Expected) -> str:
    return expected.new.id


class OnSqlite(Deliveries):
    """The state machine on a file."""

    template: ClassVar[Path]

    def empty_database(self) -> str:
        """Return the URL of a new file with the schema."""
        folder = self.clean_up.enter_context(tempfile.TemporaryDirectory())
        return f"sqlite:///{copy2(self.template, folder)}"


class OnPostgres(Deliveries):
    """The state machine on the session's PostgreSQL server."""

    server: ClassVar[PostgresServer]

    def empty_database(self) -> str:
        """Empty the database that tests share, and return its URL."""
        self.server.execute(EMPTY, database=DATABASE)
        return self.server.url(DATABASE)


@pytest.fixture(scope="module", autouse=True)
def _databases(postgres: PostgresServer, migrated_url: str, migrated_file: Path) -> None:
    assert migrated_url == postgres.url(DATABASE)
    OnSqlite.template = migrated_file
    OnPostgres.server = postgres


FEW = settings(
    max_examples=10,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestOnSqlite, TestOnPostgres = OnSqlite.TestCase, OnPostgres.TestCase
TestOnSqlite.settings, TestOnPostgres.settings = FEW, settings(FEW, max_examples=4)


class ManyOnSqlite(OnSqlite):
    """More sequences on SQLite."""


class ManyOnPostgres(OnPostgres):
    """More sequences on PostgreSQL."""


TestManyOnSqlite = pytest.mark.slow(ManyOnSqlite.TestCase)
TestManyOnPostgres = pytest.mark.slow(ManyOnPostgres.TestCase)
TestManyOnSqlite.settings, TestManyOnPostgres.settings = settings(FEW, max_examples=30), settings(FEW, max_examples=15)

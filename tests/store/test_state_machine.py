"""Whatever happens in whatever order, the store does what a simple model of it does."""

import asyncio
import tempfile
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from sqlalchemy import Connection, select
from store.making import LEASE_MS, Clock, event, settlement

from hookwright_operator.store.model import NewDelivery, State
from hookwright_operator.store.schema import deliveries
from hookwright_operator.store.store import DEDUPE_WINDOW_MS, Store

T = TypeVar("T")

ENDPOINTS = st.sampled_from(["orders", "audit"])
INSTANCES = st.sampled_from([0, 1])
OUTCOMES = st.sampled_from([State.PENDING, State.DELIVERED, State.FAILED])
COUNTED = [State.PENDING, State.DELIVERED, State.FAILED, State.DISCARDED]


@dataclass(slots=True)
class Expected:
    """What the model knows of a delivery."""

    new: NewDelivery
    due_ms: int
    owner: int | None
    state: State = State.PENDING
    attempts: int = 0
    made: int = 0


class Deliveries(RuleBasedStateMachine):
    """Two instances on one database, and a model that says what each step must lead to."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = Clock()
        self.known: dict[str, Expected] = {}
        self.remembered: dict[str, int] = {}
        self.in_hand: dict[int, list[str]] = {0: [], 1: []}

    def run(self, work: Coroutine[object, object, T]) -> T:
        """Let the stores work."""
        return self.runner.run(work)

    @initialize()
    def open(self) -> None:
        """Begin with an empty database."""
        self.stores = self.run(self._open())
        self.leases = dict.fromkeys((0, 1), self.clock.now + LEASE_MS)

    async def _open(self) -> tuple[Store, Store]:
        url = f"sqlite:///{self.folder.name}/deliveries.db"
        first = await Store.open(url, instance="first", lease_ms=LEASE_MS, clock=self.clock)
        second = Store(
            first._database,
            instance="second",
            lease_ms=LEASE_MS,
            clock=self.clock,
            observe=lambda _operation, _seconds: None,
            dedupe_window_ms=DEDUPE_WINDOW_MS,
        )
        await second.heartbeat()
        return first, second

    def teardown(self) -> None:
        """Close everything."""
        if hasattr(self, "stores"):
            self.run(self.stores[1]._batcher.close())
            self.run(self.stores[0].close())
        self.runner.close()
        self.folder.cleanup()

    @rule(
        instance=INSTANCES,
        uids=st.lists(ENDPOINTS, max_size=3),
        claimed=st.booleans(),
        event_id=st.sampled_from([None, None, "e-1", "e-2"]),
    )
    def accept(self, instance: int, uids: list[str], *, claimed: bool, event_id: str | None) -> None:
        """Accept an event, which may be a repetition."""
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
                self.in_hand[instance].append(delivery.id)

    @rule(instance=INSTANCES, uid=ENDPOINTS, limit=st.integers(1, 4))
    def claim(self, instance: int, uid: str, limit: int) -> None:
        """Claim, and get exactly the oldest that nobody living holds."""
        claimed = self.run(self.stores[instance].claim([(uid, limit)]))
        wanted = sorted(
            (expected.due_ms, delivery_id)
            for delivery_id, expected in self.known.items()
            if expected.new.endpoint_uid == uid and expected.due_ms <= self.clock.now and self.free(expected, instance)
        )[:limit]
        assert [delivery.id for delivery in claimed] == [delivery_id for _, delivery_id in wanted]
        for delivery in claimed:
            assert delivery.attempts == self.known[delivery.id].attempts
            self.known[delivery.id].owner = instance
            self.in_hand[instance].append(delivery.id)

    def free(self, expected: Expected, claimant: int) -> bool:
        """Whether an instance may claim the delivery, due or not."""
        owner = expected.owner
        dead = owner is not None and owner != claimant and self.leases[owner] <= self.clock.now
        return expected.state == State.PENDING and (owner is None or dead)

    @precondition(lambda self: self.in_hand[0] or self.in_hand[1])
    @rule(pick=st.randoms(use_true_random=False), state=OUTCOMES, delay=st.sampled_from([0, 1, 30_000]))
    def settle(self, pick: Random, state: State, delay: int) -> None:
        """Settle an attempt, also one for a delivery that was lost or discarded meanwhile."""
        instance = pick.choice([one for one, held in self.in_hand.items() if held])
        expected = self.known[self.in_hand[instance].pop(pick.randrange(len(self.in_hand[instance])))]
        due_ms = self.clock.now + delay
        self.run(self.stores[instance].settle([settlement(expected.new, state, due_ms=due_ms)]))
        expected.made += 1
        if expected.state == State.PENDING and expected.owner == instance:
            expected.state, expected.owner = state, None
            expected.attempts += 1
            expected.due_ms = due_ms if state == State.PENDING else expected.due_ms

    @precondition(lambda self: self.in_hand[0])
    @rule()
    def release(self) -> None:
        """The first instance gives back all that it holds."""
        held, self.in_hand[0] = self.in_hand[0], []
        self.run(self.stores[0].release(held))
        for expected in self.known.values():
            if expected.owner == 0 and expected.state == State.PENDING:
                expected.owner = None

    @rule(milliseconds=st.sampled_from([1, LEASE_MS // 2, LEASE_MS, 30_000, DEDUPE_WINDOW_MS]))
    def advance(self, milliseconds: int) -> None:
        """Time passes."""
        self.clock.advance(milliseconds)

    @rule(instance=INSTANCES)
    def heartbeat(self, instance: int) -> None:
        """An instance lives on."""
        self.leases[instance] = self.run(self.stores[instance].heartbeat())
        assert self.leases[instance] == self.clock.now + LEASE_MS

    @rule(uid=ENDPOINTS)
    def discard(self, uid: str) -> None:
        """An endpoint goes."""
        pending = [e for e in self.known.values() if e.new.endpoint_uid == uid and e.state == State.PENDING]
        assert self.run(self.stores[0].discard(uid, "endpoint deleted")) == len(pending)
        for expected in pending:
            expected.state, expected.owner = State.DISCARDED, None

    @precondition(lambda self: self.known)
    @rule(pick=st.randoms(use_true_random=False))
    def retry(self, pick: Random) -> None:
        """Somebody asks for one more try."""
        delivery_id = pick.choice(list(self.known))
        expected = self.known[delivery_id]
        assert self.run(self.stores[1].retry(delivery_id)) == expected.state
        if expected.state in {State.DELIVERED, State.FAILED}:
            expected.state, expected.owner = State.PENDING, None
            expected.due_ms, expected.attempts = self.clock.now, 0

    @invariant()
    def the_rows_are_as_expected(self) -> None:
        """Nothing accepted disappears, and each delivery is in the state and the hands that the model says."""
        owners: dict[str | None, int | None] = {
            None: None,
            **{store.instance: one for one, store in enumerate(self.stores)},
        }

        def rows(connection: Connection) -> dict[str, tuple[str, int | None]]:
            found = connection.execute(select(deliveries.c.id, deliveries.c.state, deliveries.c.owner))
            return {delivery_id: (state, owners[owner]) for delivery_id, state, owner in found}

        assert self.run(self.stores[0]._database.read(rows)) == {
            delivery_id: (expected.state, expected.owner) for delivery_id, expected in self.known.items()
        }

    @invariant()
    def the_counters_equal_the_rows(self) -> None:
        """Counters are kept, never scanned for, and right all the same."""
        counts = self.run(self.stores[0].counts())
        for uid in ("orders", "audit"):
            states = Counter(e.state for e in self.known.values() if e.new.endpoint_uid == uid)
            if uid in counts:
                assert [getattr(counts[uid], state) for state in COUNTED] == [states[state] for state in COUNTED]
            else:
                assert not states

    @invariant()
    def next_due_names_the_earliest_that_is_free(self) -> None:
        """Each instance is told when it has something to claim, and never of what it cannot have."""
        for instance, store in enumerate(self.stores):
            free = [(e.new.endpoint_uid, e.due_ms) for e in self.known.values() if self.free(e, instance)]
            assert self.run(store.next_due()) == {uid: min(due for of, due in free if of == uid) for uid, _ in free}

    @invariant()
    def every_attempt_is_in_the_log(self) -> None:
        """Attempts are numbered from 1 without a gap."""
        for uid in ("orders", "audit"):
            for record in self.run(self.stores[0].deliveries(uid, limit=1000))[0]:
                made = self.known[record.id].made
                assert [attempt.number for attempt in record.attempts] == list(range(1, made + 1))


TestDeliveries = Deliveries.TestCase
TestDeliveries.settings = settings(
    max_examples=30,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

"""Shares of namespaces in places and bytes, the conditions of an attempt, and the endpoint queue that starts next."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule
from unit.operator.delivery.test_endpoint_queue import ENDPOINT, claimed

from hookwright_operator.delivery.endpoint_queue import EndpointQueue
from hookwright_operator.delivery.queues import EndpointQueues
from hookwright_operator.delivery.scheduler import Scheduler
from hookwright_operator.delivery.shares import Bounds, Shares

BOUND = 1024
LEASE_MS = 60_000
TIMEOUT_MS = int(ENDPOINT.timeout * 1000)


def leased(bound: int) -> Scheduler:
    """Return a scheduler whose claim lease ends later than each attempt here."""
    scheduler = Scheduler(bound)
    scheduler.lease_until_ms = LEASE_MS
    return scheduler


def queue(namespace: str, uid: str = "e", *, max_in_flight: int = 64) -> EndpointQueue:
    """Return an endpoint queue that never becomes empty."""
    creation = EndpointQueue(
        replace(ENDPOINT, uid=f"{namespace}/{uid}", namespace=namespace, max_in_flight=max_in_flight)
    )
    creation.ready.append(claimed())
    return creation


def fill(scheduler: Scheduler, *queues: EndpointQueue) -> None:
    """Let queues start all attempts that they may start."""
    for one in queues:
        scheduler.ask(one)
    start_all(scheduler)


def start_all(scheduler: Scheduler, *, now: float = 0.0, now_ms: int = 0) -> list[EndpointQueue]:
    """Start all attempts that may start, and return their queues in order."""
    return list(scheduler.start(now, now_ms))


def known(scheduler: Scheduler, namespace: str, endpoints: int = 50, *, max_in_flight: int = 64) -> list[EndpointQueue]:
    """Return the endpoints of a namespace, added to the scheduler."""
    queues = [queue(namespace, f"e-{number}", max_in_flight=max_in_flight) for number in range(endpoints)]
    for one in queues:
        scheduler.add(one)
    return queues


def hostile(scheduler: Scheduler, namespace: str) -> list[EndpointQueue]:
    """Return the endpoints of a namespace that all hang: they start all attempts that they may, and none ends."""
    queues = known(scheduler, namespace, 500, max_in_flight=4)
    fill(scheduler, *queues)
    return queues


def in_flight(queues: list[EndpointQueue]) -> int:
    """Return how many attempts are under way."""
    return sum(one.in_flight for one in queues)


def test_one_namespace_alone_stops_at_half() -> None:
    """The other half is free for the next namespace."""
    scheduler = leased(BOUND)
    assert in_flight(hostile(scheduler, "a")) == scheduler.in_flight == BOUND // 2


@pytest.mark.parametrize(
    ("namespaces", "guaranteed"), [(1, 256), (2, 128), (3, 128), (10, 32), (50, 8), (100, 4), (511, 1)]
)
def test_a_newcomer_gets_its_part_at_once_however_many_namespaces_hang(namespaces: int, guaranteed: int) -> None:
    """The hostile namespaces fill up one after the other, which is the worst order; nothing ever ends."""
    scheduler = leased(BOUND)
    newcomer = known(scheduler, "newcomer")
    attackers = [known(scheduler, f"hostile-{number}") for number in range(namespaces)]
    for queues in attackers:
        fill(scheduler, *queues)
        assert in_flight(queues) <= BOUND // 2
    fill(scheduler, *newcomer)
    assert in_flight(newcomer) >= guaranteed
    assert scheduler.in_flight <= BOUND


def test_a_namespace_that_is_created_amid_an_attack_gets_a_place_when_the_first_attempts_end() -> None:
    """Each of 20 hostile namespaces is new as well, and fills up before the next one exists."""
    scheduler = leased(BOUND)
    attackers = [hostile(scheduler, f"hostile-{number}") for number in range(20)]
    newcomer = known(scheduler, "newcomer")
    fill(scheduler, *newcomer)
    for attacker in attackers[0]:
        while attacker.in_flight:
            scheduler.end(attacker)
            attacker.ended(delivered=False, timed_out=True, now=0.0, jitter=0.0)
    start_all(scheduler)
    assert in_flight(newcomer) >= 16


@pytest.mark.parametrize("namespaces", [2, 3, 10])
def test_namespaces_that_come_together_get_equal_parts(namespaces: int) -> None:
    """They ask in turn, and end with the same number of places."""
    scheduler = leased(BOUND)
    queues = [queue(f"ns-{number % namespaces}", f"e-{number}", max_in_flight=1) for number in range(2000)]
    for one in queues:
        scheduler.add(one)
    fill(scheduler, *queues)
    parts = Counter(one.endpoint.namespace for one in queues for _ in range(one.in_flight))
    assert max(parts.values()) - min(parts.values()) <= 1
    assert sum(parts.values()) >= BOUND // 2


def test_a_namespace_beyond_its_part_gets_no_place_until_it_is_below() -> None:
    """When another namespace comes, attempts of the first one end without a successor, until both are equal."""
    scheduler = leased(BOUND)
    first = hostile(scheduler, "first")
    second = hostile(scheduler, "second")
    assert (in_flight(first), in_flight(second)) == (512, 256)
    shares = []
    for _ in range(400):
        item = max(first, key=lambda item: item.in_flight)
        scheduler.end(item)
        fill(scheduler, item)
        shares.append((in_flight(first), in_flight(second)))
    assert shares[-1][0] - shares[-1][1] <= 1
    assert all(before[1] <= after[1] for before, after in pairwise(shares))


def test_endpoints_of_a_namespace_start_all() -> None:
    """Each endpoint starts one attempt; the endpoint whose attempt has just ended is the last."""
    scheduler = leased(1)
    queues = [queue("a", name, max_in_flight=8) for name in "xyz"]
    for one in queues:
        scheduler.add(one)
    fill(scheduler, *queues)
    order = [one for one in queues if one.in_flight]
    for _ in range(7):
        scheduler.end(order[-1])
        scheduler.ask(order[-1])
        order += start_all(scheduler)
    assert [one.endpoint.uid for one in order] == [f"a/{name}" for name in "xyzxyzxy"]


def test_namespaces_take_turns_whatever_number_of_endpoints_they_have() -> None:
    """A namespace with three endpoints gets as much of one place as a namespace with one."""
    scheduler = leased(1)
    queues = [queue("many", name) for name in "xyz"] + [queue("one")]
    for one in queues:
        scheduler.add(one)
    fill(scheduler, *queues)
    order = [queues[0]]
    for _ in range(7):
        scheduler.end(order[-1])
        scheduler.ask(order[-1])
        order += start_all(scheduler)
    assert [one.endpoint.namespace for one in order] == ["many", "one"] * 4


def test_the_endpoint_with_the_fewest_attempts_under_way_is_next() -> None:
    """An endpoint that hangs gets no turn before the others of its namespace have as many attempts under way."""
    scheduler = leased(32)
    hanging, lively, second = known(scheduler, "a", 3)
    for _ in range(4):
        scheduler._count(hanging, 0.0)
    for value in (hanging, lively, second):
        scheduler._wait(value)
    assert start_all(scheduler) == [lively, second] * 4


def end_all(scheduler: Scheduler, *queues: EndpointQueue) -> None:
    """Let all attempts end; nothing else is ready in these queues."""
    for one in queues:
        one.ready.clear()
        while one.in_flight:
            scheduler.end(one)


def test_fifty_endpoints_that_hang_leave_places_for_another_of_their_own_namespace() -> None:
    """They all grow together, as with events that go to each of them; the newcomer of the namespace gets some."""
    scheduler = leased(BOUND)
    queues = [queue("a", f"e-{number}") for number in range(50)]
    newcomer = queue("a", "newcomer")
    for item in [*queues, newcomer]:
        scheduler.add(item)
    for _ in range(64):
        for item in queues:
            if item.can_start and scheduler._has_place(item):
                scheduler._count(item, 0.0)
    assert in_flight(queues) > BOUND // 3
    fill(scheduler, newcomer)
    assert newcomer.in_flight >= 4


def test_an_endpoint_that_timed_out_gets_two_places_until_an_attempt_succeeds() -> None:
    """A failure that is no timeout neither limits nor lifts the limit; other endpoints keep theirs."""
    hanging, second = queue("a", "hanging"), queue("a", "other")
    hanging.ended(delivered=False, timed_out=True, now=0.0, jitter=0.0)
    assert (hanging.limit, hanging.limited_to, second.limit, second.limited_to) == (2, 2, 64, None)
    hanging.ended(delivered=False, timed_out=False, now=0.0, jitter=0.0)
    assert hanging.limit == 2
    scheduler = leased(BOUND)
    for value in (hanging, second):
        scheduler.add(value)
    fill(scheduler, hanging, second)
    assert (hanging.in_flight, second.in_flight) == (2, 64)
    hanging.ended(delivered=True, timed_out=False, now=0.0, jitter=0.0)
    fill(scheduler, hanging)
    assert (hanging.in_flight, hanging.limited_to) == (64, None)


def test_an_endpoint_that_allows_one_attempt_keeps_one_while_it_times_out() -> None:
    """The limit never raises a declared `maxInFlight`."""
    hanging = queue("a", max_in_flight=1)
    hanging.ended(delivered=False, timed_out=True, now=0.0, jitter=0.0)
    assert (hanging.limit, hanging.limited_to) == (1, 1)


def test_a_place_counts_for_its_namespace_until_the_attempt_ends_although_its_endpoint_is_gone() -> None:
    """Otherwise a tenant could get places by deleting endpoints and making new ones."""
    scheduler = leased(BOUND)
    old = hostile(scheduler, "a")
    for one in old:
        scheduler.remove(one)
    assert not scheduler.waiting
    assert in_flight(hostile(scheduler, "a")) == 0
    for one in old:
        while one.in_flight:
            scheduler.end(one)
    assert len(start_all(scheduler)) >= 500


def test_queues_that_wait_for_a_claim_are_taken_from_each_namespace_in_turn() -> None:
    """A namespace with a thousand endpoints delays another one by a single claim, and keeps its own order."""
    queues = EndpointQueues(Bounds(window=64, memory=1 << 20), lambda: 0, shared=False)
    many = [queue("many", str(number)) for number in range(1000)]
    few = [queue("few", str(number)) for number in range(3)]
    for item in [*many, *few, *many]:
        queues.claim_for(item)
    assert queues.next_claim() == many[:64]
    queues.claim_for(many[0])
    assert queues.to_claim_for == [*few, *many[64:125]]
    claims = [*iter(queues.next_claim, [])]
    assert [item for claim in claims for item in claim] == [*few, *many[64:], many[0]]
    assert {len(claim) for claim in claims[:-1]} == {64}


@pytest.mark.parametrize("hostiles", [1, 2, 3, 10])
def test_memory_keeps_room_for_a_newcomer(hostiles: int) -> None:
    """Bytes are shared by the same rule; the hostile namespaces take bodies of 256 KiB as long as they may."""
    shares, body = Shares(64 << 20), 256 << 10
    for namespace in ("newcomer", *map(str, range(hostiles))):
        shares.join(namespace)
    for number in range(hostiles):
        while body <= shares.left(str(number)):
            shares.take(str(number), body)
        assert shares.used_by(str(number)) <= 32 << 20
    assert shares.left("newcomer") >= (32 << 20) // 16


def test_memory_beyond_the_bound_leaves_nothing_until_it_is_given_back() -> None:
    """A claim may bring more than there is room for; then nothing is left, and the counts still add up."""
    shares = Shares(100)
    shares.join("a")
    shares.join("b")
    shares.take("a", 150)
    assert (shares.left("a"), shares.left("b"), shares.used) == (0, 0, 150)
    shares.give("a", 100)
    assert (shares.left("a"), shares.left("b"), shares.used) == (0, 25, 50)


def test_a_queue_that_pauses_resumes_by_itself_at_the_end_of_its_pause() -> None:
    """Pauses of different queues end at their own times, and a pause that was prolonged is kept."""
    scheduler = leased(BOUND)
    slow, fast = known(scheduler, "a", 2, max_in_flight=8)
    slow.change(replace(slow.endpoint, per_minute=60))
    fast.change(replace(fast.endpoint, per_minute=120))
    fill(scheduler, slow, fast)
    assert [slow.in_flight, fast.in_flight, scheduler.resume_at] == [1, 1, 0.5]
    assert start_all(scheduler, now=0.25) == []
    assert start_all(scheduler, now=0.5) == [fast]
    slow.paced_until = 1.5
    assert start_all(scheduler, now=1.0) == [fast]
    assert start_all(scheduler, now=1.5) == [slow, fast]


def test_a_queue_that_waits_for_a_place_and_pauses_meanwhile_gives_its_turn_to_the_next() -> None:
    """Its pause is kept although its turn comes first."""
    scheduler = leased(1)
    busy, pausing, second = known(scheduler, "a", 3, max_in_flight=1)
    fill(scheduler, busy, pausing, second)
    pausing.paced_until = 1.0
    scheduler.end(busy)
    assert start_all(scheduler) == [second]
    end_all(scheduler, second)
    assert start_all(scheduler, now=0.5) == []
    assert start_all(scheduler, now=1.0) == [pausing]


@given(st.lists(st.integers(0, 4), max_size=60), st.integers(1, 200))
def test_the_guaranteed_parts_never_exceed_half_of_the_bound(endpoints: list[int], bound: int) -> None:
    """The rule holds for any number of namespaces, and the parts are 0 when all are gone."""
    shares = Shares(bound)
    for number, count in enumerate(endpoints):
        for _ in range(count):
            shares.join(str(number))
    namespaces = sum(count > 0 for count in endpoints)
    assert namespaces * shares._guaranteed <= bound / 2
    if namespaces:
        assert namespaces * shares._guaranteed > bound / 4 - namespaces
    for number, count in enumerate(endpoints):
        for _ in range(count):
            shares.leave(str(number))
    assert (shares._shares, shares._guaranteed, shares._spare) == ({}, 0, bound)


class Scheduling(RuleBasedStateMachine):
    """Endpoints come and go, attempts start, end and time out, time passes and the lease is renewed, in any order."""

    queues = Bundle("queues")

    def __init__(self) -> None:
        super().__init__()
        self.bound = 0
        self.known: list[EndpointQueue] = []
        self.asked: set[EndpointQueue] = set()
        self.attempts: list[EndpointQueue] = []
        self.now = 0.0

    @property
    def now_ms(self) -> int:
        """Return the time in milliseconds."""
        return int(self.now * 1000)

    def covered(self) -> bool:
        """Return whether the claim lease covers an attempt that starts now."""
        return self.now_ms + TIMEOUT_MS < self.scheduler.lease_until_ms

    @precondition(lambda self: not self.bound)
    @rule(bound=st.sampled_from([1, 2, 3, 7, 16, 40]))
    def begin(self, bound: int) -> None:
        """Choose how many places there are."""
        self.bound, self.scheduler = bound, Scheduler(bound)

    @precondition(lambda self: self.bound)
    @rule(for_ms=st.sampled_from([TIMEOUT_MS - 1, TIMEOUT_MS + 500, LEASE_MS]))
    def renew_lease(self, for_ms: int) -> None:
        """Set the end of the claim lease, which may be too early for an attempt."""
        self.scheduler.lease_until_ms = self.now_ms + for_ms
        for endpoint in self.known:
            if endpoint in self.asked:
                self.scheduler.ask(endpoint)
        self.settle()

    @precondition(lambda self: self.bound)
    @rule(seconds=st.sampled_from([0.05, 0.3, 1.0, 5.0]))
    def pass_time(self, seconds: float) -> None:
        """Let pauses end and the lease expire."""
        self.now += seconds
        self.settle()

    @precondition(lambda self: self.bound)
    @rule(
        target=queues,
        namespace=st.sampled_from("abcdef"),
        max_in_flight=st.sampled_from([1, 2, 5, 64]),
        per_minute=st.sampled_from([None, None, 60, 600]),
    )
    def come(self, namespace: str, max_in_flight: int, per_minute: int | None) -> EndpointQueue:
        """Add an endpoint."""
        creation = queue(namespace, str(len(self.known)), max_in_flight=max_in_flight)
        creation.change(replace(creation.endpoint, per_minute=per_minute))
        self.scheduler.add(creation)
        self.known.append(creation)
        self.settle()
        return creation

    @rule(gone=consumes(queues))
    def go(self, gone: EndpointQueue) -> None:
        """Delete an endpoint; its attempts continue."""
        gone.end()
        self.scheduler.remove(gone)
        self.known.remove(gone)
        self.settle()

    @rule(one=queues)
    def pump(self, one: EndpointQueue) -> None:
        """Let an endpoint queue start as many attempts as it may."""
        self.asked.add(one)
        self.scheduler.ask(one)
        self.settle()

    @precondition(lambda self: self.attempts)
    @rule(data=st.data(), delivered=st.booleans(), timed_out=st.booleans(), jitter=st.sampled_from([0.0, 0.5, 1.0]))
    def end(self, data: st.DataObject, delivered: bool, timed_out: bool, jitter: float) -> None:  # noqa: FBT001
        """End an attempt."""
        item = self.attempts.pop(data.draw(st.integers(0, len(self.attempts) - 1)))
        self.scheduler.end(item)
        item.ended(delivered=delivered and not timed_out, timed_out=timed_out, now=self.now, jitter=jitter)
        if item in self.known:
            self.pump(item)
        self.settle()

    def settle(self) -> None:
        """Start all attempts that may start; each must be allowed by its endpoint, by the lease and by the time."""
        pauses = {endpoint: endpoint.pause(self.now) for endpoint in self.known}
        for endpoint in self.scheduler.start(self.now, self.now_ms):
            assert endpoint.in_flight <= endpoint.limit
            assert self.covered()
            assert pauses[endpoint] == 0
            pauses[endpoint] = endpoint.pause(self.now)
            self.attempts.append(endpoint)

    @precondition(lambda self: self.bound)
    @invariant()
    def the_counts_are_those_of_the_attempts(self) -> None:
        """Check the counts in all, by namespace and by endpoint, and that the bound is kept."""
        by_namespace = Counter(attempt.endpoint.namespace for attempt in self.attempts)
        by_queue = Counter(self.attempts)
        assert self.scheduler.in_flight == len(self.attempts) <= self.bound
        shares = self.scheduler._places._shares
        assert {name: share.used for name, share in shares.items() if share.used} == by_namespace
        assert set(shares) == {attempt.endpoint.namespace for attempt in [*self.known, *self.attempts]}
        assert all(attempt.in_flight == by_queue[attempt] for attempt in self.known)

    @precondition(lambda self: self.bound)
    @invariant()
    def no_queue_that_waits_has_room(self) -> None:
        """Check that a place stays free only for others, and that all that waits is ranked by its present count."""
        places, waiting = self.scheduler._places, self.scheduler._waiting
        for name, queues in waiting.items():
            assert queues
            assert all(rank.in_flight >= places.left(name) for rank in queues._ranks)
            assert queues._ranks == {rank: rank.in_flight for rank in queues._ranks}
        ranks = {name: (places.used_by(name), queues.lowest()) for name, queues in waiting.items()}
        assert self.scheduler._namespaces._ranks == ranks

    @precondition(lambda self: self.bound)
    @invariant()
    def no_queue_is_forgotten(self) -> None:
        """Check that each queue that asked and could start waits for its turn, for the lease or for a pause to end."""
        waiting = self.scheduler._waiting
        for one in self.known:
            if one.can_start and one in self.asked and self.covered():
                assert one in waiting.get(one.endpoint.namespace, ()) or one in self.scheduler._pausing
        assert {one for _, _, one in self.scheduler._pauses} == self.scheduler._pausing

    @precondition(lambda self: self.bound)
    @invariant()
    def what_is_spare_is_what_no_namespace_has_or_is_guaranteed(self) -> None:
        """Check that the running count equals the sum over all namespaces."""
        places = self.scheduler._places
        parts = sum(max(places._guaranteed, share.used) for share in places._shares.values())
        assert places._spare == self.bound - parts

    def teardown(self) -> None:
        """Check that nothing is left when all attempts have ended and all endpoints are gone."""
        if not self.bound:
            return
        for endpoint in tuple(self.known):
            endpoint.end()
            self.scheduler.remove(endpoint)
        for endpoint in self.attempts:
            self.scheduler.end(endpoint)
        assert (self.scheduler.in_flight, self.scheduler.waiting) == (0, False)
        assert not self.scheduler._namespaces
        assert self.scheduler._places._shares == {}


Scheduling.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestScheduling = Scheduling.TestCase

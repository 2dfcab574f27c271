"""Each paged read returns each delivery exactly once and in order, for any page size and any limit on rows.

The deliveries have few different milliseconds, and those of other endpoints lie between them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from random import Random
from typing import Final
from unittest.mock import patch

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from support.store_factories import LEASE_MS, Clock, settlement

from hookwright_operator.ids import first_delivery_id
from hookwright_operator.store.records import Choice, DeliveryRecord, NewDelivery, NewEvent, Search, State
from hookwright_operator.store.sql import paging, read, replay_choice
from hookwright_operator.store.sql import search as search_sql
from hookwright_operator.store.store import Store

BEGUN_MS: Final = 1_800_000_000_000
UIDS: Final = ("orders", "audit", "spy")
TYPES: Final = ("opened", "clicked")
TIMES_MS: Final = (0, 0, 0, 1, 2, 31, 32, 1023, 1024, 1025, 5000)
"""Milliseconds of events: a slice has 1,024 of them."""
ENDS: Final = (State.DELIVERED, State.DELIVERED, State.DELIVERED, State.FAILED, State.PENDING)
MOST_PAGES: Final = 500


@dataclass(frozen=True, slots=True)
class Known:
    """A delivery of the test."""

    id: str
    event: str
    uid: str
    kind: str
    message: str
    state: State
    code: int | None
    time: int


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits on rows of one read."""

    rows: int
    stretch: int
    first: int
    merged: int
    at_once: int
    listed: int

    def apply(self, stack: ExitStack) -> None:
        """Set the limits while the stack is open."""
        for module, name, value in (
            (search_sql, "ROWS", self.rows),
            (search_sql, "WALKED_ROWS", self.rows),
            (search_sql, "CHECKED_ROWS", self.rows),
            (search_sql, "CHECKED_AT_ONCE", self.at_once),
            (search_sql, "MERGED_LOGS", self.merged),
            (search_sql, "LISTED_EVENTS", self.listed),
            (paging, "STRETCH_ROWS", self.stretch),
            (replay_choice, "STRETCH_ROWS", self.stretch),
            (replay_choice, "_FEWEST", self.first),
        ):
            stack.enter_context(patch.object(module, name, value))
        stack.enter_context(patch.object(paging.RowBudget.__init__, "__defaults__", (self.rows,)))


LIMITS: Final = st.builds(
    Limits,
    rows=st.integers(1, 12) | st.just(10_000),
    stretch=st.integers(1, 6) | st.just(10_000),
    first=st.integers(1, 6),
    merged=st.sampled_from([0, 25]),
    at_once=st.integers(1, 5),
    listed=st.sampled_from([0, 1_000]),
)
# Shrinking an example takes minutes, and each example is small.
PHASES: Final = (Phase.reuse, Phase.generate)
SIZES: Final = st.integers(1, 7) | st.just(100)
STATES: Final = st.none() | st.sampled_from(State)
TIMES: Final = st.none() | st.sampled_from(sorted({*TIMES_MS}))


class Stage:
    """A store with deliveries, and a loop for its calls."""

    def __init__(self, url: str) -> None:
        self.runner = asyncio.Runner()
        self.store = self.runner.run(Store.open(url, instance="test", lease_ms=LEASE_MS, clock=Clock()))
        self.known: list[Known] = []
        self.runner.run(self._fill(Random(17)))

    async def _fill(self, random: Random) -> None:
        new: list[NewEvent] = []
        ends = []
        for number in range(40):
            time = random.choice(TIMES_MS)
            begin = first_delivery_id(BEGUN_MS + time)[len("dlv_") : -16]
            name, kind, message = f"msg_{begin}{number:016}", random.choice(TYPES), f"m-{number % 4}"
            new_stage = []
            for place, uid in enumerate(random.sample(UIDS, random.randint(1, 3))):
                head = first_delivery_id(BEGUN_MS + time)[:-16]
                delivery = NewDelivery(f"{head}{random.randrange(10**9):013}{number:02}{place}", uid, claimed=True)
                state = random.choice(ENDS)
                code = None if state is State.PENDING else random.choice([200, 500])
                self.known.append(Known(delivery.id, name, uid, kind, message, state, code, time))
                new_stage.append(delivery)
                if code is not None:
                    ends.append(settlement(delivery, state, status=code))
            new.append(NewEvent(name, "acme", "billing", None, kind, b"{}", tuple(new_stage), message_id=message))
        await self.store.accept(new)
        await self.store.settle(ends)

    def all_pages(self, page: Callable[[str | None], Awaitable[tuple[list[DeliveryRecord], str | None]]]) -> list[str]:
        """Return the ids of all pages."""
        return self.runner.run(self._pages(page))

    @staticmethod
    async def _pages(page: Callable[[str | None], Awaitable[tuple[list[DeliveryRecord], str | None]]]) -> list[str]:
        ids: list[str] = []
        cursor = None
        for _ in range(MOST_PAGES):
            rows, cursor = await page(cursor)
            ids += [row.id for row in rows]
            if cursor is None:
                return ids
        raise AssertionError(f"the pages do not end: {cursor}")

    def close(self) -> None:
        """Close the store."""
        self.runner.run(self.store.close())
        self.runner.close()


@pytest.fixture
def stage(url: str) -> Iterator[Stage]:
    """Yield a store with deliveries."""
    new_stage = Stage(url)
    yield new_stage
    new_stage.close()


def test_the_log_of_an_endpoint_has_each_delivery_once(stage: Stage) -> None:
    """The state may be rare among the rows that a page examines."""

    @settings(max_examples=25, phases=PHASES)
    @given(uid=st.sampled_from(UIDS), state=STATES, size=SIZES, limits=LIMITS)
    def check(uid: str, state: State | None, size: int, limits: Limits) -> None:
        expected = [row.id for row in stage.known if row.uid == uid and state in {None, row.state}]
        with ExitStack() as stack:
            limits.apply(stack)
            rows = stage.all_pages(lambda at: stage.store.read_log(read.log, uid, state=state, limit=size, cursor=at))
        assert rows == sorted(expected, reverse=True)

    check()


def test_a_search_has_each_delivery_once(stage: Stage) -> None:
    """Whichever source a search has, and whichever conditions it checks afterwards."""

    @settings(max_examples=40, phases=PHASES)
    @given(
        uids=st.lists(st.sampled_from(UIDS), min_size=1, max_size=3, unique=True),
        state=STATES,
        message=st.none() | st.sampled_from(["m-0", "m-1"]),
        kind=st.none() | st.sampled_from(TYPES),
        code=st.none() | st.sampled_from([200, 500]),
        span=st.tuples(TIMES, TIMES),
        size=SIZES,
        limits=LIMITS,
    )
    def check(
        *,
        uids: list[str],
        state: State | None,
        message: str | None,
        kind: str | None,
        code: int | None,
        span: tuple[int | None, int | None],
        size: int,
        limits: Limits,
    ) -> None:
        since, until = span
        expected = [
            row.id
            for row in stage.known
            if row.uid in uids
            and state in {None, row.state}
            and message in {None, row.message}
            and kind in {None, row.kind}
            and code in {None, row.code}
            and (since is None or row.time >= since)
            and (until is None or row.time <= until)
        ]
        search = Search(
            tuple(uids),
            "acme",
            message_id=message,
            event_type=kind,
            state=state,
            status_code=code,
            since_ms=None if since is None else BEGUN_MS + since,
            until_ms=None if until is None else BEGUN_MS + until,
        )
        with ExitStack() as stack:
            limits.apply(stack)
            rows = stage.all_pages(lambda at: stage.store.read_log(search_sql.page, search, limit=size, cursor=at))
        assert rows == sorted(expected, reverse=True)

    check()


def test_the_deliveries_of_an_event_and_the_search_after_them_have_each_once(stage: Stage) -> None:
    """The cursor of a shown event continues in a search for the event."""

    @settings(max_examples=40, phases=PHASES)
    @given(name=st.sampled_from([row.event for row in stage.known]), size=SIZES, limits=LIMITS)
    def check(name: str, size: int, limits: Limits) -> None:
        uids = UIDS[:2]
        expected = [row.id for row in stage.known if row.event == name and row.uid in uids]
        search = Search(uids, "acme", event_id=name)

        async def page(cursor: str | None) -> tuple[list[DeliveryRecord], str | None]:
            if cursor is not None:
                return await stage.store.read_log(search_sql.page, search, limit=size, cursor=cursor)
            record = await stage.store.read_log(search_sql.event, name)
            assert record is not None
            return await stage.store.read_log(search_sql.deliveries_of, record, uids, limit=size)

        with ExitStack() as stack:
            limits.apply(stack)
            rows = stage.all_pages(page)
        assert rows == sorted(expected, reverse=True)

    check()


def test_the_steps_of_a_replay_have_each_delivery_once(stage: Stage) -> None:
    """The oldest delivery comes first; a step ends at its limit on rows."""

    @settings(max_examples=25, phases=PHASES)
    @given(
        uid=st.sampled_from(UIDS),
        states=st.lists(st.sampled_from([State.DELIVERED, State.FAILED]), min_size=1, unique=True),
        types=st.lists(st.sampled_from(TYPES), max_size=1),
        span=st.tuples(st.sampled_from(TIMES_MS), st.sampled_from(TIMES_MS)),
        size=SIZES,
        limits=LIMITS,
    )
    def check(
        *, uid: str, states: list[State], types: list[str], span: tuple[int, int], size: int, limits: Limits
    ) -> None:
        since, until = sorted(span)
        expected = [
            row.id
            for row in stage.known
            if row.uid == uid and row.state in states and row.kind in (types or TYPES) and since <= row.time <= until
        ]
        choice = Choice(tuple(states), tuple(types))
        after: str | None = first_delivery_id(BEGUN_MS + since)
        matches: list[str] = []
        steps = 0
        with ExitStack() as stack:
            limits.apply(stack)
            while after is not None:
                within = {"after": after, "until_ms": BEGUN_MS + until, "limit": size, "rows_at_most": limits.rows}

                def step(connection: object, within: dict[str, object] = within) -> paging.Found:
                    project = ("acme", "billing")
                    return replay_choice.find(connection, choice, endpoint_uid=uid, project=project, **within)  # type: ignore[arg-type]

                ids, after = stage.runner.run(_read(stage.store, step))
                matches += ids
                steps += 1
                assert steps < MOST_PAGES, f"the steps do not end: {after}"
        assert matches == sorted(expected)

    check()


async def _read(store: Store, step: Callable[[object], paging.Found]) -> paging.Found:
    return await store.transactions.read("test", step)

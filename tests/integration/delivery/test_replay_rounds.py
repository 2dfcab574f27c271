"""The rounds of replays: a replay that cannot advance costs a few steps and few rounds."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from integration.delivery.conftest import Start
from support.dispatcher import Engine, Plan, subscriber
from support.polling import until
from support.store_factories import event, failures_of, settlement

from hookwright_dev.receiver import Receiver
from hookwright_operator.registry import Endpoint
from hookwright_operator.services.replays import POLL_SECONDS, REPLAYED_AT_ONCE, STEP_SECONDS, Replays
from hookwright_operator.store.chosen_replays import ChosenReplays
from hookwright_operator.store.records import DELETED_REASON, ReplayState, State

FAILED = REPLAYED_AT_ONCE + 100


@dataclass(slots=True)
class Rounds:
    """An engine, the steps of its replays, and the pauses that they wanted between their rounds."""

    engine: Engine
    steps: list[str] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)

    async def sleep(self, seconds: float) -> None:
        """Record a pause, and let other tasks run for a moment."""
        self.pauses.append(seconds)
        await asyncio.sleep(0.001)

    def start(self) -> None:
        """Start the rounds."""
        engine = self.engine
        replays = Replays(engine.registry, engine.dispatcher, engine.store, engine.plan.clock_ms, self.sleep)
        engine.loops.start("replays", replays.run)

    async def after(self, number: int) -> None:
        """Wait until that many further rounds have ended."""
        already = len(self.pauses)
        await until(lambda: len(self.pauses) >= already + number)

    async def begin(self, uid: str) -> None:
        """Begin a replay of more failed deliveries than one step makes pending; its id begins with ``rec_``."""
        store = self.engine.store
        events = [event(uid, claimed=True) for _ in range(FAILED)]
        await store.accept(events)
        deliveries = [delivery for new in events for delivery in new.deliveries]
        await store.settle([settlement(delivery, State.FAILED, status=500) for delivery in deliveries])
        await store.chosen_replays.begin(f"rec_{uid}", failures_of(uid))

    async def state(self, uid: str) -> ReplayState:
        """Return the state of the replay of an endpoint."""
        progress = await self.engine.store.replay(f"rec_{uid}")
        assert progress is not None
        return progress.state


@pytest.fixture
async def rounds(start: Start, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Rounds]:
    """Yield rounds that have not begun, over an engine without endpoints."""
    rounds = Rounds(await start(Plan(window=1024)))
    advance = ChosenReplays.advance

    async def observed(
        replays: ChosenReplays, replay_id: str, *, limit: int, project: tuple[str, str] = ("", "")
    ) -> int | None:
        rounds.steps.append(replay_id)
        return await advance(replays, replay_id, limit=limit, project=project)

    monkeypatch.setattr(ChosenReplays, "advance", observed)
    yield rounds
    await rounds.engine.loops.stop("replays")


def unsendable(uid: str) -> Iterable[Endpoint]:
    """Return endpoints to which nothing may be sent."""
    endpoint = subscriber(uid, "http://127.0.0.1:1/", suspend=True)
    return [
        endpoint,
        replace(endpoint, suspend=False, block_reason="ProjectNotFound"),
        replace(endpoint, suspend=False, secrets=()),
    ]


@pytest.mark.parametrize("endpoint", unsendable("orders"), ids=["suspended", "blocked", "without a secret"])
async def test_a_replay_of_an_endpoint_that_gets_nothing_takes_no_turns_until_it_is_sendable(
    rounds: Rounds, receiver: Receiver, endpoint: Endpoint
) -> None:
    """The replay makes one step of deliveries pending, and continues when the endpoint gets them."""
    rounds.engine.registry.put(endpoint)
    await rounds.begin("orders")
    rounds.start()
    await rounds.after(20)
    assert rounds.steps == ["rec_orders"] * 2
    assert (await rounds.engine.counts("orders")).pending == REPLAYED_AT_ONCE
    assert await rounds.state("orders") is ReplayState.RUNNING

    rounds.engine.registry.put(subscriber("orders", receiver.url))

    await rounds.engine.ended("orders", FAILED)
    assert (await rounds.engine.counts("orders")).delivered == FAILED


async def test_the_pause_after_rounds_without_progress_grows_to_the_longest_one(rounds: Rounds) -> None:
    """No consumer takes the messages of the endpoint, so its replay cannot advance although it keeps its turns."""
    rounds.engine.registry.put(replace(subscriber("orders", ""), pull_lease=30.0))
    await rounds.begin("orders")
    rounds.start()
    await rounds.after(8)
    assert rounds.pauses[0] == STEP_SECONDS
    assert all(later == min(2 * earlier, POLL_SECONDS) for earlier, later in pairwise(rounds.pauses))
    assert rounds.pauses[-1] == POLL_SECONDS


async def test_a_replay_without_turns_ends_when_its_endpoint_is_deleted(rounds: Rounds) -> None:
    """The discarding of the deliveries ends it, as for every replay."""
    rounds.engine.registry.put(subscriber("orders", "http://127.0.0.1:1/", suspend=True))
    await rounds.begin("orders")
    rounds.start()
    await rounds.after(5)

    rounds.engine.registry.remove("orders")
    await rounds.engine.store.discard("orders", DELETED_REASON)

    assert await rounds.state("orders") is ReplayState.CANCELLED
    await rounds.after(2)


async def test_a_replay_of_an_unknown_endpoint_keeps_its_turns(rounds: Rounds) -> None:
    """The endpoint is perhaps not read yet; the replay advances as soon as it is known."""
    await rounds.begin("orders")
    rounds.start()
    await rounds.after(5)
    assert rounds.steps == []

    rounds.engine.registry.put(subscriber("orders", "http://127.0.0.1:1/", suspend=True))

    await until(lambda: bool(rounds.steps))

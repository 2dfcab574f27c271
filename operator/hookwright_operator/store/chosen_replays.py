"""Replays: they choose deliveries by state, event type and time of acceptance."""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from sqlalchemy import Connection

from hookwright_operator.store.records import Choice, Replay, ReplayState
from hookwright_operator.store.schema import replays
from hookwright_operator.store.sql import replay, replay_choice
from hookwright_operator.store.sql.paging import ROWS, Found
from hookwright_operator.store.sql.replay import MOST_COUNTED
from hookwright_operator.store.transactions import Transactions


class Wanted(NamedTuple):
    """What a caller wants to replay.

    Attributes:
        since_ms: deliveries that were accepted earlier are not replayed.
        until_ms: deliveries that were accepted later are not replayed.
        project: namespace and name of the endpoint's project; only a replay of missed events needs it.
    """

    endpoint_uid: str
    choice: Choice
    since_ms: int
    until_ms: int
    project: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True)
class ChosenReplays:
    """The replays of all endpoints; every call may raise StoreUnavailable."""

    transactions: Transactions

    async def count(self, selection: Wanted) -> tuple[int, bool]:
        """Return how many deliveries a replay would send now, and whether these are all.

        The count ends at `MOST_COUNTED` deliveries, or when the read has examined too many rows.
        """
        matches = await self.transactions.read("count_replay", partial(_matches, selection=selection), of_log=True)
        return len(matches.ids), matches.position is None

    async def begin(self, replay_id: str, selection: Wanted) -> Replay:
        """Begin a replay, which `advance` then runs; return it, or the replay that already runs for the endpoint."""
        total, exact = await self.count(selection)
        new_replay = Replay(
            replay_id,
            selection.endpoint_uid,
            ReplayState.RUNNING,
            selection.choice,
            selection.since_ms,
            selection.until_ms,
            total,
            done=0,
            begun_ms=self.transactions.clock(),
            total_is_exact=exact,
        )
        reached_id = replay_choice.start_of(selection.choice, selection.since_ms)
        insert = partial(replay.insert_replay, replay=new_replay, reached_id=reached_id)
        return await self.transactions.write("begin_replay", insert)

    async def advance(self, replay_id: str, *, limit: int, project: tuple[str, str] = ("", "")) -> int | None:
        """Make the next chosen deliveries of a running replay pending, due now, the oldest first.

        Args:
            replay_id: the replay; nothing happens unless it is running.
            project: see `Wanted.project`.
            limit: how many of its endpoint's deliveries may be due afterwards; nothing happens if over half are due.

        Returns:
            How many became pending, 0 if the step examined many rows and found no delivery; None if nothing happened.
        """
        now = self.transactions.clock()
        search = partial(replay.next_step, replay_id=replay_id, project=project, limit=limit, now=now)
        step = await self.transactions.read("search_replay", search, of_log=True)
        if step is None:
            return None
        after, result = step
        take = partial(
            replay.take_step, replay_id=replay_id, after=after, step=result, slot=self.transactions.slot, now=now
        )
        number, uid = await self.transactions.write(
            "advance_replay", take, weight=len(result.ids) + 1, tenant=replay_id
        )
        if number:
            self.transactions.notifications.send([uid])
        return number

    async def cancel(self, replay_id: str) -> None:
        """End a replay if it is running; deliveries that it made pending stay pending."""
        await self.transactions.write_now("cancel_replay", partial(replay.cancel, condition=replays.c.id == replay_id))


def _matches(connection: Connection, selection: Wanted) -> Found:
    return replay_choice.find(
        connection,
        selection.choice,
        endpoint_uid=selection.endpoint_uid,
        project=selection.project,
        after=replay_choice.start_of(selection.choice, selection.since_ms),
        until_ms=selection.until_ms,
        limit=MOST_COUNTED,
        rows_at_most=ROWS,
    )

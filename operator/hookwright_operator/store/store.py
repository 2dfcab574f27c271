"""The store: accepted events, their deliveries, and the replicas that claim them."""

import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Concatenate, ParamSpec, Self, TypeVar

from sqlalchemy import Connection, select

from hookwright_operator import metrics
from hookwright_operator.store.chosen_replays import ChosenReplays
from hookwright_operator.store.connect import open_database
from hookwright_operator.store.database import Database
from hookwright_operator.store.group_commit import Observe, Operation
from hookwright_operator.store.lost_claims import LostClaims
from hookwright_operator.store.orphans import Orphans
from hookwright_operator.store.pull_leases import PullLeases
from hookwright_operator.store.records import (
    Accepted,
    Attempt,
    Claimed,
    ClaimRequest,
    NewEvent,
    Replay,
    Replica,
    Settlement,
    Settlements,
    State,
    Wants,
)
from hookwright_operator.store.shard_sharing import NOTICE, ShardSharing
from hookwright_operator.store.sql import accept, claim, prune, read, replay, settle
from hookwright_operator.store.statistics import Statistics
from hookwright_operator.store.transactions import Transactions
from hookwright_runtime.errors import StoreError

P = ParamSpec("P")
T = TypeVar("T")

DISCARD_BATCH = 512
"""Deliveries discarded in one transaction."""

_DELETIONS = "(deletions)"
"""The tenant of all deletions, so that they share one tenant's share; a namespace cannot have this name."""


CLAIM_ROOM = 8 * 1024 * 1024
"""Bytes of bodies in one claim, if the caller sets no other limit."""


class Store:
    """Deliveries that survive a crash. Open it with `Store.open`, and use it from one event loop only.

    Writing calls that arrive together are committed together; a call returns after the commit. Every call may raise
    StoreUnavailable: the database is locked, full or not reachable, or the store is closed. A call that raises has
    changed nothing, with one exception: the connection to PostgreSQL was lost during COMMIT. Then, like a cancelled
    call, it may be carried out as a whole, and its claims are released.

    Times are milliseconds since the epoch.
    """

    def __init__(
        self,
        database: Database,
        replica: Replica,
        *,
        lease_ms: int,
        clock: Callable[[], int],
        observe: Observe = lambda _operation, _seconds: None,
    ) -> None:
        self.instance = replica.id
        self.transactions = Transactions(database, clock, observe)
        self.notifications = database.notifications
        self._clock, self._lease_ms = clock, lease_ms
        self._last_examined = ""
        self._releases = LostClaims(self.release)
        self._accept = Operation("accept", self._accept_all)
        self._settle = Operation("settle", self._settle_all)
        self._claim = Operation("claim", self._claim_all)
        self._release = Operation("release", partial(claim.release, owner=replica.id))
        self.orphans = Orphans(self.transactions)
        self.chosen_replays = ChosenReplays(self.transactions)
        self.statistics = Statistics(self.transactions)
        self.pull_leases = PullLeases(self.transactions, self.statistics)
        self.sharing = ShardSharing(self.transactions, replica)

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        instance: str,
        lease_ms: int,
        clock: Callable[[], int],
        observe: Observe = lambda _operation, _seconds: None,
        name: str = "",
        delivers: bool = True,
    ) -> Self:
        """Open the database, bring its schema up to date and register this process as a replica that claims.

        Args:
            url: ``sqlite:///<path>``; ``?timeout=<seconds>`` sets how long to wait for another process's lock. Or
                ``postgresql://<user>:<password>@<host>:<port>/<database>`` with the parameters of libpq.
            instance: a readable prefix of the replica's id; every opening of the store makes the id unique.
            clock: returns the time, in any thread.
            lease_ms: how long claims outlive the last heartbeat.
            observe: called on the event loop, per transaction, with each operation's name and seconds.
            name: no two living processes share it. The claim lease of an earlier process of this name ends at once.
            delivers: whether the replica takes shards of endpoints.

        Raises:
            StoreError: the URL is wrong, another operator has locked the file, or a newer operator wrote it.
            StoreUnavailable: the database cannot be used right now.
        """
        replica = Replica(f"{instance}/{secrets.token_hex(8)}", name, delivers)
        store = cls(await open_database(url), replica, lease_ms=lease_ms, clock=clock, observe=observe)
        try:
            enter = partial(claim.register, member=replica, lease_ms=lease_ms, alone=not store.is_shared)
            store.transactions.slot = await store.transactions.write_now("register", enter)
        except BaseException:
            await store.close()
            raise
        return store

    @property
    def is_shared(self) -> bool:
        """Whether other replicas may use the database. Otherwise this replica delivers for every endpoint."""
        return self.transactions.database.is_shared

    async def close(self) -> None:
        """Write the statistics, commit all calls made so far, then refuse new calls and close the database."""
        self._releases.close()
        self.pull_leases.close()
        with suppress(StoreError):
            await self.statistics.flush()
        await self.transactions.close()

    async def accept(self, events: Sequence[NewEvent]) -> Accepted:
        """Write events with their deliveries and counters, all of them or none.

        An event is a duplicate if its ``event_id`` was accepted within the window, or earlier in the same call. A
        duplicate writes nothing. An event without deliveries leaves only its id.

        Raises:
            StoreError: an ``event_id`` has a character that a database cannot store, or a new id exists already.
            StoreUnavailable: try again later. Either nothing was written, or all of it, and every replica may claim it.
        """
        accept.check(events)
        weight, tenant = accept.weight_of(events), events[0].namespace if events else ""
        deliveries = [delivery for event in events for delivery in event.deliveries]
        acceptance: Accepted = await self._releases.unless_lost(
            partial(self.transactions.group_commit.submit, self._accept, events, weight=weight, tenant=tenant),
            lambda _: [(delivery.id, delivery.endpoint_uid) for delivery in deliveries if delivery.claimed],
        )
        if waiting := {delivery.endpoint_uid for delivery in deliveries if not delivery.claimed}:
            self.notifications.send(waiting)
        return acceptance

    async def record_test(self, event: NewEvent, attempt: Attempt, accepted_ms: int) -> None:
        """Write a test of an endpoint with its one attempt: it is in the log, and in no counter."""
        write = partial(settle.record_test, event=event, attempt=attempt, accepted_ms=accepted_ms)
        await self.transactions.write_now(
            "record_test", write, weight=1 + accept.weight_of([event]), tenant=event.namespace
        )

    async def claim(self, wants: Wants, *, room: int = CLAIM_ROOM) -> list[Claimed]:
        """Claim due deliveries that no living replica has claimed.

        Args:
            wants: endpoint uids, each once, with how many deliveries to claim at most.
            room: bytes of bodies, in equal shares; an oldest delivery above its endpoint's share is claimed alone.

        Returns:
            The deliveries, an endpoint's in the order of their due times, then ids. Those of one event share a body.
        """
        weight = sum([limit for _, limit in wants])
        ask = partial(self.transactions.group_commit.submit, self._claim, ClaimRequest(wants, room), weight=weight)
        return await self._releases.claim(ask)

    async def settle(self, settlements: Sequence[Settlement], *, again: bool = False) -> None:
        """Record and number attempts, and set the next state of their deliveries, each delivery at most once in a call.

        The state changes only if the delivery is still pending and claimed by this replica; every attempt is recorded.

        Args:
            settlements: the results of attempts.
            again: an earlier call with them failed; this call skips deliveries that it settled in spite of that.
        """
        number = len(settlements)
        unchanged_ids = await self.transactions.settlements.submit(
            self._settle, Settlements(settlements, again), weight=2 * number, parts=number
        )
        self.statistics.count(settlements, unchanged_ids)

    async def release(self, delivery_ids: Sequence[str]) -> None:
        """Release claimed deliveries, so that every replica may claim them."""
        ask = partial(self.transactions.group_commit.submit, self._release, delivery_ids, weight=len(delivery_ids))
        self.notifications.send(await self._releases.certain(ask))

    async def heartbeat(self) -> int:
        """Renew this replica's claim lease, and return when it expires."""
        renew = partial(
            claim.renew_lease, member=self.sharing.member, slot=self.transactions.slot, lease_ms=self._lease_ms
        )
        return await self.transactions.write_now("heartbeat", renew)

    async def discard(self, endpoint_uid: str, reason: str, *, is_deleted: bool = True) -> int:
        """Discard all pending deliveries of an endpoint, claimed ones too, and return how many there were.

        A running replay of the endpoint ends. The counters of a deleted endpoint are removed with its last delivery.
        Other calls run between the transactions of this call. If a call fails halfway, another call does the rest.
        """
        total = 0
        step = partial(
            prune.discard,
            endpoint_uid=endpoint_uid,
            reason=reason,
            is_deleted=is_deleted,
            limit=DISCARD_BATCH,
            slot=self.transactions.slot,
        )
        while True:
            number = await self.transactions.write_now("discard", step, weight=DISCARD_BATCH, tenant=_DELETIONS)
            metrics.DELIVERIES.labels("discarded").inc(number)
            total += number
            if number < DISCARD_BATCH:
                return total

    async def retry(self, delivery_id: str) -> State | None:
        """Make a delivered or failed delivery pending again, due now; its retry schedule starts again.

        Return its previous state, or None if the id is unknown. A pending delivery becomes due now, and its retry
        schedule goes on. A discarded delivery does not change.
        """
        result = await self.transactions.write_now(
            "retry", partial(settle.retry, delivery_id=delivery_id, slot=self.transactions.slot)
        )
        if result is None:
            return None
        state, endpoint_uid = result
        self.notifications.send([endpoint_uid])
        return state

    async def hasten(self, longest_ms: Sequence[tuple[str, int]], *, limit: int) -> list[str]:
        """Make deliveries due now that are due too late; see `claim.hasten`."""
        step = partial(claim.hasten, longest_ms=longest_ms, owner=self.instance, limit=limit)
        return await self.transactions.write_now("hasten", step, weight=limit)

    async def prune(self, *, delivered_before_ms: int, failed_before_ms: int, limit: int) -> int:
        """Remove old deliveries with their attempts and events, and old event ids, up to a limit.

        A deleted endpoint's counters and replays are removed when none of its deliveries is left.

        Args:
            delivered_before_ms: delivered and discarded deliveries that ended before this time are removed.
            failed_before_ms: failed deliveries and replays that ended before this time are removed.
            limit: how many deliveries of each sort to remove, and deleted endpoints to examine, at most. The next call
                examines the next ones.

        Returns:
            How many rows were removed.
        """
        retention = partial(prune.prune, delivered_before_ms=delivered_before_ms, failed_before_ms=failed_before_ms)
        accepted_before_ms = self._clock() - accept.DEDUPE_WINDOW_MS
        step = partial(retention, accepted_before_ms=accepted_before_ms, after=self._last_examined, limit=limit)
        number, self._last_examined = await self.transactions.write("prune", step, weight=4 * limit)
        return number

    async def ping(self) -> None:
        """Return if the store can begin a transaction that writes, raise StoreUnavailable otherwise."""
        await self.transactions.write("ping", lambda connection: connection.scalar(select(1)))

    def listen(self, on_notify: Callable[[str], None], shares: Callable[[], None] = lambda: None) -> None:
        """Set the callback for uids of endpoints for which other replicas wrote deliveries; it runs on the event loop.

        ``shares`` is called when other replicas freed shards, joined or left. The calls save the wait for the next
        query of the store, and they are not guaranteed.
        """
        self._releases.on_notify = on_notify
        self.notifications.listen(lambda word: shares() if word == NOTICE else on_notify(word))

    async def read(self, query: Callable[Concatenate[Connection, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a query of `store.sql`, beside transactions that write; metrics have its name."""
        return await self.transactions.read(query.__name__, lambda connection: query(connection, *args, **kwargs))

    async def read_log(self, query: Callable[Concatenate[Connection, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a query on a connection for the delivery log, so that no claim waits for it."""
        return await self.transactions.read(
            query.__name__, lambda connection: query(connection, *args, **kwargs), of_log=True
        )

    async def next_due(self, endpoint_uids: Sequence[str] | None = None) -> dict[str, int]:
        """Return by endpoint uid when its earliest delivery without a claim of a living replica is due.

        Args:
            endpoint_uids: the endpoints; None means every endpoint.
        """
        due = partial(read.next_due, uids=endpoint_uids, owner=self.instance, now=self._clock())
        return await self.transactions.read("next_due", due)

    async def running_replays(self) -> list[Replay]:
        """Return every replay that is running."""
        return await self.transactions.read("replays", replay.running)

    async def replay(self, replay_id: str) -> Replay | None:
        """Return a replay, or None if the id is unknown."""
        return await self.transactions.read("replays", lambda connection: replay.one(connection, replay_id))

    def _accept_all(self, connection: Connection, calls: Sequence[Sequence[NewEvent]]) -> list[Accepted]:
        slot = self.transactions.slot
        return accept.accept(connection, calls, owner=self.instance, slot=slot, now=self._clock())

    def _claim_all(self, connection: Connection, calls: Sequence[ClaimRequest]) -> Sequence[list[Claimed] | None]:
        if self._releases.doubt:
            return [None] * len(calls)
        return claim.claim(connection, calls, owner=self.instance, now=self._clock())

    def _settle_all(self, connection: Connection, calls: Sequence[Settlements]) -> list[frozenset[str]]:
        slot = self.transactions.settling_slot
        return settle.settle(connection, calls, owner=self.instance, slot=slot, now=self._clock())

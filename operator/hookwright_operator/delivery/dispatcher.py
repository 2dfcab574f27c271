"""The entry points of delivery: for the intake, for reconciling, and for the loops of the process.

A delivery reaches memory in one of two ways. If its endpoint queue has room, it comes directly from its acceptance.
Otherwise a claim loads it from the store. Either way only this replica sends it, until it is settled or its claim
lease expires.
"""

import asyncio
import random
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping

import structlog

from hookwright_operator import metrics
from hookwright_operator.delivery.attempt import RetrySchedule
from hookwright_operator.delivery.attempt_runner import AttemptRunner, Observer, ResultWriter
from hookwright_operator.delivery.claimer import Claimer
from hookwright_operator.delivery.http.sender import Sender
from hookwright_operator.delivery.pull_waiters import PullWaiters
from hookwright_operator.delivery.queues import ClaimReleaser, EndpointQueues
from hookwright_operator.delivery.shares import Bounds
from hookwright_operator.delivery.tasks import Tasks
from hookwright_operator.registry import Endpoint
from hookwright_operator.store.records import Claimed
from hookwright_operator.store.store import Store

log = structlog.get_logger(__name__)


class Dispatcher:
    """The endpoint queues, and the loops that claim for them, attempt their deliveries and store the results.

    Args:
        observer: called with every stored result.
        sweep: seconds between two searches for deliveries without a notification, such as those whose replica died.
        shared: whether other replicas deliver too. Then attempts begin only for the shards that `set_owned_shards`
            names, and none begins after the claim lease expired.
        jitter: returns a random number from 0 to 1; it spreads the attempts of endpoints that time out.

    Attributes:
        queues: the endpoint queues.
        owned_shards: the shards of this replica.
        pull_waiters: consumers that wait for messages; calls that report a delivery in the store wake them.
    """

    def __init__(
        self,
        store: Store,
        sender: Sender,
        schedule: RetrySchedule,
        bounds: Bounds,
        *,
        clock_ms: Callable[[], int],
        observer: Observer,
        sweep: float = 15.0,
        shared: bool = False,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._store, self._clock_ms = store, clock_ms
        self._tasks = Tasks()
        self.pull_waiters = PullWaiters()
        self.queues = queues = EndpointQueues(bounds, clock_ms, shared=shared)
        self.owned_shards = queues.owned_shards
        self._releaser = ClaimReleaser(store, queues, self._tasks)
        self._claimer = Claimer(store, queues, self._releaser, schedule, sweep)
        self._attempts = AttemptRunner(
            queues,
            sender,
            schedule,
            ResultWriter(store, queues, self._tasks, observer),
            releaser=self._releaser,
            tasks=self._tasks,
            clock_ms=clock_ms,
            jitter=jitter,
        )
        metrics.SHARDS_OWNED.set(len(self.owned_shards))
        metrics.IN_FLIGHT.set_function(lambda: self.in_flight)
        metrics.NAMESPACE_USE.labels("attempts").set_function(lambda: queues.scheduler.largest_use)
        metrics.NAMESPACE_USE.labels("memory").set_function(queues.memory.largest_use)

    @property
    def loops(self) -> Mapping[str, Callable[[], Coroutine[None, None, None]]]:
        """The loops of delivery by name; each runs until it is cancelled."""
        return {"attempt": self._attempts.run, "claim": self._claimer.run, "sweep": self._claimer.sweep}

    @property
    def in_flight(self) -> int:
        """How many attempts are under way."""
        return self.queues.scheduler.in_flight

    # ---- calls by reconciling (registry.EndpointListener)

    def endpoint_changed(self, endpoint: Endpoint) -> None:
        """Use the new snapshot from now on; release the queue's claims if nothing may be sent."""
        queue = self.queues.put(endpoint)
        if not queue.active:
            self._releaser.release_ready(queue)
        self.queues.wake(queue)

    def endpoint_gone(self, uid: str) -> None:
        """Start nothing more for an endpoint; attempts under way end by themselves."""
        queue = self.queues.by_uid.get(uid)
        if queue is not None:
            self._releaser.release_ready(queue)
            self.queues.remove(queue)

    # ---- calls by the services of the intake

    def cancel(self, uid: str, size: int) -> None:
        """Release a reserved place: the event was a duplicate, or was not accepted."""
        self.queues.memory.give(self.queues.take_reserved(uid).endpoint.namespace, size)

    def accepted(self, deliveries: Iterable[Claimed]) -> None:
        """Put accepted deliveries into their reserved places, and start the attempts that may start."""
        for delivery in deliveries:
            queue = self.queues.take_reserved(delivery.endpoint_uid)
            queue.ready.append(delivery)
            if self.queues.closing or not queue.active:
                self._releaser.release_ready(queue)
            self.queues.scheduler.ask(queue)
        self._attempts.start()

    def waiting(self, uid: str) -> None:
        """Note that a delivery was accepted into the store only."""
        self.queues.waiting(uid)
        self.pull_waiters.wake(uid)

    def try_now(self, uid: str) -> None:
        """Note that a person wants an attempt now: end the endpoint's pause after timeouts, and claim."""
        queue = self.queues.by_uid.get(uid)
        if queue is not None:
            queue.timeout_pause_until = 0.0
        self.waiting(uid)

    # ---- lifecycle

    def set_owned_shards(self, shards: Collection[int]) -> None:
        """Deliver for these shards only; release the claims of other shards, and start nothing for them."""
        now = asyncio.get_running_loop().time()
        gains, losses = self.owned_shards.become(shards, now)
        metrics.SHARDS_OWNED.set(len(self.owned_shards))
        for queue in self.queues.by_uid.values():
            if queue.shard in gains:
                queue.own(since=now)
            elif queue.shard in losses:
                queue.own(since=None)
                self._releaser.release_ready(queue)
        if gains:
            self._claimer.sweep_soon()

    async def reload_due_times(self) -> None:
        """Load due times of unclaimed pending deliveries from the store, also for endpoints that are not known yet."""
        await self._claimer.reload_due_times()

    async def keep_lease(self, lease: float) -> None:
        """Renew the claim lease at once and then repeatedly, until cancelled; ``lease`` is its duration in seconds."""
        while True:
            # The supervisor has paused already when it calls this again after a renewal that failed.
            await self.renew_lease()
            await asyncio.sleep(lease / 6)

    async def renew_lease(self) -> None:
        """Renew the claim lease once; no attempt starts after it has expired.

        Raises:
            StoreUnavailable: the lease was not renewed.
        """
        self.lease_renewed(await self._store.heartbeat())

    def lease_renewed(self, lease_until_ms: int) -> None:
        """Set the end of the claim lease; if the lease expired before, release all claims."""
        before_ms = self.queues.scheduler.lease_until_ms
        if before_ms and self._clock_ms() >= before_ms:
            log.warning("claim lease expired, releasing held deliveries")
            self.queues.lapses += 1
            self._release_all()
            if self.owned_shards.shared:
                self.set_owned_shards(())
                self.owned_shards.to_check.set()
        self.queues.scheduler.lease_until_ms = lease_until_ms
        metrics.LEASE_UNTIL.set(lease_until_ms / 1000)
        for queue in self.queues.by_uid.values():
            self.queues.wake(queue)

    async def drain(self, grace: float) -> None:
        """Start nothing new, let attempts under way end, and release the other claims; at most ``grace`` seconds."""
        self.queues.closing = True
        self._release_all()
        await self._tasks.finish(grace)

    def _release_all(self) -> None:
        for queue in self.queues.by_uid.values():
            self._releaser.release_ready(queue)

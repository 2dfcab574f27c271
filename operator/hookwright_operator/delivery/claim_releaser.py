"""Release of claims that this replica does not use, so that any replica may claim these deliveries."""

from collections.abc import Collection, Sequence

from hookwright_operator.delivery.endpoint_queue import EndpointQueue
from hookwright_operator.delivery.queues import EndpointQueues
from hookwright_operator.delivery.tasks import Tasks
from hookwright_operator.store.records import Claimed
from hookwright_operator.store.retry import persist
from hookwright_operator.store.shard_sharing import shard_of
from hookwright_operator.store.store import Store


class ClaimReleaser:
    """Releases claims in the background, and retries for as long as the store fails.

    The shards of these deliveries count as busy until their claims are released.
    """

    def __init__(self, store: Store, queues: EndpointQueues, tasks: Tasks) -> None:
        self._store, self._queues, self._tasks = store, queues, tasks

    def release_ready(self, queue: EndpointQueue) -> None:
        """Release the claims on a queue's deliveries that wait for their attempt."""
        if queue.ready:
            size = sum(delivery.size for delivery in queue.ready)
            self._queues.memory.give(queue.endpoint.namespace, size)
            self.release(tuple(queue.ready))
            queue.ready.clear()

    def release(self, deliveries: Sequence[Claimed]) -> None:
        """Release the claims on deliveries soon."""
        if deliveries:
            ids = [delivery.id for delivery in deliveries]
            uids = {delivery.endpoint_uid for delivery in deliveries}
            for uid in uids:
                self._queues.owned_shards.begin(shard_of(uid))
            self._tasks.spawn(self._release_until_done(ids, uids))

    async def _release_until_done(self, ids: Sequence[str], uids: Collection[str]) -> None:
        try:
            await persist(lambda: self._store.release(ids), "claims not released, retrying")
        finally:
            for uid in uids:
                self._queues.owned_shards.end(shard_of(uid))
        for uid in uids:
            self._queues.waiting(uid)

"""The shards whose endpoints this replica delivers for, and how much is under way for each."""

import asyncio
from collections.abc import Collection
from math import inf

from hookwright_operator.store.shard_sharing import SHARDS, shard_of


class OwnedShards:
    """The shards of this replica: at first all of them, or none if other replicas deliver too.

    Attributes:
        shared: whether other replicas deliver too.
        to_check: set when the shards must be compared with the store, for example because nothing is under way any more
            for a shard that this replica no longer owns; `ShardOwner.run` waits for it.
    """

    def __init__(self, *, shared: bool) -> None:
        self.shared = shared
        self.to_check = asyncio.Event()
        self._since = {} if shared else dict.fromkeys(range(SHARDS), -inf)
        self._under_way = [0] * SHARDS

    def __len__(self) -> int:
        return len(self._since)

    def since(self, shard: int) -> float | None:
        """Return since when this replica owns a shard, in seconds of the event loop's clock, or None if it does not."""
        return self._since.get(shard)

    def owns(self, endpoint_uid: str) -> bool:
        """Return whether this replica delivers for an endpoint."""
        return shard_of(endpoint_uid) in self._since

    def become(self, shards: Collection[int], now: float) -> tuple[set[int], set[int]]:
        """Replace the owned shards; return the shards that were added and those that were removed."""
        before, after = self._since.keys(), {*shards}
        gains, losses = after - before, before - after
        self._since = {shard: self._since.get(shard, now) for shard in after}
        return gains, losses

    def under_way(self, shard: int) -> int:
        """Return how many attempts and releases are under way for a shard; storing the result is part of an attempt."""
        return self._under_way[shard]

    def begin(self, shard: int) -> None:
        """Count an operation that begins for a shard."""
        self._under_way[shard] += 1

    def end(self, shard: int) -> None:
        """Count an operation that ended."""
        self._under_way[shard] -= 1
        if not self._under_way[shard] and shard not in self._since:
            self.to_check.set()

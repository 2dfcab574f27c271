"""Pure: the shards whose endpoints this process delivers for, and how much is under way for each."""

from collections.abc import Callable, Collection
from math import inf

from hookwright_operator.store.shards import SHARDS, shard_of


class Ground:
    """Begins with every shard, or with none where other processes deliver too.

    Attributes:
        shared: whether other processes deliver too.
        quiet: called when nothing is under way any more for a shard that is another's.
    """

    def __init__(self, *, shared: bool) -> None:
        self.shared = shared
        self.quiet: Callable[[], None] = lambda: None
        self._since = {} if shared else dict.fromkeys(range(SHARDS), -inf)
        self._under_way = [0] * SHARDS

    def __len__(self) -> int:
        return len(self._since)

    def since(self, shard: int) -> float | None:
        """Return since when the shard is this process's, in seconds of the event loop's clock, None where it is not."""
        return self._since.get(shard)

    def owns(self, endpoint_uid: str) -> bool:
        """Whether an endpoint is delivered for by this process."""
        return shard_of(endpoint_uid) in self._since

    def become(self, shards: Collection[int], now: float) -> tuple[set[int], set[int]]:
        """Be these shards from now on; return those that came and those that went."""
        before, after = self._since.keys(), {*shards}
        gained, lost = after - before, before - after
        self._since = {shard: self._since.get(shard, now) for shard in after}
        return gained, lost

    def under_way(self, shard: int) -> int:
        """How many attempts, with the storing of their results, and how many returns are under way for a shard."""
        return self._under_way[shard]

    def begin(self, shard: int) -> None:
        """Note that something is under way for a shard."""
        self._under_way[shard] += 1

    def end(self, shard: int) -> None:
        """Note that it is over."""
        self._under_way[shard] -= 1
        if not self._under_way[shard] and shard not in self._since:
            self.quiet()

"""Pure: the memory for the bodies of deliveries, which namespaces share."""

from collections.abc import Iterator
from contextlib import contextmanager

from hookwright_operator.delivery.endpoint_queue import EndpointQueue
from hookwright_operator.delivery.protocols import CLAIMS_IN_MEMORY, Bounds
from hookwright_operator.delivery.scheduler import Shares


class BodyMemory(Shares):
    """The bytes of all bodies in memory.

    Args:
        bounds: the limit, and how many deliveries of one endpoint may be in memory.
    """

    def __init__(self, bounds: Bounds) -> None:
        super().__init__(bounds.memory)
        self._bounds = bounds

    def affordable(self, queue: EndpointQueue) -> int:
        """Return how many deliveries a queue may claim; without memory only one, and only if it has no other."""
        want = queue.wants(self._bounds.window)
        if not want or self.left_or_guaranteed(queue.endpoint.namespace) > 0:
            return want
        return int(queue.held == queue.reserved)

    @contextmanager
    def claim_room(self) -> Iterator[int]:
        """Reserve bytes for one claim, beyond the limit, too: a tenant that exceeds it stops no other tenant."""
        room = self._bounds.memory // CLAIMS_IN_MEMORY
        with self.set_aside(room):
            yield room

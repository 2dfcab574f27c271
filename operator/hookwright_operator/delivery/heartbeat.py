"""Renewal of this replica's claim lease."""

import asyncio

from hookwright_operator.delivery.dispatcher import Dispatcher
from hookwright_operator.store.store import Store


class Heartbeat:
    """The renewals of the claim lease; the dispatcher starts no attempt after the lease has expired."""

    def __init__(self, store: Store, dispatcher: Dispatcher, *, lease: float) -> None:
        """Begin without a lease; ``lease`` is its duration in seconds."""
        self._store, self._dispatcher, self._lease = store, dispatcher, lease

    async def renew(self) -> None:
        """Renew the lease once.

        Raises:
            StoreUnavailable: the lease was not renewed.
        """
        self._dispatcher.lease_renewed(await self._store.heartbeat())

    async def run(self) -> None:
        """Renew the lease at once and then repeatedly, until cancelled."""
        while True:
            # The supervisor has paused already when it calls this again after a renewal that failed.
            await self.renew()
            await asyncio.sleep(self._lease / 6)

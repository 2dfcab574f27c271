"""Searches of the delivery log."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from hookwright_operator.store.records import DeliveryRecord, EventRecord, Search
from hookwright_operator.store.sql import search
from hookwright_operator.store.transactions import Transactions


@dataclass(frozen=True, slots=True)
class LogSearch:
    """The searches of a store. Every call may raise StoreUnavailable, as the store's own calls do."""

    transactions: Transactions

    async def page(
        self, wanted: Search, *, limit: int, cursor: str | None = None
    ) -> tuple[list[DeliveryRecord], str | None]:
        """Return a page of a search with the attempts, and the cursor of the next page; see `Store.deliveries`."""
        page = partial(search.page, wanted=wanted, limit=limit, cursor=cursor)
        return await self.transactions.read("search", page, of_log=True)

    async def event(self, event_id: str) -> EventRecord | None:
        """Return an event with its body, or None if the id is unknown; an event without deliveries is not stored."""
        return await self.transactions.read("event", partial(search.event, event_id=event_id), of_log=True)

    async def deliveries_of(
        self, event: EventRecord, endpoint_uids: Sequence[str], *, limit: int
    ) -> tuple[list[DeliveryRecord], str | None]:
        """Return the newest deliveries of an event to some endpoints, and the cursor of a search for the others."""
        found = partial(search.deliveries_of, shown=event, endpoint_uids=endpoint_uids, limit=limit)
        return await self.transactions.read("event", found, of_log=True)

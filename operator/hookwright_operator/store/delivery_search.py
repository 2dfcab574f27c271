"""Searches of the delivery log, and the index of the producers' ids that they use."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from hookwright_operator.store.records import DeliveryRecord, EventRecord, Search
from hookwright_operator.store.sql import message_index, search, segment_merging
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

    async def arrange(self, *, least: int = message_index.SEGMENT) -> bool:
        """Arrange the oldest recent ids as a segment; return False if there are fewer than ``least``."""
        gather = partial(message_index.gather, least=least)
        segment = await self.transactions.read("arrange_ids", gather, of_log=True)
        if segment is None:
            return False
        add = partial(message_index.add_segment, segment=segment)
        return await self.transactions.write("arrange_ids", add, weight=2 * message_index.BUCKETS, tenant="(search)")

    async def merge(self, *, rest: float = 0.0) -> bool:
        """Merge a group of segments in several transactions; return False if no group is complete and not yet merged.

        Args:
            rest: seconds without a transaction after each one.
        """
        group = await self.transactions.read("merge_ids", segment_merging.next_group, of_log=True)
        if group is None:
            return False
        for bucket in range(0, message_index.BUCKETS, segment_merging.BUCKETS_AT_ONCE):
            merge = partial(segment_merging.merge, group=group, first_bucket=bucket)
            await self.transactions.write("merge_ids", merge, weight=2 * message_index.BUCKETS, tenant="(search)")
            await asyncio.sleep(rest)
        finish = partial(segment_merging.finish, group=group)
        await self.transactions.write("merge_ids", finish, weight=segment_merging.GROUP, tenant="(search)")
        return True

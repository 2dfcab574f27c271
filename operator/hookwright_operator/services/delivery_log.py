"""The delivery log of an endpoint, and the retry of one delivery by hand."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hookwright_operator.delivery.dispatcher import Dispatcher
from hookwright_operator.delivery.http.sender import Sender
from hookwright_operator.delivery.http.sent_request import MASK, SentRequest
from hookwright_operator.registry import Endpoint
from hookwright_operator.store.records import Claimed, DeliveryRecord, EventRecord, Search, State
from hookwright_operator.store.sql import read, search
from hookwright_operator.store.store import Store

__all__ = ["MASK", "DeliveryLog", "SentRequest", "is_cursor"]

_CURSOR: Final = re.compile(r"dlv_[0-7][0-9A-HJKMNP-TV-Z]{25}")
"""The id of a delivery; a ULID has 128 bits, so its first digit is at most 7."""


def is_cursor(text: str) -> bool:
    """Return whether a page may have returned a text as its cursor, which has the form of a delivery's id."""
    return _CURSOR.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class DeliveryLog:
    """The deliveries in the store."""

    store: Store
    dispatcher: Dispatcher
    sender: Sender

    def sent(self, record: DeliveryRecord, event: EventRecord, endpoint: Endpoint) -> list[SentRequest | None]:
        """Compute the requests of a delivery's attempts again; None for an attempt whose request is not recorded."""
        delivery = Claimed(
            record.id, record.endpoint_uid, event.id, event.type, event.body, 0, event.accepted_ms,
            attributes=event.attributes,
        )  # fmt: skip
        return self.sender.requests_of(endpoint, delivery, record.attempts)

    async def page(
        self, endpoint_uid: str, *, state: State | None, limit: int, cursor: str | None
    ) -> tuple[Sequence[DeliveryRecord], str | None]:
        """Return a page of an endpoint's deliveries, newest first, and the cursor of the next page.

        Args:
            endpoint_uid: uid of the endpoint.
            state: return only deliveries in this state.
            limit: most deliveries to return.
            cursor: as an earlier page returned it; `is_cursor` is true for it.
        """
        return await self.store.read_log(read.log, endpoint_uid, state=state, limit=limit, cursor=cursor)

    async def search(
        self, query: Search, *, limit: int, cursor: str | None
    ) -> tuple[Sequence[DeliveryRecord], str | None]:
        """Return a page of a search, newest first, and the cursor of the next page; the limits are those of `page`."""
        return await self.store.read_log(search.page, query, limit=limit, cursor=cursor)

    async def event(self, event_id: str) -> EventRecord | None:
        """Return an event with its body, or None if the id is unknown."""
        return await self.store.read_log(search.event, event_id)

    async def deliveries_of(
        self, event: EventRecord, endpoint_uids: Sequence[str], *, limit: int
    ) -> tuple[Sequence[DeliveryRecord], str | None]:
        """Return the newest deliveries of an event to some endpoints, and the cursor of a search for the others."""
        return await self.store.read_log(search.deliveries_of, event, endpoint_uids, limit=limit)

    async def find(self, delivery_id: str) -> DeliveryRecord | None:
        """Return one delivery with its attempts."""
        return await self.store.read_log(read.delivery, delivery_id)

    async def retry(self, delivery: DeliveryRecord) -> bool:
        """Make a failed or delivered delivery pending again, or a pending one due now; return False if it is discarded.

        A pause after timeouts of the endpoint ends, if this replica delivers for it.
        """
        before = await self.store.retry(delivery.id)
        self.dispatcher.try_now(delivery.endpoint_uid)
        return before in {State.PENDING, State.FAILED, State.DELIVERED}

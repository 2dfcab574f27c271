"""The delivery log of an endpoint, and the retry of one delivery by hand."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hookwright_operator.delivery.dispatcher import Dispatcher
from hookwright_operator.store.records import DeliveryRecord, State
from hookwright_operator.store.store import Store

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
        return await self.store.deliveries(endpoint_uid, state=state, limit=limit, cursor=cursor)

    async def find(self, delivery_id: str) -> DeliveryRecord | None:
        """Return one delivery with its attempts."""
        return await self.store.delivery(delivery_id)

    async def retry(self, delivery: DeliveryRecord) -> bool:
        """Make a failed or delivered delivery pending again; return False if it is in another state."""
        before = await self.store.retry(delivery.id)
        self.dispatcher.waiting(delivery.endpoint_uid)
        return before in {State.FAILED, State.DELIVERED}

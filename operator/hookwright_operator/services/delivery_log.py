"""The requests of a delivery as they were sent, and its retry by hand."""

import re
from dataclasses import dataclass
from typing import Final

from hookwright_operator.delivery.dispatcher import Dispatcher
from hookwright_operator.delivery.http.sender import Sender
from hookwright_operator.delivery.http.sent_request import MASK, SentRequest
from hookwright_operator.registry import Endpoint
from hookwright_operator.store.records import Claimed, DeliveryRecord, EventRecord, State
from hookwright_operator.store.store import Store

__all__ = ["MASK", "DeliveryLog", "SentRequest", "is_cursor"]

_CURSOR: Final = re.compile(r"dlv_[0-7][0-9A-HJKMNP-TV-Z]{25}")
"""The id of a delivery; a ULID has 128 bits, so its first digit is at most 7."""


def is_cursor(text: str) -> bool:
    """Return whether a page may have returned a text as its cursor, which has the form of a delivery's id."""
    return _CURSOR.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class DeliveryLog:
    """The operations on deliveries that need more than a read of the store."""

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

    async def retry(self, delivery: DeliveryRecord) -> bool:
        """Make a failed or delivered delivery pending again, or a pending one due now; return False if it is discarded.

        A pause after timeouts of the endpoint ends, if this replica delivers for it.
        """
        before = await self.store.retry(delivery.id)
        self.dispatcher.try_now(delivery.endpoint_uid)
        return before in {State.PENDING, State.FAILED, State.DELIVERED}

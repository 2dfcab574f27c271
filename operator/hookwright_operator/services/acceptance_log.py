"""The log of accepted events: the way from a producer's id to the id of the event.

A line for each request would cost a third of an acceptance. So one line a second has all events of a namespace, and
lists as many as the allowance of the namespace permits.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from typing import Final

import structlog
from structlog.contextvars import get_contextvars

from hookwright_operator.store.records import SOURCE_END, Accepted, NewEvent
from hookwright_runtime.log_bounds import LogBound, shortened

log = structlog.get_logger(__name__)

LISTED_AT_ONCE: Final = 1000
LISTED_A_SECOND: Final = 50
"""Events of one namespace that are listed: at once, and in the long run."""
LINE: Final = 50
"""Events of one line; container runtimes split lines of more than 16 KiB."""
_SECONDS: Final = 1.0


@dataclass(slots=True)
class _Batch:
    """What a namespace sent since its last line."""

    entries: list[Mapping[str, object]] = field(default_factory=list)
    new: int = 0
    duplicates: int = 0
    deliveries: int = 0
    omissions: int = 0


class AcceptanceLog:
    """Events that are accepted and not logged yet; with the log level debug all events are listed."""

    def __init__(self) -> None:
        self._bound = LogBound(burst=LISTED_AT_ONCE, rate=LISTED_A_SECOND)
        self._batches: dict[str, _Batch] = {}
        # The level is constant in a process, and the question costs 2 µs.
        self._lists_all = log.is_enabled_for(logging.DEBUG)

    def note(self, events: Sequence[NewEvent], result: Accepted) -> None:
        """Add the events of one request, all of one namespace, to the line that is written within a second."""
        namespace = events[0].namespace
        if not self._batches:
            asyncio.get_running_loop().call_later(_SECONDS, self.flush, context=Context())
        batch = self._batches.get(namespace)
        if batch is None:
            batch = self._batches[namespace] = _Batch()
        batch.new += result.accepted
        batch.duplicates += len(result.duplicate_of)
        batch.deliveries += result.deliveries
        allowance = len(events) if self._lists_all else self._bound.take(namespace, len(events))
        batch.omissions += len(events) - allowance
        if allowance:
            request_id = get_contextvars().get("request_id")
            batch.entries += [_entry(event, result.duplicate_of, request_id) for event in events[:allowance]]

    def flush(self) -> None:
        """Write all lines now."""
        batches, self._batches = self._batches, {}
        for namespace, batch in batches.items():
            counts = {
                "accepted": batch.new,
                "duplicates": batch.duplicates,
                "deliveries": batch.deliveries,
                "unlisted": batch.omissions,
            }
            log.info("events accepted", namespace=namespace, **counts, events=batch.entries[:LINE])
            for start in range(LINE, len(batch.entries), LINE):
                log.info("events accepted", namespace=namespace, events=batch.entries[start : start + LINE])


def _entry(event: NewEvent, duplicate_of: Mapping[str, str], request_id: str | None) -> Mapping[str, object]:
    source, _, producer_id = (event.event_id or "").rpartition(SOURCE_END)
    entry = {
        "event_id": duplicate_of.get(event.id, event.id),
        "producer_id": shortened(producer_id),
        "source": shortened(source),
        "duplicate": event.id in duplicate_of,
        "project": event.project,
        "type": event.type,
        "request_id": request_id,
    }
    return {name: value for name, value in entry.items() if value}

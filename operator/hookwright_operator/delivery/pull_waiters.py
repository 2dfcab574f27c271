"""Consumers that wait for messages of an endpoint, and what wakes them.

A consumer waits in memory. It queries the store when it comes, when a message may be due, and every few seconds in case
a notification was lost. Consumers of one endpoint query one at a time, and share the knowledge that nothing is due.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from hookwright_operator.registry import Endpoint

RECHECK_SECONDS: Final = 5.0
"""Longest time between two queries for an endpoint that consumers wait for."""
LEAST_SECONDS: Final = 0.5
"""Shortest time between two queries without a reason to expect a message."""


@dataclass(slots=True)
class WaitingConsumers:
    """The consumers that wait for one endpoint.

    Attributes:
        number: how many there are.
        turn: held by the one that queries.
        change: set when a message may be due; then a new event takes its place.
        look_at: when to query again without a change, in seconds of the event loop's clock.
    """

    number: int = 0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    change: asyncio.Event = field(default_factory=asyncio.Event)
    look_at: float = 0.0

    def wake(self) -> None:
        """Let the consumers query again."""
        change, self.change = self.change, asyncio.Event()
        self.look_at = 0.0
        change.set()

    def found_none(self, change: asyncio.Event, *, now: float, due_in: float | None) -> None:
        """Note that no message was due.

        Args:
            change: the attribute ``change`` before the query.
            now: in seconds of the event loop's clock.
            due_in: seconds until the next message may be due, None if none is pending.
        """
        if change is self.change:
            pause = RECHECK_SECONDS if due_in is None else max(LEAST_SECONDS, min(due_in, RECHECK_SECONDS))
            self.look_at = now + pause


class PullWaiters:
    """The consumers that wait, by endpoint; an `EndpointListener`."""

    def __init__(self) -> None:
        self._by_uid: dict[str, WaitingConsumers] = {}

    @contextmanager
    def waiting(self, uid: str) -> Iterator[WaitingConsumers]:
        """Count a consumer of an endpoint inside the context."""
        consumers = self._by_uid.setdefault(uid, WaitingConsumers())
        consumers.number += 1
        try:
            yield consumers
        finally:
            consumers.number -= 1
            if not consumers.number:
                del self._by_uid[uid]

    def wake(self, uid: str) -> None:
        """Let the consumers of an endpoint query, because a message may be due."""
        if (consumers := self._by_uid.get(uid)) is not None:
            consumers.wake()

    def endpoint_changed(self, endpoint: Endpoint) -> None:
        """Let the consumers of an endpoint see its new state."""
        self.wake(endpoint.uid)

    def endpoint_gone(self, uid: str) -> None:
        """Let the consumers of a deleted endpoint end."""
        self.wake(uid)

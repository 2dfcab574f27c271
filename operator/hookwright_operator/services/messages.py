"""Messages of endpoints with pull: consumers take them, and settle them."""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog
from pydantic_core import to_json

from hookwright_operator import metrics
from hookwright_operator.delivery.attempt import RetrySchedule
from hookwright_operator.delivery.attempt_runner import Observer
from hookwright_operator.delivery.http.message_headers import message_headers
from hookwright_operator.delivery.pull_waiters import PullWaiters
from hookwright_operator.delivery.tasks import wait_for_event
from hookwright_operator.ids import take_id
from hookwright_operator.registry import Endpoint, Registry
from hookwright_operator.store.message_leases import LeaseId, Nack, SettledLease, Take, Taken
from hookwright_operator.store.records import Settlement, State
from hookwright_operator.store.store import Store
from hookwright_runtime.errors import StoreError

log = structlog.get_logger(__name__)

ROOM: Final = 1024 * 1024
"""Bytes of bodies in one answer, and bytes of the endpoint's own headers; a larger message is alone in its answer."""

_END_SECONDS: Final = 1.0
"""Seconds between two searches for leases that have ended."""
_BACKOFF: Final = 5.0
_MESSAGE_ID: Final = re.compile(r"(dlv_[0-7][0-9A-HJKMNP-TV-Z]{25})\.([0-7][0-9A-HJKMNP-TV-Z]{25})")

__all__ = ["Messages", "lease_of", "message_headers", "message_id_of"]


def lease_of(message_id: str) -> LeaseId | None:
    """Return the lease that the id of a message names, None if the text is no such id."""
    match = _MESSAGE_ID.fullmatch(message_id)
    return None if match is None else LeaseId(match[1], match[2])


def message_id_of(lease: LeaseId) -> str:
    """Return the id of a message, as consumers get it."""
    return f"{lease.delivery_id}.{lease.take_id}"


def _most_with(headers: Sequence[tuple[str, str]]) -> int:
    """Return how many messages one answer has room for, because each message repeats the endpoint's own headers."""
    return max(1, ROOM // len(to_json(headers)))


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages in the store, and the consumers that wait for them.

    Attributes:
        schedule: of the retries.
        clock_ms: milliseconds since the epoch, by the store's clock.
        observer: called with every settled message.
    """

    registry: Registry
    store: Store
    waiters: PullWaiters
    schedule: RetrySchedule
    clock_ms: Callable[[], int]
    observer: Observer

    async def take(self, uid: str, *, limit: int, wait: float, lease_ms: int | None) -> tuple[Endpoint, Taken] | None:
        """Lease messages of an endpoint, and wait for the first one; the caller may be cancelled while it waits.

        Args:
            uid: the endpoint.
            limit: messages at most.
            wait: seconds to wait.
            lease_ms: how long the leases last; None: as the endpoint says.

        Returns:
            The endpoint with which to sign, and the messages. None if no message was due in time, or if the endpoint
            is suspended, blocked or deleted.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + wait
        with self.waiters.waiting(uid) as consumers:
            while True:
                async with consumers.turn:
                    change, endpoint = consumers.change, self.registry.get(uid)
                    if endpoint is None or endpoint.pull_lease is None:
                        return None
                    if endpoint.sendable and consumers.look_at <= clock():
                        lasts = lease_ms or int(endpoint.pull_lease * 1000)
                        request = Take(uid, min(limit, _most_with(endpoint.headers)), lasts, ROOM, take_id)
                        lease = await self.store.pull_leases.take(request, tenant=endpoint.namespace)
                        if lease.messages:
                            metrics.PULLED.labels("taken").inc(len(lease.messages))
                            return endpoint, lease
                        consumers.found_none(change, now=clock(), due_in=await self._due_in(uid))
                remaining = deadline - clock()
                if remaining <= 0:
                    return None
                look_in = consumers.look_at - clock() if endpoint.sendable else remaining
                await wait_for_event(change, min(remaining, max(0.0, look_in)))

    async def give_back(self, endpoint: Endpoint, lease: Taken) -> None:
        """End the leases of messages that the consumer did not get, also if the caller is cancelled meanwhile."""
        await asyncio.shield(self.store.pull_leases.give_back(lease, tenant=endpoint.namespace))
        self.waiters.wake(endpoint.uid)

    async def _due_in(self, uid: str) -> float | None:
        due_ms = (await self.store.next_due([uid])).get(uid)
        return None if due_ms is None else (due_ms - self.clock_ms()) / 1000

    async def settle(
        self, endpoint: Endpoint, leases: Sequence[LeaseId], refusal: Nack | None
    ) -> tuple[dict[LeaseId, SettledLease], frozenset[str]]:
        """Acknowledge messages, or refuse them.

        Returns:
            The result by lease, without unknown messages, and the deliveries that this request settled, not an earlier
            one.
        """
        settlements, results = await self.store.pull_leases.settle(
            endpoint.uid, leases, refusal, self.schedule.next, tenant=endpoint.namespace
        )
        self._report(settlements, "acked" if refusal is None else "nacked")
        return results, frozenset(settlement.delivery_id for settlement in settlements)

    async def run(self) -> None:
        """End the leases whose time is over, repeatedly, until cancelled."""
        while True:
            try:
                requests = await self.end_leases()
            except StoreError as error:
                log.warning("ended leases not settled, retrying", error=str(error))
                await asyncio.sleep(_BACKOFF)
                continue
            if not requests:
                await asyncio.sleep(_END_SECONDS)

    async def end_leases(self) -> int:
        """Settle messages of leases whose time is over as failed attempts, up to a limit.

        Returns:
            How many requests for messages had these leases. All their messages may have been settled before.
        """
        result = await self.store.pull_leases.end(self.schedule.next)
        self._report(result.settlements, "lease_ended")
        return result.requests

    def _report(self, settlements: Sequence[Settlement], result: str) -> None:
        """Report settled messages, and wake the consumers that may get a refused one again."""
        if not settlements:
            return
        metrics.PULLED.labels(result).inc(len(settlements))
        for settlement in settlements:
            if settlement.state is not State.PENDING:
                metrics.DELIVERIES.labels(settlement.state.value).inc()
            if (endpoint := self.registry.get(settlement.endpoint_uid)) is not None:
                self.observer.attempted(endpoint, settlement)
        for uid in {settlement.endpoint_uid for settlement in settlements if settlement.state is State.PENDING}:
            self.waiters.wake(uid)

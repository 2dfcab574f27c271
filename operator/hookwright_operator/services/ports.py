"""Operations behind the intake: accept events, read the delivery log, test endpoints."""

import asyncio
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog
from pydantic_core import to_json

from hookwright_operator import metrics
from hookwright_operator.delivery.attempt import Outcome
from hookwright_operator.delivery.dispatcher import Dispatcher
from hookwright_operator.delivery.http.sender import Sender
from hookwright_operator.ids import delivery_id, message_id, recovery_id, trial_id
from hookwright_operator.intake.deps import AcceptResult
from hookwright_operator.intake.parsing import IncomingEvent
from hookwright_operator.registry import Endpoint, Registry
from hookwright_operator.services.fan_out_writer import FanOutWriter
from hookwright_operator.store.fan_outs import AT_ONCE
from hookwright_operator.store.records import Accepted, Claimed, DeliveryRecord, NewDelivery, NewEvent, Replay, State
from hookwright_operator.store.store import Store
from hookwright_runtime.errors import StoreError
from hookwright_runtime.problems import FieldFault, ProblemError

RECOVERED_AT_ONCE: Final = 200
"""Deliveries of one endpoint that a replay makes due at once; a new event waits behind them."""
_RECOVERY_STEP: Final = 0.1
_RECOVERY_POLL: Final = 1.0

log = structlog.get_logger(__name__)


_CURSOR: Final = re.compile(r"dlv_[0-9A-HJKMNP-TV-Z]{26}")
"""The cursor of the next page is the id of the last delivery of a page."""


@dataclass(frozen=True, slots=True)
class EventAccepter:
    """An accepter of events: it commits one delivery for every subscribed endpoint before it returns.

    Attributes:
        held: called with the uid of an endpoint whose delivery stays in the store, because its counts have changed.
        fan_outs: accepts requests with more deliveries than one transaction may write.
    """

    registry: Registry
    dispatcher: Dispatcher
    store: Store
    held: Callable[[str], object]
    fan_outs: FanOutWriter

    async def accept(
        self, namespace: str, project: str, events: Sequence[IncomingEvent], *, trace: str | None = None
    ) -> AcceptResult:
        """Write events and their deliveries, or fan-outs for them, in one transaction; return after its commit.

        Raises:
            ProblemError: the request is too large, or too many deliveries of the namespace are not yet written.
            StoreUnavailable: nothing was written.
        """
        subscribers = {
            kind: [endpoint.uid for endpoint in self.registry.subscribers(namespace, project, kind)]
            for kind in {event.type for event in events}
        }
        if sum([len(subscribers[event.type]) for event in events]) > AT_ONCE:
            new = [self._new(namespace, project, event, trace, ()) for event in events]
            return _accepted(new, await self.fan_outs.accept(new, subscribers))
        return await self._write(
            [self._new(namespace, project, event, trace, subscribers[event.type]) for event in events]
        )

    def _new(
        self, namespace: str, project: str, event: IncomingEvent, trace: str | None, uids: Iterable[str]
    ) -> NewEvent:
        size = len(event.body)
        deliveries = [NewDelivery(delivery_id(), uid, self.dispatcher.reserve(uid, size)) for uid in uids]
        known = (namespace, project, event.event_id, event.type, event.body)
        return NewEvent(message_id(), *known, tuple(deliveries), trace)

    async def _write(self, events: Sequence[NewEvent]) -> AcceptResult:
        try:
            accepted = await self.store.accept(events)
        except BaseException:
            # Also for a caller who disconnects: then the store releases its claims.
            for event in events:
                self._cancel(event)
            raise
        for event in events:
            if event.id in accepted.duplicate_ids:
                self._cancel(event)
            else:
                self._dispatch(event, accepted)
        gone = {uid for event in events for _, uid, _ in event.deliveries if self.registry.get(uid) is None}
        if gone:
            await self._discard_for(gone)
        return _accepted(events, accepted)

    async def _discard_for(self, gone: Iterable[str]) -> None:
        """Discard deliveries that were written for endpoints deleted during the write."""
        for uid in gone:
            try:
                metrics.DELIVERIES.labels("discarded").inc(await self.store.discard(uid, "endpoint deleted"))
            except StoreError as error:
                # The events are committed, so the producer gets a success. Reconciling discards the deliveries as well.
                log.warning("endpoint deleted, discarding its deliveries later", endpoint=uid, error=str(error))

    def _cancel(self, event: NewEvent) -> None:
        for delivery in event.deliveries:
            if delivery.claimed:
                self.dispatcher.cancel(delivery.endpoint_uid, len(event.body))

    def _dispatch(self, event: NewEvent, accepted: Accepted) -> None:
        self.dispatcher.accepted(
            Claimed(
                delivery.id, delivery.endpoint_uid, event.id, event.type, event.body, 0, accepted.at_ms, event.trace
            )
            for delivery in event.deliveries
            if delivery.claimed
        )
        for delivery in event.deliveries:
            if not delivery.claimed:
                self.dispatcher.waiting(delivery.endpoint_uid)
                self.held(delivery.endpoint_uid)


def _accepted(events: Iterable[NewEvent], accepted: Accepted) -> AcceptResult:
    duplicates = len(accepted.duplicate_ids)
    metrics.EVENTS_ACCEPTED.inc(accepted.accepted)
    if duplicates:
        metrics.EVENTS_DUPLICATE.inc(duplicates)
    if log.is_enabled_for(logging.DEBUG):
        new = [event.id for event in events if event.id not in accepted.duplicate_ids]
        log.debug("events accepted", event_ids=new, duplicates=duplicates, deliveries=accepted.deliveries)
    return AcceptResult(accepted.accepted, duplicates, accepted.deliveries)


@dataclass(frozen=True, slots=True)
class DeliveryLogReader:
    """The delivery log, and the retry of one delivery by hand."""

    store: Store
    dispatcher: Dispatcher

    async def deliveries(
        self, endpoint_uid: str, *, state: State | None, limit: int, cursor: str | None
    ) -> tuple[Sequence[DeliveryRecord], str | None]:
        """Return a page of an endpoint's deliveries, newest first, and the next page's cursor.

        Raises:
            ProblemError: 422, no page returned this cursor.
        """
        if cursor is not None and not _CURSOR.fullmatch(cursor):
            fault = FieldFault("cursor", "must be the `next` of a page; omit it to begin with the newest delivery")
            raise ProblemError(422, "the query is wrong", errors=(fault,))
        return await self.store.deliveries(endpoint_uid, state=state, limit=limit, cursor=cursor)

    async def delivery(self, delivery_id: str) -> DeliveryRecord | None:
        """Return one delivery with its attempts."""
        return await self.store.delivery(delivery_id)

    async def retry(self, delivery_id: str) -> bool:
        """Make a failed or delivered delivery pending again; return False if it is in another state."""
        before = await self.store.retry(delivery_id)
        record = await self.store.delivery(delivery_id)
        if record is not None:
            self.dispatcher.waiting(record.endpoint_uid)
        return before in {State.FAILED, State.DELIVERED}


@dataclass(frozen=True, slots=True)
class Replays:
    """Replays, which make an endpoint's failed deliveries pending again; `drive` executes them."""

    registry: Registry
    dispatcher: Dispatcher
    store: Store
    clock_ms: Callable[[], int]

    def now_ms(self) -> int:
        """Return milliseconds since the epoch, by the store's clock."""
        return self.clock_ms()

    async def begin(self, endpoint_uid: str, *, since_ms: int, until_ms: int | None) -> tuple[Replay, bool]:
        """Begin a replay, or return the endpoint's running replay and False."""
        wanted = recovery_id()
        job = await self.store.begin_recovery(wanted, endpoint_uid, since_ms=since_ms, until_ms=until_ms)
        if self.registry.get(endpoint_uid) is None:
            metrics.DELIVERIES.labels("discarded").inc(await self.store.discard(endpoint_uid, "endpoint deleted"))
        return job, job.id == wanted

    async def find(self, recovery_id: str) -> Replay | None:
        """Return one replay."""
        return await self.store.recovery(recovery_id)

    async def drive(self) -> None:
        """Advance every running replay of this replica's endpoints by one step, repeatedly, until cancelled."""
        while True:
            running = await self.store.running_recoveries()
            jobs = [job for job in running if self.dispatcher.owned_shards.owns(job.endpoint_uid)]
            steps = [self.store.advance_recovery(job.id, limit=RECOVERED_AT_ONCE) for job in jobs]
            for job, recovered in zip(jobs, await asyncio.gather(*steps), strict=True):
                if recovered:
                    self.dispatcher.waiting(job.endpoint_uid)
            await asyncio.sleep(_RECOVERY_STEP if jobs else _RECOVERY_POLL)


@dataclass(frozen=True, slots=True)
class EndpointTester:
    """A sender of one synthetic event, through the same guarded client as every delivery."""

    sender: Sender
    clock: Callable[[], float]

    async def test(self, endpoint: Endpoint) -> Outcome:
        """Send one signed ``delivered`` event once; the store keeps nothing of it."""
        body = to_json({"type": "delivered", "messageId": trial_id(), "test": True})
        return await self.sender.send(endpoint, message_id=message_id(), body=body, now=self.clock)

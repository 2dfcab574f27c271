"""Acceptance of events: one delivery for every subscribed endpoint, committed before the producer gets its answer."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import structlog

from hookwright_operator import metrics
from hookwright_operator.delivery.dispatcher import Dispatcher
from hookwright_operator.ids import delivery_id, message_id
from hookwright_operator.registry import Registry
from hookwright_operator.services.fan_out_writer import FanOutWriter
from hookwright_operator.store.fan_outs import AT_ONCE
from hookwright_operator.store.records import Accepted, Claimed, NewDelivery, NewEvent
from hookwright_operator.store.store import Store
from hookwright_runtime.errors import StoreError

log = structlog.get_logger(__name__)


class IncomingEvent(NamedTuple):
    """One validated event of a producer.

    Attributes:
        event_id: the producer's id, which identifies duplicates, or None.
        type: the event type without the CloudEvents prefix.
        message_id: the producer's messageId.
        body: the exact bytes to sign and send.
    """

    event_id: str | None
    type: str
    message_id: str
    body: bytes


class AcceptResult(NamedTuple):
    """The result for the events of one request, all committed.

    Attributes:
        accepted: how many events are new.
        duplicates: how many events were accepted before; they create no deliveries.
        deliveries: how many deliveries the new events have; some may not be written yet.
    """

    accepted: int
    duplicates: int
    deliveries: int


@dataclass(frozen=True, slots=True)
class Events:
    """The acceptance of events.

    Attributes:
        counts_changed: called with the uid of an endpoint whose delivery stays in the store.
        fan_outs: accepts requests with more deliveries than one transaction may write.
    """

    registry: Registry
    dispatcher: Dispatcher
    store: Store
    counts_changed: Callable[[str], object]
    fan_outs: FanOutWriter

    async def accept(
        self, namespace: str, project: str, events: Sequence[IncomingEvent], *, trace: str | None = None
    ) -> AcceptResult:
        """Write events and their deliveries, or fan-outs for them, in one transaction; return after its commit.

        Args:
            namespace: of the project.
            project: name of the project.
            events: the events of one request.
            trace: the ``traceparent`` of their attempts, None if they are not traced.

        Raises:
            ProblemError: 422, too many deliveries for one request; 429, the namespace has too many unwritten ones.
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
                self.counts_changed(delivery.endpoint_uid)


def _accepted(events: Iterable[NewEvent], accepted: Accepted) -> AcceptResult:
    duplicates = len(accepted.duplicate_ids)
    metrics.EVENTS_ACCEPTED.inc(accepted.accepted)
    if duplicates:
        metrics.EVENTS_DUPLICATE.inc(duplicates)
    if log.is_enabled_for(logging.DEBUG):
        new = [event.id for event in events if event.id not in accepted.duplicate_ids]
        log.debug("events accepted", event_ids=new, duplicates=duplicates, deliveries=accepted.deliveries)
    return AcceptResult(accepted.accepted, duplicates, accepted.deliveries)

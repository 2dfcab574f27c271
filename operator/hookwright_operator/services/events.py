"""Acceptance of events: one delivery for every subscribed endpoint, committed before the producer gets its answer."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

import structlog

from hookwright_operator import metrics
from hookwright_operator.delivery.dispatcher import Dispatcher
from hookwright_operator.delivery.status_reporter import StatusReporter
from hookwright_operator.ids import delivery_id, message_id
from hookwright_operator.registry import DEFAULT_SETTINGS, Registry
from hookwright_operator.services.acceptance_log import AcceptanceLog
from hookwright_operator.store.records import DELETED_REASON, Accepted, Claimed, NewDelivery, NewEvent
from hookwright_operator.store.store import Store
from hookwright_runtime.errors import HookwrightError, StoreError
from hookwright_runtime.problems import Code, ProblemError

MAX_DELIVERIES: Final = 2000
"""Deliveries of one request. One transaction writes them, and events of other tenants wait for it."""
_COUNTED: Final = MAX_DELIVERIES + 1
MAX_OPERATIONAL: Final = 10
"""Endpoints that get an operational event. With no bound, each of 1,000 failing endpoints would write to all others."""

log = structlog.get_logger(__name__)


class IncomingEvent(NamedTuple):
    """One validated event of a producer.

    Attributes:
        event_id: what identifies repetitions: the producer's id, or source and id of a CloudEvent with
            `records.SOURCE_END` between them; None if the event has no id.
        type: the event type without the CloudEvents prefix.
        message_id: the producer's messageId.
        body: the exact bytes to sign and send.
        digest: of the content, so that other content under the same id is refused; None if it is not compared. A
            repeated CloudEvent is not compared: by its specification, source and id suffice.
        attributes: context attributes of a CloudEvent as a JSON object of strings, None for other events.
    """

    event_id: str | None
    type: str
    message_id: str
    body: bytes
    digest: int | None = None
    attributes: str | None = None


class AcceptResult(NamedTuple):
    """The result for the events of one request, all committed.

    Attributes:
        accepted: how many events are new.
        duplicates: how many events were accepted before; they create no deliveries.
        deliveries: how many deliveries the new events have.
        event_ids: for each event of the request its id, which is ``webhook-id``; a duplicate has that of the event
            that was accepted before.
    """

    accepted: int
    duplicates: int
    deliveries: int
    event_ids: Sequence[str] = ()


class IdConflictError(HookwrightError):
    """The refusal of events whose ids were accepted with other content within 24 hours; nothing was accepted.

    Attributes:
        indexes: the places of these events in the request.
    """

    def __init__(self, indexes: Sequence[int]) -> None:
        super().__init__("an id was accepted with other content")
        self.indexes = indexes


@dataclass(frozen=True, slots=True)
class Events:
    """The acceptance of events.

    Attributes:
        reporter: publishes the counts of an endpoint whose delivery stays in the store.
        acceptance_log: logs the events that are accepted.
    """

    registry: Registry
    dispatcher: Dispatcher
    store: Store
    reporter: StatusReporter
    acceptance_log: AcceptanceLog = field(default_factory=AcceptanceLog)

    async def accept(
        self, namespace: str, project: str, events: Sequence[IncomingEvent], *, trace: str | None = None
    ) -> AcceptResult:
        """Write events and their deliveries in one transaction; return after its commit.

        Args:
            namespace: of the project.
            project: name of the project.
            events: the events of one request.
            trace: the ``traceparent`` of their attempts, None if they are not traced.

        Raises:
            ProblemError: 422, too many deliveries for one request.
            IdConflictError: an id was accepted with other content; nothing was written.
            StoreUnavailable: nothing was written.
        """
        subscribers = {
            kind: [endpoint.uid for endpoint in islice(self.registry.subscribers(namespace, project, kind), _COUNTED)]
            for kind in {event.type for event in events}
        }
        _check_deliveries(events, subscribers)
        new_events = [self._new(namespace, project, event, trace, subscribers[event.type]) for event in events]
        return await self._write(new_events)

    async def accept_operational(self, namespace: str, project: str, event: IncomingEvent, *, about: str) -> None:
        """Accept an operational event for its subscribers except the endpoint with the uid ``about``, if there are any.

        Raises:
            StoreUnavailable: nothing was written.
        """
        subscribers = sorted(self.registry.subscribers(namespace, project, event.type), key=lambda each: each.name)
        uids = [endpoint.uid for endpoint in subscribers if endpoint.uid != about][:MAX_OPERATIONAL]
        if uids:
            await self._write([self._new(namespace, project, event, None, uids)])

    def _new(
        self, namespace: str, project: str, event: IncomingEvent, trace: str | None, uids: Iterable[str]
    ) -> NewEvent:
        size = len(event.body) + len(event.attributes or "")
        deliveries = [NewDelivery(delivery_id(), uid, self.dispatcher.queues.reserve(uid, size)) for uid in uids]
        settings = self.registry.project(namespace, project) or DEFAULT_SETTINGS
        return NewEvent(
            message_id(), namespace, project, event.event_id, event.type, event.body, tuple(deliveries), trace,
            event.digest, event.attributes, event.message_id, settings.keeps_missed, settings.uid,
        )  # fmt: skip

    async def _write(self, events: Sequence[NewEvent]) -> AcceptResult:
        try:
            result = await self.store.accept(events)
        except BaseException:
            # Also for a caller who disconnects: then the store releases its claims.
            for event in events:
                self._cancel(event)
            raise
        for event in events:
            if result.conflicts or event.id in result.duplicate_of:
                self._cancel(event)
            else:
                self._dispatch(event, result)
        deleted_uids = {uid for event in events for _, uid, _ in event.deliveries if self.registry.get(uid) is None}
        if deleted_uids:
            await self._discard_for(deleted_uids)
        return self._accepted(events, result)

    async def _discard_for(self, uids: Iterable[str]) -> None:
        """Discard deliveries that were written for endpoints deleted during the write."""
        for uid in uids:
            try:
                await self.store.discard(uid, DELETED_REASON)
            except StoreError as error:
                # The events are committed, so the producer gets a success. Reconciling discards the deliveries as well.
                log.warning("endpoint deleted, discarding its deliveries later", endpoint=uid, error=str(error))

    def _cancel(self, event: NewEvent) -> None:
        for delivery in event.deliveries:
            if delivery.claimed:
                self.dispatcher.cancel(delivery.endpoint_uid, event.size)

    def _dispatch(self, event: NewEvent, result: Accepted) -> None:
        self.dispatcher.accepted(
            Claimed(
                delivery.id,
                delivery.endpoint_uid,
                event.id,
                event.type,
                event.body,
                0,
                result.at_ms,
                event.trace,
                event.attributes,
            )
            for delivery in event.deliveries
            if delivery.claimed
        )
        for delivery in event.deliveries:
            if not delivery.claimed:
                self.dispatcher.waiting(delivery.endpoint_uid)
                self.reporter.changed(delivery.endpoint_uid)

    def _accepted(self, events: Sequence[NewEvent], result: Accepted) -> AcceptResult:
        if result.conflicts:
            raise IdConflictError([place for place, event in enumerate(events) if event.id in result.conflicts])
        duplicate_of = result.duplicate_of
        metrics.EVENTS_ACCEPTED.inc(result.accepted)
        if duplicate_of:
            metrics.EVENTS_DUPLICATE.inc(len(duplicate_of))
        self.acceptance_log.note(events, result)
        ids = [duplicate_of.get(event.id, event.id) for event in events]
        return AcceptResult(result.accepted, len(duplicate_of), result.deliveries, ids)


def _check_deliveries(events: Sequence[IncomingEvent], subscribers: Mapping[str, Sequence[str]]) -> None:
    total = sum([len(subscribers[event.type]) for event in events])
    if total <= MAX_DELIVERIES:
        return
    kind = max(subscribers, key=lambda kind: len(subscribers[kind]))
    count = len(subscribers[kind])
    if count > MAX_DELIVERIES:
        raise ProblemError(
            422,
            f'more than {MAX_DELIVERIES} endpoints of the project subscribe to "{kind}", and an event has at most that'
            " many deliveries: remove endpoints, or divide them among several projects",
        )
    raise ProblemError(
        422,
        f"the request's {len(events)} events come to {total} deliveries, one for each subscribed endpoint; a request"
        f" has at most {MAX_DELIVERIES}: send at most {MAX_DELIVERIES // count} events in a request",
        code=Code.TOO_MANY_DELIVERIES,
    )

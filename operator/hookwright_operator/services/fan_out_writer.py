"""Writer of the deliveries of fan-outs, one slice at a time; see `store.fan_outs`."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from hookwright_operator import metrics
from hookwright_operator.delivery.dispatcher import Dispatcher
from hookwright_operator.delivery.status_reporter import StatusReporter
from hookwright_operator.delivery.tasks import wait_for_event
from hookwright_operator.ids import delivery_id
from hookwright_operator.store.fan_outs import AT_ONCE, SLICE, FanOut
from hookwright_operator.store.records import Accepted, NewEvent
from hookwright_operator.store.store import Store
from hookwright_runtime.errors import StoreError
from hookwright_runtime.problems import ProblemError, too_many

MAX_DELIVERIES: Final = 1_000_000
"""Most deliveries of one request."""
MAX_BACKLOG: Final = 100_000
"""Most accepted deliveries of a namespace that are not yet written; above it the namespace starts no fan-out."""

_LOOK_SECONDS: Final = 15.0
"""Time between two searches for fan-outs of replicas that died."""
_BACKOFF: Final = 1.0

log = structlog.get_logger(__name__)


class FanOutWriter:
    """A writer of one slice at a time; the namespaces take turns.

    Args:
        store: has the fan-outs.
        dispatcher: sends the deliveries.
        reporter: publishes the counts of each endpoint that got deliveries.
    """

    def __init__(self, store: Store, dispatcher: Dispatcher, reporter: StatusReporter) -> None:
        self._store, self._dispatcher, self._reporter = store, dispatcher, reporter
        self._look_at = 0.0
        self._open: dict[str, dict[str, FanOut]] = {}
        self._accepting: Counter[str] = Counter()
        self._wake = asyncio.Event()
        metrics.FAN_OUT_BACKLOG.set_function(lambda: sum(map(self.backlog, tuple(self._open))))
        metrics.NAMESPACE_USE.labels("unwritten").set_function(self._largest_use)

    def backlog(self, namespace: str) -> int:
        """Return how many accepted deliveries of a namespace are not yet written."""
        return self._accepting[namespace] + sum(one.left for one in self._open.get(namespace, {}).values())

    def _largest_use(self) -> float:
        return min(1.0, max(map(self.backlog, tuple(self._open)), default=0) / MAX_BACKLOG)

    async def accept(self, events: Sequence[NewEvent], endpoint_uids: Mapping[str, Sequence[str]]) -> Accepted:
        """Accept events whose deliveries are written later, and return after the commit.

        Args:
            events: events of one namespace, each without deliveries.
            endpoint_uids: by event type, the endpoints that get a delivery of each event.

        Raises:
            ProblemError: the request is too large, or too many deliveries of the namespace are not yet written.
            StoreUnavailable: the events are not accepted, unless the connection was lost during the commit.
        """
        namespace = events[0].namespace
        total = sum([len(endpoint_uids[event.type]) for event in events])
        self._check(namespace, len(events), total)
        self._accepting[namespace] += total
        try:
            accepted, fan_outs = await self._store.fan_outs.accept(events, endpoint_uids)
        finally:
            self._accepting[namespace] -= total
        for fan_out in fan_outs:
            self._add(fan_out)
        return accepted

    def _check(self, namespace: str, events: int, total: int) -> None:
        if total > MAX_DELIVERIES:
            raise ProblemError(
                422,
                f"the request's {events} events come to {total} deliveries, one for each subscribed endpoint;"
                f" at most {MAX_DELIVERIES} are accepted at once: send the events in smaller requests",
            )
        if (backlog := self.backlog(namespace)) >= MAX_BACKLOG:
            raise too_many(
                f"{backlog} deliveries of namespace {namespace} are accepted and not yet written; at {MAX_BACKLOG} or"
                f" more, a request of more than {AT_ONCE} deliveries must wait"
            )

    async def run(self) -> None:
        """Write slices until cancelled."""
        while True:
            try:
                await self._look()
                await self._write_round()
            except StoreError as error:
                log.warning("fan-out failed, retrying", error=str(error))
                await asyncio.sleep(_BACKOFF)
            if not self._open:
                await wait_for_event(self._wake, self._look_at - asyncio.get_running_loop().time())
            self._wake.clear()

    async def _look(self) -> None:
        """Find the fan-outs of earlier processes and of replicas that died."""
        now = asyncio.get_running_loop().time()
        if now >= self._look_at:
            for fan_out in await self._store.fan_outs.waiting():
                self._add(fan_out)
            self._look_at = now + _LOOK_SECONDS

    async def _write_round(self) -> None:
        for namespace, fan_outs in tuple(self._open.items()):
            fan_out = fan_outs.pop(next(iter(fan_outs)))
            # Both move to the end, so that a fan-out that cannot be written does not block another one.
            fan_outs[fan_out.id] = fan_out
            self._open[namespace] = self._open.pop(namespace)
            await self._write(fan_out)
            if not fan_outs:
                del self._open[namespace]

    async def _write(self, fan_out: FanOut) -> None:
        ids = [delivery_id() for _ in range(min(SLICE, fan_out.left))]
        written = await self._store.fan_outs.write_slice(fan_out, ids)
        fan_outs = self._open[fan_out.namespace]
        if written is None or not written.left:
            del fan_outs[fan_out.id]
        else:
            fan_outs[fan_out.id] = fan_out._replace(left=written.left)
        if written is None:
            return
        metrics.DELIVERIES.labels("discarded").inc(written.discarded)
        for uid in written.endpoint_uids:
            self._dispatcher.waiting(uid)
            self._reporter.changed(uid)

    def _add(self, fan_out: FanOut) -> None:
        self._open.setdefault(fan_out.namespace, {}).setdefault(fan_out.id, fan_out)
        self._wake.set()

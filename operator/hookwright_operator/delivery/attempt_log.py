"""The log of attempts: one line for each failed attempt, and at the level debug one for each success.

The lines of a namespace are bounded, because a tenant decides how many of its attempts fail.
"""

import logging
from datetime import UTC, datetime
from typing import Final

import structlog
from pydantic_core import from_json

from hookwright_operator.registry import Endpoint
from hookwright_operator.store.records import Claimed, Settlement, State
from hookwright_runtime.log_bounds import LogBound, shortened

log = structlog.get_logger(__name__)

AT_ONCE: Final = 200
A_SECOND: Final = 10
"""Lines of one namespace, at once and in the long run: for attempts with a retry, and again for failed deliveries."""
_LARGEST_READ: Final = 8 * 1024
"""Bytes of the largest body that is read for the producer's id."""


class AttemptLog:
    """Writes a line for each attempt, within the allowance of its namespace."""

    def __init__(self) -> None:
        self.retried, self.failed = (LogBound(burst=AT_ONCE, rate=A_SECOND, report=_report) for _ in range(2))
        # The level is constant in a process, and the question costs 2 µs.
        self._successes = log.is_enabled_for(logging.DEBUG)

    def attempted(self, endpoint: Endpoint, delivery: Claimed, settlement: Settlement) -> None:
        """Log an attempt, before its result is stored."""
        if not settlement.attempt.error:
            if self._successes:
                log.debug("attempt delivered", **_fields(endpoint, delivery, settlement))
            return
        is_failure = settlement.state is State.FAILED
        if not (self.failed if is_failure else self.retried).allow(endpoint.namespace):
            return
        if is_failure:
            log.warning("delivery failed", **_fields(endpoint, delivery, settlement))
        else:
            due = datetime.fromtimestamp(settlement.due_ms / 1000, UTC).isoformat(timespec="seconds")
            fields = _fields(endpoint, delivery, settlement)
            log.info("attempt failed", **fields, retry_at=due.replace("+00:00", "Z"))

    def hindered(self, endpoint: Endpoint, error: str) -> None:
        """Log an attempt that could not be made, although this process lacked nothing."""
        if self.retried.allow(endpoint.namespace):
            place = {"namespace": endpoint.namespace, "project": endpoint.project, "endpoint": endpoint.name}
            log.info("attempt postponed, no access token", **place, error=error)


def _fields(endpoint: Endpoint, delivery: Claimed, settlement: Settlement) -> dict[str, object]:
    attempt = settlement.attempt
    outcome = {"error": attempt.error} if attempt.error else {}
    return {
        **_sent_as(delivery),
        "event_id": delivery.event_id,
        "delivery": delivery.id,
        "namespace": endpoint.namespace,
        "project": endpoint.project,
        "endpoint": endpoint.name,
        "type": delivery.event_type,
        "attempts": attempt.number,
        "status": attempt.status_code,
        "duration_ms": attempt.duration_ms,
        **outcome,
    }


def _sent_as(delivery: Claimed) -> dict[str, str]:
    """Return the id that the producer gave the event, and the source of a CloudEvent.

    Nothing if there is no id, or if the body is large: to read it for one line could take 9 ms of the event loop.
    """
    if delivery.attributes is not None:
        attributes = from_json(delivery.attributes)
        return {"producer_id": shortened(attributes["id"]), "source": shortened(attributes["source"])}
    if len(delivery.body) > _LARGEST_READ:
        return {}
    try:
        document = from_json(delivery.body)
    except ValueError:
        return {}
    producer_id = document.get("id") if isinstance(document, dict) else None
    return {"producer_id": shortened(producer_id)} if isinstance(producer_id, str) else {}


def _report(namespace: str, count: int) -> None:
    log.warning("failed attempts not logged, the namespace has used up its lines", namespace=namespace, attempts=count)

"""The record of a test of an endpoint: an event, a delivery and its one attempt, written when the attempt has ended.

The delivery is stored as discarded, with the reason `TEST_REASON`. So no claim, retry or replay finds it, not even one
of an operator that knows no recorded tests; it is pruned with the delivered ones; and it changes no counter. `shown`
returns the state that readers see.

Sync functions on a connection. The caller begins and ends the transaction.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, insert, update

from hookwright_operator.store.records import TEST_REASON, Attempt, NewEvent, State
from hookwright_operator.store.schema import attempts, deliveries, events
from hookwright_operator.store.sql.accept import write_events
from hookwright_operator.store.sql.rows import plain


def record(connection: Connection, event: NewEvent, attempt: Attempt, *, accepted_ms: int, now: int) -> None:
    """Write a test.

    Args:
        connection: in a transaction.
        event: with one delivery.
        attempt: the attempt.
        accepted_ms: when the test was requested.
        now: when it ended.
    """
    [delivery] = event.deliveries
    write_events(connection, [event], now=accepted_ms)
    connection.execute(update(events).where(events.c.id == event.id).values(is_test=True))
    end_state = {"state": State.DISCARDED.value, "reason": TEST_REASON, "due_ms": now, "attempts": 1, "ended_ms": now}
    identity = {"id": delivery.id, "event_id": event.id, "endpoint_uid": delivery.endpoint_uid}
    connection.execute(insert(deliveries).values({**identity, **end_state}))
    headers = attempt.response_headers
    texts = {
        "error": plain(attempt.error),
        "response": plain(attempt.response),
        "response_headers": None if headers is None else plain(headers),
    }
    connection.execute(insert(attempts).values({**attempt._asdict(), **texts, "delivery_id": delivery.id}))


def shown(state: State, reason: str, attempts: Sequence[Attempt]) -> State:
    """Return the state of a delivery for readers: of a test, the result of its attempt."""
    if state is not State.DISCARDED or reason != TEST_REASON:
        return state
    return State.DELIVERED if attempts and not attempts[-1].error else State.FAILED

"""Tests of endpoints: one event, sent through the same guarded client as every delivery, and recorded in the log."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hookwright_operator.delivery.attempt import Outcome
from hookwright_operator.delivery.http.error_messages import TOKEN_SERVER
from hookwright_operator.delivery.http.sender import Sender
from hookwright_operator.ids import delivery_id, message_id
from hookwright_operator.registry import Endpoint
from hookwright_operator.services.events import IncomingEvent
from hookwright_operator.store.records import Claimed, NewDelivery, NewEvent
from hookwright_operator.store.store import Store
from hookwright_runtime.bounds import TESTS, TESTS_OF_ENDPOINT
from hookwright_runtime.errors import StoreError
from hookwright_runtime.places import Places

_RECORD_SECONDS: Final = 3.0
"""Time limit of the record: the caller waits for the answer, and an attempt may have taken 30 s already."""


class TestResult(NamedTuple):
    """The result of a test.

    Attributes:
        delivery_id: its id in the delivery log, None if it is not recorded.
    """

    outcome: Outcome
    delivery_id: str | None


@dataclass(frozen=True, slots=True)
class EndpointTester:
    """A sender of test events.

    Attributes:
        clock: seconds since the epoch.
        tests: the tests that are in progress, by namespace.
        tests_of_endpoint: the same, by endpoint.
    """

    sender: Sender
    store: Store
    clock: Callable[[], float]
    tests: Places = field(default_factory=lambda: Places(TESTS))
    tests_of_endpoint: Places = field(default_factory=lambda: Places(TESTS_OF_ENDPOINT))

    async def test(self, endpoint: Endpoint, event: IncomingEvent) -> TestResult:
        """Send a signed event once, and record it. It changes no counter and no condition.

        Raises:
            FullError: the endpoint, its namespace or this replica has too many tests in progress.
        """
        key = f"{endpoint.namespace}/{endpoint.name}"
        with await self.tests.acquire(endpoint.namespace), await self.tests_of_endpoint.acquire(key):
            now_ms = int(self.clock() * 1000)
            test = Claimed(delivery_id(), endpoint.uid, message_id(), event.type, event.body, 0, now_ms)
            outcome = await self.sender.send(endpoint, test, now=self.clock)
            if outcome.own_fault == TOKEN_SERVER:
                # A test has no retries to save, and its caller must see this fault.
                outcome = outcome._replace(own_fault="")
            if outcome.own_fault or not await self._record(endpoint, test, outcome):
                return TestResult(outcome, None)
            return TestResult(outcome, test.id)

    async def _record(self, endpoint: Endpoint, test: Claimed, outcome: Outcome) -> bool:
        """Write the test; return False if the store cannot, because the result is worth more than its record."""
        delivery = NewDelivery(test.id, endpoint.uid, claimed=False)
        event = NewEvent(
            test.event_id, endpoint.namespace, endpoint.project, None, test.event_type, test.body, (delivery,)
        )
        try:
            async with asyncio.timeout(_RECORD_SECONDS):
                await self.store.record_test(event, outcome.attempt(1), test.accepted_ms)
        except (StoreError, TimeoutError):
            return False
        return True

"""Tests of endpoints: one synthetic event, sent through the same guarded client as every delivery."""

from collections.abc import Callable
from dataclasses import dataclass, field

from pydantic_core import to_json

from hookwright_operator.delivery.attempt import Outcome
from hookwright_operator.delivery.http.sender import Sender
from hookwright_operator.ids import message_id, trial_id
from hookwright_operator.registry import Endpoint
from hookwright_runtime.endpoint_tests import EndpointTests


@dataclass(frozen=True, slots=True)
class EndpointTester:
    """A sender of synthetic events.

    Attributes:
        clock: seconds since the epoch.
        tests: the tests that are in progress.
    """

    sender: Sender
    clock: Callable[[], float]
    tests: EndpointTests = field(default_factory=EndpointTests)

    async def test(self, endpoint: Endpoint) -> Outcome:
        """Send one signed ``delivered`` event once; the store keeps nothing of it.

        Raises:
            TooManyTestsError: the endpoint, its namespace or this replica has too many tests in progress.
        """
        body = to_json({"type": "delivered", "messageId": trial_id(), "test": True})
        with self.tests.one(endpoint.namespace, endpoint.name):
            return await self.sender.send(endpoint, message_id=message_id(), body=body, now=self.clock)

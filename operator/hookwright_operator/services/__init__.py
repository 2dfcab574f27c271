"""The operations behind the intake; they use delivery and store."""

from dataclasses import dataclass

from hookwright_operator.registry import Registry
from hookwright_operator.services.delivery_log import DeliveryLog
from hookwright_operator.services.endpoint_test import EndpointTester
from hookwright_operator.services.events import Events
from hookwright_operator.services.replays import Replays


@dataclass(frozen=True, slots=True)
class IntakeServices:
    """The operations that the routes of the intake call, and the registry in which they find their objects."""

    registry: Registry
    events: Events
    delivery_log: DeliveryLog
    replays: Replays
    endpoint_tester: EndpointTester

"""The operations behind the intake; they use delivery and store."""

from dataclasses import dataclass, field

from hookwright_operator.registry import Registry
from hookwright_operator.services.credential_secrets import CredentialSecrets
from hookwright_operator.services.delivery_log import DeliveryLog
from hookwright_operator.services.endpoint_test import EndpointTester
from hookwright_operator.services.events import Events
from hookwright_operator.services.messages import Messages
from hookwright_operator.services.replays import Replays
from hookwright_operator.store.store import Store
from hookwright_runtime.audit import AuditLog


@dataclass(frozen=True, slots=True)
class IntakeServices:
    """The operations that the routes of the intake call, and the registry in which they find their objects.

    Attributes:
        credential_secrets: None on a replica that may write no Secrets.
        audit: has a line for each read of a secret, each retry, and each begin and cancellation of a replay.
    """

    registry: Registry
    store: Store
    events: Events
    delivery_log: DeliveryLog
    replays: Replays
    endpoint_tester: EndpointTester
    messages: Messages
    credential_secrets: CredentialSecrets | None = None
    audit: AuditLog = field(default_factory=AuditLog)

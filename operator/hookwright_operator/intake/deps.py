"""Pure: the parts of the operator that the intake uses, as protocols."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from hookwright_operator.intake.auth import Auth
from hookwright_operator.intake.parsing import IncomingEvent
from hookwright_operator.registry import Endpoint, Registry
from hookwright_operator.store.records import DeliveryRecord, Replay, State
from hookwright_operator.tracing import Traces
from hookwright_runtime.endpoint_tests import EndpointTests


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


class Accepter(Protocol):
    """The part that makes events durable."""

    async def accept(
        self, namespace: str, project: str, events: Sequence[IncomingEvent], *, trace: str | None = None
    ) -> AcceptResult:
        """Write the events in one transaction, and return after its commit; many deliveries may be written later.

        Args:
            namespace: of the project.
            project: name of the project.
            events: the events of the request.
            trace: the ``traceparent`` of their attempts, None if they are not traced.

        Raises:
            ProblemError: 422, too many deliveries for one request; 429, the namespace has too many unwritten ones.
            StoreUnavailable: nothing was written.
        """


class DeliveryLog(Protocol):
    """The deliveries in the store."""

    async def deliveries(
        self, endpoint_uid: str, *, state: State | None, limit: int, cursor: str | None
    ) -> tuple[Sequence[DeliveryRecord], str | None]:
        """Return an endpoint's deliveries, newest first, and the cursor of the next page.

        Args:
            endpoint_uid: uid of the endpoint.
            state: return only deliveries in this state.
            limit: most deliveries to return.
            cursor: as an earlier call returned it.
        """

    async def delivery(self, delivery_id: str) -> DeliveryRecord | None:
        """Return one delivery."""

    async def retry(self, delivery_id: str) -> bool:
        """Make a failed or delivered delivery pending again; return False if it is in another state."""


class ReplayJobs(Protocol):
    """Replays, which make failed deliveries pending again."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch, by the store's clock."""

    async def begin(self, endpoint_uid: str, *, since_ms: int, until_ms: int | None) -> tuple[Replay, bool]:
        """Begin a replay of deliveries that ended from ``since_ms`` to ``until_ms``, both included; None: until now.

        Returns:
            The replay, and whether it is new. If the endpoint has a running replay, that one is returned.
        """

    async def find(self, recovery_id: str) -> Replay | None:
        """Return one replay."""


class TestOutcome(Protocol):
    """The result of one attempt."""

    @property
    def status_code(self) -> int:
        """HTTP status, 0 if there was no HTTP answer."""

    @property
    def error(self) -> str:
        """Error text in plain words, empty if the answer was 2xx."""

    @property
    def own_fault(self) -> str:
        """The resource that this replica lacked for the attempt, empty if the attempt was made."""


class Tester(Protocol):
    """The sender of synthetic events."""

    async def test(self, endpoint: Endpoint) -> TestOutcome:
        """Send one signed ``delivered`` event through the guarded client, once."""


@dataclass(frozen=True, slots=True)
class Deps:
    """The parts of the operator that the intake uses.

    Attributes:
        ready: returns None if requests can be served, else the reason.
        traces: creates a span for each request with events; None: no spans.
        tests: the tests of endpoints that are in progress.
    """

    registry: Registry
    accepter: Accepter
    auth: Auth
    deliveries: DeliveryLog
    recoveries: ReplayJobs
    tester: Tester
    ready: Callable[[], str | None]
    traces: Traces | None = None
    tests: EndpointTests = field(default_factory=EndpointTests)

"""Pure: what the intake needs of the rest of the operator, as protocols."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from hookwright_operator.intake.auth import Auth
from hookwright_operator.intake.parsing import IncomingEvent
from hookwright_operator.registry import Endpoint, Registry
from hookwright_operator.store.model import DeliveryRecord, Recovery, State
from hookwright_operator.tracing import Traces


class AcceptResult(NamedTuple):
    """What became of the events of one request, all of it committed.

    Attributes:
        accepted: how many events are new.
        duplicates: how many were repetitions, which deliver nothing new.
        deliveries: how many deliveries the new events have; some may still have to be written.
    """

    accepted: int
    duplicates: int
    deliveries: int


class Accepter(Protocol):
    """Makes events durable."""

    async def accept(
        self, namespace: str, project: str, events: Sequence[IncomingEvent], *, trace: str | None = None
    ) -> AcceptResult:
        """Write the events in one transaction, and return after its commit; the deliveries of many may follow it.

        Args:
            namespace: of the project.
            project: whose events.
            events: what came in.
            trace: the ``traceparent`` that their attempts go on with, None where they are not traced.

        Raises:
            ProblemError: 422, too many deliveries for one request; 429, too many deliveries of the namespace wait.
            StoreUnavailable: nothing was written.
        """


class DeliveryLog(Protocol):
    """The deliveries in the store."""

    async def deliveries(
        self, endpoint_uid: str, *, state: State | None, limit: int, cursor: str | None
    ) -> tuple[Sequence[DeliveryRecord], str | None]:
        """Return an endpoint's deliveries, the newest first, and the cursor of the next page.

        Args:
            endpoint_uid: whose.
            state: only those in this state.
            limit: at most that many.
            cursor: as an earlier call returned it.
        """

    async def delivery(self, delivery_id: str) -> DeliveryRecord | None:
        """Return one delivery."""

    async def retry(self, delivery_id: str) -> bool:
        """Make a failed or delivered delivery pending again; false where it is in no such state."""


class Recoveries(Protocol):
    """Jobs that make what failed pending again."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch, by the store's clock."""

    async def begin(self, endpoint_uid: str, *, since_ms: int, until_ms: int | None) -> tuple[Recovery, bool]:
        """Begin a job for what ended from ``since_ms`` to ``until_ms``, both included; until now where None.

        Returns:
            The job, and whether it is new: where one runs for the endpoint already, it is that one.
        """

    async def find(self, recovery_id: str) -> Recovery | None:
        """Return one job."""


class Outcome(Protocol):
    """What came of one attempt."""

    @property
    def status_code(self) -> int:
        """HTTP status, 0 where there was no HTTP answer."""

    @property
    def error(self) -> str:
        """In plain words, empty where the answer was 2xx."""

    @property
    def own_fault(self) -> str:
        """What this process lacked for the attempt, empty if the attempt was made."""


class Tester(Protocol):
    """Sends synthetic events."""

    async def test(self, endpoint: Endpoint) -> Outcome:
        """Send one signed ``delivered`` event through the guarded client, once."""


@dataclass(frozen=True, slots=True)
class Deps:
    """Everything that the intake works with.

    Attributes:
        ready: None when requests can be served, else why not.
        traces: makes a span of each request with events; none are made where None.
    """

    registry: Registry
    accepter: Accepter
    auth: Auth
    deliveries: DeliveryLog
    recoveries: Recoveries
    tester: Tester
    ready: Callable[[], str | None]
    traces: Traces | None = None

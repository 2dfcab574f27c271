"""What the intake stands on in its tests: an accepter and a log in memory, and a line to the API server that can be cut."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hookwright_operator.errors import KubeUnavailable, StoreUnavailable
from hookwright_operator.intake.auth import Kube
from hookwright_operator.intake.deps import AcceptResult
from hookwright_operator.intake.parsing import IncomingEvent
from hookwright_operator.registry import Endpoint
from hookwright_operator.store.model import DeliveryRecord, State


@dataclass(slots=True)
class Line:
    """A client of the API server that counts what it asks, and can be cut."""

    kube: Kube
    posts: list[str] = field(default_factory=list)
    cut: bool = False

    async def post(self, path: str, body: dict[str, object]) -> dict[str, Any]:
        """Ask, unless cut."""
        self.posts.append(path.rpartition("/")[2])
        if self.cut:
            raise KubeUnavailable("the line is cut")
        return await self.kube.post(path, body)


@dataclass(slots=True)
class Recorder:
    """Accepts into memory, by the rules of the store; ``away`` and ``broken`` make it fail."""

    events: list[tuple[str, str, IncomingEvent]] = field(default_factory=list)
    away: bool = False
    broken: bool = False

    async def accept(self, namespace: str, project: str, events: Sequence[IncomingEvent]) -> AcceptResult:
        """Keep what is new."""
        if self.away:
            raise StoreUnavailable("disk full")
        if self.broken:
            raise ZeroDivisionError("the secret of the operator")
        known = {(where, which, event.event_id) for where, which, event in self.events if event.event_id}
        new = [event for event in events if (namespace, project, event.event_id) not in known]
        self.events += [(namespace, project, event) for event in new]
        return AcceptResult(accepted=len(new), duplicates=len(events) - len(new), deliveries=2 * len(new))


@dataclass(slots=True)
class Log:
    """Deliveries in memory; a cursor is the id that came last."""

    records: dict[str, DeliveryRecord] = field(default_factory=dict)

    async def deliveries(
        self, endpoint_uid: str, *, state: State | None, limit: int, cursor: str | None
    ) -> tuple[Sequence[DeliveryRecord], str | None]:
        """Return a page, the newest first."""
        if cursor is not None and cursor not in self.records:
            raise ValueError("unknown cursor")
        found = [
            record
            for record in sorted(self.records.values(), key=lambda record: record.id, reverse=True)
            if record.endpoint_uid == endpoint_uid
            and (state is None or record.state is state)
            and (cursor is None or record.id < cursor)
        ]
        return found[:limit], found[limit - 1].id if len(found) > limit else None

    async def delivery(self, delivery_id: str) -> DeliveryRecord | None:
        """Return one."""
        return self.records.get(delivery_id)

    async def retry(self, delivery_id: str) -> bool:
        """Make one pending again."""
        record = self.records[delivery_id]
        if record.state not in (State.FAILED, State.DELIVERED):
            return False
        self.records[delivery_id] = replace(record, state=State.PENDING)
        return True


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a test."""

    status_code: int
    error: str = ""


@dataclass(slots=True)
class Tester:
    """Tests endpoints with a result that is set beforehand."""

    result: Result = Result(200)
    tested: list[Endpoint] = field(default_factory=list)

    async def test(self, endpoint: Endpoint) -> Result:
        """Note the endpoint."""
        self.tested.append(endpoint)
        return self.result

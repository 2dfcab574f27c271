"""The parts behind the intake in its tests: acceptance and a log in memory, and a line to the API server."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
from support.polling import PATIENCE

from hookwright_dev.cluster.kubectl import Kubectl
from hookwright_operator.intake.auth import ReviewClient
from hookwright_operator.intake.deps import AcceptResult
from hookwright_operator.intake.parsing import IncomingEvent
from hookwright_operator.registry import Endpoint, Registry
from hookwright_operator.store.records import DeliveryRecord, Replay, ReplayState, State
from hookwright_runtime.errors import KubeUnavailable, StoreUnavailable
from hookwright_runtime.server import Server

ORDERS = "uid-orders"
"""The uid of the endpoint that every test finds."""


@dataclass(slots=True)
class Line:
    """A client of the API server that records its requests, and can be cut off.

    Attributes:
        posts: the last part of each path, such as ``tokenreviews``.
        bodies: the last posted bodies.
    """

    kube: ReviewClient
    posts: list[str] = field(default_factory=list)
    bodies: dict[str, Any] = field(default_factory=dict, repr=False)
    cut: bool = False

    async def post(self, path: str, body: dict[str, object]) -> dict[str, Any]:
        """Send the request unless the line is cut off."""
        kind = path.rpartition("/")[2]
        self.posts.append(kind)
        self.bodies[kind] = body
        if self.cut:
            raise KubeUnavailable("the line is cut")
        return await self.kube.post(path, body)


@dataclass(slots=True)
class Recorder:
    """An accepter into memory, by the rules of the store; ``away`` and ``broken`` make it fail."""

    events: list[tuple[str, str, IncomingEvent]] = field(default_factory=list)
    away: bool = False
    broken: bool = False
    trace: str | None = None
    gate: asyncio.Event | None = None

    async def accept(
        self, namespace: str, project: str, events: Sequence[IncomingEvent], *, trace: str | None = None
    ) -> AcceptResult:
        """Store new events when the gate is open."""
        if self.gate is not None:
            await self.gate.wait()
        if self.away:
            raise StoreUnavailable("disk full")
        if self.broken:
            raise ZeroDivisionError("the secret of the operator")
        known = {(where, which, event.event_id) for where, which, event in self.events if event.event_id}
        new = [event for event in events if (namespace, project, event.event_id) not in known]
        self.trace = trace
        self.events += [(namespace, project, event) for event in new]
        return AcceptResult(accepted=len(new), duplicates=len(events) - len(new), deliveries=2 * len(new))


@dataclass(slots=True)
class Log:
    """Deliveries in memory; a cursor is the last id of a page."""

    records: dict[str, DeliveryRecord] = field(default_factory=dict)

    async def deliveries(
        self, endpoint_uid: str, *, state: State | None, limit: int, cursor: str | None
    ) -> tuple[Sequence[DeliveryRecord], str | None]:
        """Return a page, newest first."""
        found = [
            record
            for record in sorted(self.records.values(), key=lambda record: record.id, reverse=True)
            if record.endpoint_uid == endpoint_uid
            and (state is None or record.state is state)
            and (cursor is None or record.id < cursor)
        ]
        return found[:limit], found[limit - 1].id if len(found) > limit else None

    async def delivery(self, delivery_id: str) -> DeliveryRecord | None:
        """Return one delivery."""
        return self.records.get(delivery_id)

    async def retry(self, delivery_id: str) -> bool:
        """Make one delivery pending again."""
        record = self.records[delivery_id]
        if record.state not in (State.FAILED, State.DELIVERED):
            return False
        self.records[delivery_id] = replace(record, state=State.PENDING)
        return True


@dataclass(slots=True)
class Jobs:
    """Replays in memory, all of them running, with a fixed time."""

    known: dict[str, Replay] = field(default_factory=dict)
    now: int = 1_767_225_600_000

    def now_ms(self) -> int:
        """Return the time."""
        return self.now

    async def begin(self, endpoint_uid: str, *, since_ms: int, until_ms: int | None) -> tuple[Replay, bool]:
        """Store a replay, unless the endpoint has one."""
        for job in self.known.values():
            if job.endpoint_uid == endpoint_uid:
                return job, False
        until = self.now if until_ms is None else until_ms
        job = Replay("rec_1", endpoint_uid, ReplayState.RUNNING, since_ms, until, 7, 0, self.now)
        self.known[job.id] = job
        return job, True

    async def find(self, recovery_id: str) -> Replay | None:
        """Return one replay."""
        return self.known.get(recovery_id)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a test."""

    status_code: int
    error: str = ""
    own_fault: str = ""


@dataclass(slots=True)
class Tester:
    """A tester with a prepared result."""

    result: Result = Result(200)
    tested: list[Endpoint] = field(default_factory=list)

    async def test(self, endpoint: Endpoint) -> Result:
        """Record the endpoint."""
        self.tested.append(endpoint)
        return self.result


@dataclass(frozen=True, slots=True)
class Tokens:
    """ServiceAccount tokens of the test's organization.

    Attributes:
        namespace: the namespace of their accounts and permissions.
        sender: has every permission on the projects ``billing`` and ``ghost`` and on every endpoint.
        stranger: has no permission.
        misdirected: the sender's token for another audience.
    """

    namespace: str
    sender: str = field(repr=False)
    stranger: str = field(repr=False)
    misdirected: str = field(repr=False)


@dataclass(slots=True)
class Intake:
    """A running intake and the parts behind it."""

    server: Server
    client: httpx.AsyncClient
    registry: Registry
    line: Line
    recorder: Recorder
    log: Log
    tester: Tester
    jobs: Jobs
    unready: str | None = None


def refused(response: httpx.Response, status: int) -> dict[str, Any]:
    """Assert that an answer is a problem document of RFC 9457, and return it."""
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert (response.status_code, problem["status"]) == (status, status)
    assert problem["type"] == "about:blank"
    assert problem["title"]
    assert problem["detail"]
    return problem


def await_permission(kubectl: Kubectl, namespace: str, user: str, group: str = "system:authenticated") -> None:
    """Wait until the API server's authorizer permits a user to send events to project ``billing``."""
    question = ("auth", "can-i", "create", "projects.hookwright.dev/billing", "--subresource=events", "-n", namespace)
    deadline = time.monotonic() + PATIENCE
    while kubectl(*question, f"--as={user}", f"--as-group={group}", check=False).returncode != 0:
        assert time.monotonic() < deadline, f"{user} is not granted what the test granted"
        time.sleep(0.05)

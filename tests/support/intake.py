"""A running intake over the real services, and the line to the API server that its tests record and cut."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import text
from support.dispatcher import Engine
from support.polling import eventually
from support.store_factories import Clock

from hookwright_dev.cluster.kubectl import Cluster
from hookwright_operator.intake.auth import ReviewAuth
from hookwright_operator.registry import Endpoint, Registry
from hookwright_operator.services import IntakeServices
from hookwright_operator.store.records import DeliveryRecord, State
from hookwright_operator.store.sql import read
from hookwright_runtime.errors import KubeUnavailable
from hookwright_runtime.kubernetes import KubernetesClient
from hookwright_runtime.places import Places
from hookwright_runtime.server import Server

ORDERS = "uid-orders"
"""The uid of the endpoint that every test finds; it is suspended, so its deliveries stay as a test wrote them."""
BEGUN_MS = 1_767_225_600_000
"""The time of the intake's clock at the beginning of a test: 2026-01-01T00:00:00Z."""


class Line(KubernetesClient):
    """A client of the API server that records its requests, and can be cut off.

    Attributes:
        posts: the last part of each path, such as ``tokenreviews``.
        bodies: the last posted bodies.
    """

    def __init__(self, *connection: Any) -> None:
        super().__init__(*connection)
        self.posts: list[str] = []
        self.bodies: dict[str, Any] = {}
        self.cut = False

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Send the request unless the line is cut off."""
        kind = path.rpartition("/")[2]
        self.posts.append(kind)
        self.bodies[kind] = body
        if self.cut:
            raise KubeUnavailable("the line is cut")
        return await super().post(path, body)


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
    """A running intake and the parts behind it.

    Attributes:
        database: the file of the store.
        clock: of the store, the dispatcher and the replays.
    """

    server: Server
    client: httpx.AsyncClient
    line: Line
    services: IntakeServices
    auth: ReviewAuth
    engine: Engine
    database: Path
    clock: Clock
    polls: Places
    ending: asyncio.Event
    unready: str | None = None

    @property
    def registry(self) -> Registry:
        """Return the projects and endpoints that the intake knows."""
        return self.engine.registry

    @property
    def orders(self) -> Endpoint:
        """Return the endpoint that every test finds."""
        snapshot = self.registry.get(ORDERS)
        assert snapshot is not None
        return snapshot

    async def events(self) -> list[tuple[str, str, str | None, bytes]]:
        """Return namespace, project, producer's id and body of each event in the store, in the order of acceptance."""
        query = (
            "SELECT events.namespace, events.project, event_ids.event_id, events.body FROM events"
            " LEFT JOIN event_ids ON event_ids.message_id = events.id ORDER BY events.id"
        )
        rows = await self.engine.store.transactions.read(
            "events", lambda connection: connection.execute(text(query)).all()
        )
        return [(namespace, project, event_id, bytes(body)) for namespace, project, event_id, body in rows]

    async def delivery(self, delivery_id: str) -> DeliveryRecord:
        """Return a delivery in the store."""
        record = await self.engine.store.read_log(read.delivery, delivery_id)
        assert record is not None
        return record

    async def state(self, delivery_id: str) -> State:
        """Return the state of a delivery in the store."""
        return (await self.delivery(delivery_id)).state


async def fails(*_args: object, **_options: object) -> None:
    """Raise an error that no code expects."""
    raise ZeroDivisionError("the secret of the operator")


def allow(cluster: Cluster, namespace: str, subject: dict[str, str], *rules: dict[str, Any]) -> None:
    """Bind a subject to a Role with the rules; both have the subject's name."""
    rbac = "rbac.authorization.k8s.io"
    name = subject["name"].replace(":", "-")
    cluster.objects.create("Role", name, namespace, rules=list(rules))
    role = {"apiGroup": rbac, "kind": "Role", "name": name}
    api_group = {} if subject["kind"] == "ServiceAccount" else {"apiGroup": rbac}
    cluster.objects.create("RoleBinding", name, namespace, roleRef=role, subjects=[{**api_group, **subject}])


def rule(verb: str, resource: str, *names: str) -> dict[str, Any]:
    """Return a rule of a Role about a kind of Hookwright."""
    match = {"resourceNames": names} if names else {}
    return {"apiGroups": ["hookwright.dev"], "resources": [resource], "verbs": [verb], **match}


def await_permission(cluster: Cluster, namespace: str, user: str, *groups: str) -> None:
    """Wait until the API server's authorizer permits a user to send events to project ``billing``."""
    eventually(
        lambda: cluster.objects.may(
            user, "create", "projects/events", namespace, group="hookwright.dev", name="billing", groups=groups
        ),
        f"{user} is granted what the test granted",
    )

"""Permissions: every kind of credential at every route, each cell asserted."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import httpx
import pytest
from integration.api.conftest import Organizations
from support.api_processes import Organization
from support.api_receiver import Received, receiving
from support.polling import eventually

from hookwright_dev.cluster.kubectl import Cluster

Credentials = Mapping[str, Mapping[str, str]]


@dataclass(slots=True)
class World:
    """Two organizations. The first has two projects; all requests aim at objects of billing."""

    client: httpx.Client
    acme: Organization
    receiver: Received
    credentials: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def endpoint(self) -> str:
        """Create a webhook in billing and return its id."""
        return str(self.acme.webhook(self.credentials["key of this project"], f"{self.receiver.url}/x")["id"])

    def delivery(self) -> str:
        """Create a delivered delivery in billing and return its id."""
        key, endpoint = self.credentials["key of this project"], self.endpoint()
        self.client.post("/v1/events", json={"type": "delivered", "messageId": "m"}, headers=dict(key))
        path = f"/v1/webhooks/{endpoint}/deliveries?status=delivered"
        eventually(lambda: bool(self.client.get(path, headers=dict(key)).json()["data"]), "a delivered delivery")
        return str(self.client.get(path, headers=dict(key)).json()["data"][0]["id"])


@pytest.fixture(scope="module")
def world(control_plane: Cluster, client: httpx.Client) -> Iterator[World]:
    """Yield both organizations and every kind of credential; every cell creates its own target."""
    organizations = Organizations(control_plane, client)
    with receiving() as receiver:
        yield _world(organizations.new("acme"), organizations.new("rival"), client, receiver)
    organizations.remove()


def _world(acme: Organization, rival: Organization, client: httpx.Client, receiver: Received) -> World:
    acme.project("billing")
    acme.project("shipping")
    rival.project("rivalry")
    soon = (datetime.now(UTC) + timedelta(seconds=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    expired = acme.key("billing", expires_at=soon)
    revoked = acme.key("billing")
    client.delete(f"/v1/projects/billing/keys/{revoked['id']}", headers=acme.session())
    good = acme.key("billing")["key"]
    made = World(client, acme, receiver)
    made.credentials |= {
        "anonymous": {},
        "broken key": {"X-Service-Key": good[:-1] + ("A" if good[-1] != "A" else "B")},
        "revoked key": {"X-Service-Key": revoked["key"]},
        "expired key": {"X-Service-Key": expired["key"]},
        "broken session": {"Authorization": "Bearer nonsense"},
        "key of another project": acme.service_key("shipping"),
        "key of another organization": rival.service_key("rivalry"),
        "session of another organization": rival.session(),
        "session of this organization": acme.session(),
        "key of this project": {"X-Service-Key": good},
    }
    eventually(
        lambda: client.get("/v1/webhooks", headers=dict(made.credentials["expired key"])).status_code == 401, "expired"
    )
    return made


NOBODY: Final = ("anonymous", "broken key", "revoked key", "expired key", "broken session")
WEBHOOK: Final = {"url": "https://example.com/made", "events": ["opened"]}


def cells(other_key: int, foreign_key: int, foreign_session: int, session: int, key: int) -> dict[str, int]:
    """Return a row of the matrix; a caller without a valid credential gets 401 in every row."""
    return dict.fromkeys(NOBODY, 401) | {
        "key of another project": other_key,
        "key of another organization": foreign_key,
        "session of another organization": foreign_session,
        "session of this organization": session,
        "key of this project": key,
    }


@dataclass(frozen=True, slots=True)
class Route:
    """A row: a route, its target in billing, and the status for each credential.

    With ``scoped``, a session names its project; a key does not.
    """

    method: str
    path: str
    expected: Mapping[str, int]
    body: object = None
    target: Callable[[World], str] = lambda _: ""
    scoped: bool = False


def a_key(world: World) -> str:
    """Create a key of billing and return its id."""
    return str(world.acme.key("billing")["id"])


ROUTES: Final = [
    Route("GET", "/v1/auth/me", cells(403, 403, 200, 200, 403)),
    Route("POST", "/v1/projects/billing/keys", cells(403, 403, 404, 201, 403), {"name": "made"}),
    Route("GET", "/v1/projects/billing/keys", cells(403, 403, 404, 200, 403)),
    Route("DELETE", "/v1/projects/billing/keys/{}", cells(403, 403, 404, 204, 403), target=a_key),
    # A key of another project creates and lists webhooks of that project: the next two tests check the objects.
    Route("POST", "/v1/webhooks", cells(201, 201, 404, 201, 201), WEBHOOK, scoped=True),
    Route("GET", "/v1/webhooks", cells(200, 200, 404, 200, 200), scoped=True),
    Route("GET", "/v1/webhooks/{}", cells(404, 404, 404, 200, 200), target=World.endpoint, scoped=True),
    Route("DELETE", "/v1/webhooks/{}", cells(404, 404, 404, 204, 204), target=World.endpoint, scoped=True),
    Route("POST", "/v1/webhooks/{}/test", cells(404, 404, 403, 403, 200), target=World.endpoint),
    Route("GET", "/v1/webhooks/{}/deliveries", cells(404, 404, 404, 200, 200), target=World.endpoint),
    Route("GET", "/v1/deliveries/{}", cells(404, 404, 404, 200, 200), target=World.delivery),
    Route("POST", "/v1/deliveries/{}/retry", cells(404, 404, 404, 202, 202), target=World.delivery),
    Route("POST", "/v1/events", cells(202, 202, 403, 403, 202), {"type": "delivered", "messageId": "m"}),
]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_credential_gets_what_it_may_and_no_more(world: World, route: Route) -> None:
    """All cells of a row are compared at once, so that a failure shows the whole row."""
    statuses = {name: ask(world, route, name).status_code for name in route.expected}
    assert statuses == route.expected


def ask(world: World, route: Route, name: str) -> httpx.Response:
    """Send a row's request with one credential, to a target created for this cell."""
    path = route.path.format(route.target(world))
    params = {"project": "billing"} if route.scoped and "session" in name else {}
    headers = dict(world.credentials[name])
    return world.client.request(route.method, path, params=params, headers=headers, json=route.body)


def test_a_key_sees_and_makes_webhooks_of_its_own_project_only(world: World, client: httpx.Client) -> None:
    """Another project's key does not list the webhooks of a project's key; events reach only the own webhooks."""
    mine = world.endpoint()
    for name, project in (("key of another project", "shipping"), ("key of another organization", "rivalry")):
        headers = dict(world.credentials[name])
        theirs = client.post("/v1/webhooks", json=WEBHOOK, headers=headers).json()
        listed = client.get("/v1/webhooks", headers=headers).json()["data"]
        assert {one["project"] for one in listed} == {theirs["project"]} == {project}
        assert mine not in {one["id"] for one in listed}
        event = {"type": "delivered", "messageId": "theirs"}
        assert client.post("/v1/events", json=event, headers=headers).json()["deliveries"] == 0
    own = client.get("/v1/webhooks", headers=dict(world.credentials["key of this project"])).json()["data"]
    assert {one["project"] for one in own} == {"billing"}
    assert mine in {one["id"] for one in own}
    assert not [body for _, _, body in world.receiver.requests if b"theirs" in body]


def test_all_refusals_of_a_credential_have_one_wording(world: World, client: httpx.Client) -> None:
    """The answers for missing, unknown, revoked and expired credentials are equal."""
    answers: list[httpx.Response] = [
        client.get("/v1/webhooks", headers=dict(world.credentials[name])) for name in NOBODY
    ]
    assert {answer.text for answer in answers} == {answers[0].text}
    assert all(answer.headers["www-authenticate"].startswith("Bearer") for answer in answers)


def test_unknown_and_foreign_things_are_answered_alike(world: World, client: httpx.Client) -> None:
    """A 404 does not show whether the object exists in another organization."""
    headers: dict[str, Any] = dict(world.credentials["key of another project"])
    for foreign, missing in (
        (f"/v1/webhooks/{world.endpoint()}", "/v1/webhooks/wh-there-is-none"),
        (f"/v1/deliveries/{world.delivery()}", f"/v1/deliveries/dlv_{1:026}"),
        (f"/v1/deliveries/{world.delivery()}", "/v1/deliveries/no delivery"),
    ):
        answers = [client.get(path, headers=headers) for path in (foreign, missing)]
        assert [answer.status_code for answer in answers] == [404, 404]
        assert answers[0].text == answers[1].text

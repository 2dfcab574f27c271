"""Permissions: every kind of credential at every route, each cell asserted."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Final

import httpx
import pytest
from integration.api.conftest import Organizations
from support.api_processes import Organization, problem_of
from support.api_receiver import Received, receiving
from support.polling import eventually

from hookwright_crds.keys import KeyScope
from hookwright_crds.users import UserRole
from hookwright_dev.cluster.kubectl import Cluster
from hookwright_runtime.problems import Code

Credentials = Mapping[str, Mapping[str, str]]


@dataclass(slots=True)
class World:
    """Two organizations. The first has two projects; all requests aim at objects of billing."""

    client: httpx.Client
    acme: Organization
    receiver: Received
    credentials: dict[str, Mapping[str, str]] = field(default_factory=dict)
    users: dict[str, Callable[[], Mapping[str, str]]] = field(default_factory=dict)
    targets: dict[Callable[["World"], str], str] = field(default_factory=dict)

    def shared(self, make: Callable[["World"], str]) -> str:
        """Return the ids of the target that all requests share that do not use it up."""
        if make not in self.targets:
            self.targets[make] = make(self)
        return self.targets[make]

    def endpoint(self) -> str:
        """Create a webhook in billing and return its id."""
        return str(self.acme.webhook(self.credentials["key of this project"], f"{self.receiver.url}/x")["id"])

    def inbox(self) -> str:
        """Create a webhook with pull in billing and return its id."""
        return str(self.acme.webhook(self.credentials["key of this project"], None, pull={})["id"])

    def replay(self) -> str:
        """Complete a replay of a new webhook in billing; return the ids of both."""
        endpoint, key = self.endpoint(), dict(self.credentials["key of this project"])
        answer = self.client.post(f"/v1/webhooks/{endpoint}/replays", json=REPLAY, headers=key)
        path = str(answer.headers["location"])
        eventually(lambda: self.client.get(path, headers=key).json()["status"] == "completed", "a completed replay")
        return path.removeprefix("/v1/webhooks/").replace("/replays/", " ")

    def delivery(self) -> str:
        """Create a delivered delivery in billing and return its id."""
        key = dict(self.credentials["key of this project"])
        self.shared(World.endpoint)
        event = self.client.post("/v1/events", json=EVENT, headers=key).json()["event_ids"][0]

        def delivered() -> list[str]:
            deliveries = self.client.get(f"/v1/deliveries?event_id={event}", headers=key).json()["data"]
            return [delivery["id"] for delivery in deliveries if delivery["status"] == "delivered"]

        return str(eventually(delivered, "a delivered delivery")[0])

    def event(self) -> str:
        """Create a delivered event in billing and return its id."""
        key, path = self.credentials["key of this project"], f"/v1/deliveries/{self.shared(World.delivery)}"
        return str(self.client.get(path, headers=dict(key)).json()["event_id"])


@pytest.fixture(scope="module")
def world(control_plane: Cluster, client: httpx.Client) -> Iterator[World]:
    """Yield both organizations and every kind of credential."""
    organizations = Organizations(control_plane, client)
    with receiving() as receiver:
        yield _world(organizations.new("acme"), organizations.new("rival"), client, receiver)
    organizations.remove()


def _world(acme: Organization, rival: Organization, client: httpx.Client, receiver: Received) -> World:
    acme.project("billing")
    acme.project("shipping")
    acme.allow_projects()
    rival.project("rivalry")
    soon = (datetime.now(UTC) + timedelta(seconds=3)).strftime("%Y-%m-%dT%H:%M:%SZ")
    new_key = acme.key("billing", expires_at=soon)
    revoked = acme.key("billing")
    client.delete(f"/v1/projects/billing/keys/{revoked['id']}", headers=acme.session())
    good = acme.key("billing")["key"]
    users: dict[str, Callable[[], Mapping[str, str]]] = {
        VIEWER: lambda: acme.session_of(UserRole.VIEWER),
        EDITOR: lambda: acme.session_of(UserRole.EDITOR),
        "session of this organization": lambda: acme.session_of(UserRole.ADMIN),
        "session of another organization": lambda: rival.session_of(UserRole.ADMIN),
    }
    scoped = {f"key to {scope}": {"X-Service-Key": acme.key("billing", scopes=[scope])["key"]} for scope in KeyScope}
    creation = World(client, acme, receiver, users=users)
    creation.credentials |= {
        "anonymous": {},
        "broken key": {"X-Service-Key": good[:-1] + ("A" if good[-1] != "A" else "B")},
        "revoked key": {"X-Service-Key": revoked["key"]},
        "expired key": {"X-Service-Key": new_key["key"]},
        "broken session": {"Authorization": "Bearer nonsense"},
        "key of another project": acme.service_key("shipping"),
        "key of another organization": rival.service_key("rivalry"),
        "session of another organization": rival.session(),
        "session of this organization": acme.session(),
        "key of this project": {"X-Service-Key": good},
        VIEWER: users[VIEWER](),
        EDITOR: users[EDITOR](),
        **scoped,
    }
    eventually(
        lambda: client.get("/v1/webhooks", headers=dict(creation.credentials["expired key"])).status_code == 401,
        "expired",
    )
    return creation


NOBODY: Final = ("anonymous", "broken key", "revoked key", "expired key", "broken session")
PASSWORDS: Final = {"current_password": "x", "new_password": "four other random words"}
SETTLED: Final = {"ids": ["dlv_01JK3V9Q4D1X7N0T5C8B2M6EYA.01JK3V9R0N6M2Q8W4T1Z7X3C5B"]}
REPLAY: Final = {"since": "2026-01-01T00:00:00Z"}
NUMBERS: Final = count()
EVENT: Final = {"type": "delivered", "messageId": "m"}
WEBHOOK: Final = {"url": "https://example.com/made", "events": ["opened"]}


VIEWER, EDITOR = "viewer of this organization", "editor of this organization"
TO_SEND, TO_READ, TO_MANAGE, TO_PULL = "key to send", "key to read", "key to manage", "key to pull"
RESTRICTED: Final = (VIEWER, EDITOR, TO_SEND, TO_READ, TO_MANAGE, TO_PULL)
"""Roles and keys with fewer rights than an admin and a key with all scopes."""


def cells(
    other_key: int, foreign_key: int, foreign_session: int, session: int, key: int, *, also: tuple[str, ...]
) -> dict[str, int]:
    """Return a row of the matrix; a caller without a valid credential gets 401 in every row.

    Args:
        other_key: the status for a key of another project.
        foreign_key: for a key of another organization.
        foreign_session: for an admin of another organization.
        session: for an admin of this organization.
        key: for a key of this project with all scopes.
        also: the `RESTRICTED` credentials that get the same as the two before; the others get a 403.
    """
    full = {name: key if name.startswith("key") else session for name in also}
    return (
        dict.fromkeys(NOBODY, 401)
        | dict.fromkeys(RESTRICTED, 403)
        | full
        | {
            "key of another project": other_key,
            "key of another organization": foreign_key,
            "session of another organization": foreign_session,
            "session of this organization": session,
            "key of this project": key,
        }
    )


def own(status: int, *, also: tuple[str, ...]) -> dict[str, int]:
    """Return a row of an object of billing: it does not exist for other projects and organizations."""
    return cells(404, 404, 404, status, status, also=also)


READERS: Final = (VIEWER, EDITOR, TO_READ)
MANAGERS: Final = (EDITOR, TO_MANAGE)
SENDERS: Final = (TO_SEND,)
CONSUMERS: Final = (EDITOR, TO_PULL)
USERS: Final = (VIEWER, EDITOR)
EDITORS: Final = (EDITOR,)
ADMINS: Final = ()


@dataclass(frozen=True, slots=True)
class Route:
    """A row: a route, its target in billing, and the status for each credential.

    With ``scoped``, a session names its project; a key does not. With ``once``, each successful request needs a new
    target. With ``new_user``, a cell with a session has a new user, because the request ends all sessions of
    the user.
    """

    method: str
    path: str
    expected: Mapping[str, int]
    body: object = None
    target: Callable[[World], str] = lambda _: ""
    scoped: bool = False
    once: bool = False
    new_user: bool = False


def a_key(world: World) -> str:
    """Create a key of billing and return its id."""
    return str(world.acme.key("billing")["id"])


def a_project(world: World) -> str:
    """Create a project of the first organization and return its name."""
    body = {"name": f"p{next(NUMBERS)}"}
    return str(world.client.post("/v1/projects", json=body, headers=world.acme.session()).json()["name"])


ROUTES: Final = [
    Route("GET", "/v1/auth/me", cells(403, 403, 200, 200, 403, also=USERS)),
    Route("POST", "/v1/auth/logout", cells(403, 403, 204, 204, 403, also=USERS), new_user=True),
    # The setting is off by default; test_password_change.py turns it on.
    Route("POST", "/v1/auth/password", cells(403, 403, 403, 403, 403, also=()), PASSWORDS),
    Route("GET", "/v1/projects", cells(200, 200, 200, 200, 200, also=READERS)),
    Route("GET", "/v1/projects/billing", own(200, also=READERS)),
    # The other organization does not allow it.
    Route("POST", "/v1/projects", cells(403, 403, 403, 201, 403, also=ADMINS), {"name": "made"}),
    Route("DELETE", "/v1/projects/{}", cells(403, 403, 404, 200, 403, also=ADMINS), target=a_project, once=True),
    Route("POST", "/v1/projects/billing/keys", cells(403, 403, 404, 201, 403, also=ADMINS), {"name": "made"}),
    Route("GET", "/v1/projects/billing/keys", cells(403, 403, 404, 200, 403, also=USERS)),
    Route(
        "DELETE", "/v1/projects/billing/keys/{}", cells(403, 403, 404, 204, 403, also=ADMINS), target=a_key, once=True
    ),
    # A key of another project creates and lists webhooks of that project: the next two tests check the objects.
    Route("POST", "/v1/webhooks", cells(201, 201, 404, 201, 201, also=MANAGERS), WEBHOOK, scoped=True),
    Route("GET", "/v1/webhooks", cells(200, 200, 404, 200, 200, also=READERS), scoped=True),
    Route("GET", "/v1/webhooks/{}", own(200, also=READERS), target=World.endpoint, scoped=True),
    Route("PATCH", "/v1/webhooks/{}", own(200, also=MANAGERS), {}, target=World.endpoint, scoped=True),
    Route("POST", "/v1/webhooks/{}/rotate-secret", own(200, also=MANAGERS), target=World.endpoint, scoped=True),
    Route("GET", "/v1/webhooks/{}/secret", cells(403, 403, 404, 200, 403, also=EDITORS), target=World.endpoint),
    Route("DELETE", "/v1/webhooks/{}", own(204, also=MANAGERS), target=World.endpoint, scoped=True, once=True),
    Route("POST", "/v1/webhooks/{}/test", own(200, also=(EDITOR, TO_SEND)), target=World.endpoint, scoped=True),
    Route("GET", "/v1/webhooks/{}/deliveries", own(200, also=READERS), target=World.endpoint),
    Route("POST", "/v1/webhooks/{}/replays", own(202, also=MANAGERS), REPLAY, target=World.endpoint, once=True),
    Route("GET", "/v1/webhooks/{}/replays", own(200, also=READERS), target=World.endpoint),
    Route("GET", "/v1/webhooks/{}/replays/{}", own(200, also=READERS), target=World.replay),
    # 409, because the replay is completed.
    Route("DELETE", "/v1/webhooks/{}/replays/{}", own(409, also=MANAGERS), target=World.replay),
    Route("GET", "/v1/webhooks/{}/messages", own(200, also=CONSUMERS), target=World.inbox),
    Route("POST", "/v1/webhooks/{}/messages/ack", own(200, also=CONSUMERS), SETTLED, target=World.inbox),
    Route("POST", "/v1/webhooks/{}/messages/nack", own(200, also=CONSUMERS), SETTLED, target=World.inbox),
    Route("GET", "/v1/webhooks/{}/statistics", own(200, also=READERS), target=World.endpoint),
    Route("GET", "/v1/projects/billing/statistics", own(200, also=READERS)),
    Route("GET", "/v1/deliveries/{}", own(200, also=READERS), target=World.delivery),
    Route("POST", "/v1/deliveries/{}/retry", own(202, also=MANAGERS), target=World.delivery, once=True),
    # Every caller may search: a test below compares what each finds.
    Route("GET", "/v1/deliveries", cells(200, 200, 404, 200, 200, also=READERS), scoped=True),
    Route("POST", "/v1/search/deliveries", cells(200, 200, 404, 200, 200, also=READERS), {}, scoped=True),
    Route("GET", "/v1/events/{}", own(200, also=READERS), target=World.event),
    # The catalogue is the same for every caller.
    Route("GET", "/v1/event-types", cells(200, 200, 200, 200, 200, also=READERS)),
    Route("POST", "/v1/events", cells(202, 202, 403, 403, 202, also=SENDERS), EVENT),
]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_credential_gets_what_it_may_and_no_more(world: World, route: Route) -> None:
    """All cells of a row are compared at once, so that a failure shows the whole row."""
    statuses, target = {}, ""
    for name in route.expected:
        target = target or (route.target(world) if route.once else world.shared(route.target))
        answer = ask(world, route, name, target)
        statuses[name] = answer.status_code
        if answer.is_success and route.once:
            target = ""
    assert statuses == route.expected


def test_the_password_route_refuses_a_key_as_the_wrong_credential(world: World) -> None:
    """The setting is off, so sessions get a 403 too; the code shows that no key was taken for a session."""
    route = next(route for route in ROUTES if route.path == "/v1/auth/password")
    for name in (name for name, status in route.expected.items() if status == 403):
        problem = problem_of(ask(world, route, name, ""), 403)
        is_key = "X-Service-Key" in world.credentials[name]
        assert problem["code"] == (Code.WRONG_CREDENTIAL if is_key else Code.FORBIDDEN), name
        assert is_key or "does not let users change passwords" in problem["detail"], name


def ask(world: World, route: Route, name: str, target: str) -> httpx.Response:
    """Send a row's request with one credential to a target, given as ids with spaces between them."""
    path = route.path.format(*target.split())
    headers = dict(world.users[name]() if route.new_user and name in world.users else world.credentials[name])
    params = {"project": "billing"} if route.scoped and "Authorization" in headers else {}
    return world.client.request(route.method, path, params=params, headers=headers, json=route.body)


def test_every_route_has_a_row(client: httpx.Client) -> None:
    """A new route cannot be forgotten here; the login has no credential."""
    document = client.get("/openapi.json").json()["paths"]
    documentation = {
        (method.upper(), re.sub(r"\{[^}]+\}", "{}", path)) for path, item in document.items() for method in item
    }
    rows = {(row.method, row.path.replace("/projects/billing", "/projects/{}")) for row in ROUTES}
    assert rows == documentation - {("POST", "/v1/auth/login")}


REFUSALS: Final = {
    VIEWER: ("DELETE", "/v1/webhooks/x", "this needs the role editor; the user has the role viewer"),
    EDITOR: ("DELETE", "/v1/projects/billing/keys/x", "this needs the role admin; the user has the role editor"),
    TO_SEND: ("GET", "/v1/webhooks", "the key lacks the scope read; it has send"),
    TO_READ: ("DELETE", "/v1/webhooks/x", "the key lacks the scope manage; it has read"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_names_the_missing_role_or_scope(world: World, client: httpx.Client, name: str) -> None:
    """The caller learns which right is missing, before it learns whether the object exists."""
    method, path, detail = REFUSALS[name]
    answer = client.request(method, path, headers=dict(world.credentials[name]))
    assert problem_of(answer, 403)["detail"] == detail


def test_a_key_sees_and_makes_webhooks_of_its_own_project_only(world: World, client: httpx.Client) -> None:
    """Another project's key does not list the webhooks of a project's key; events reach only the own webhooks."""
    mine = world.endpoint()
    for name, project in (("key of another project", "shipping"), ("key of another organization", "rivalry")):
        headers = dict(world.credentials[name])
        theirs = client.post("/v1/webhooks", json=WEBHOOK, headers=headers).json()
        rows = client.get("/v1/webhooks", headers=headers).json()["data"]
        assert {row["project"] for row in rows} == {theirs["project"]} == {project}
        assert mine not in {row["id"] for row in rows}
        event = {"type": "delivered", "messageId": "theirs"}
        assert client.post("/v1/events", json=event, headers=headers).json()["deliveries"] == 0
    own = client.get("/v1/webhooks", headers=dict(world.credentials["key of this project"])).json()["data"]
    assert {row["project"] for row in own} == {"billing"}
    assert mine in {row["id"] for row in own}
    assert not [body for _, _, body in world.receiver.requests if b"theirs" in body]


def test_equal_message_ids_of_two_organizations_and_two_projects_stay_apart(world: World, client: httpx.Client) -> None:
    """A search finds the event of the caller's own project or organization, and no id of another one."""
    event = {"id": "shared-id", "type": "delivered", "messageId": "shared-message", "recipient": "shared"}
    for name in ("key of this project", "key of another project", "key of another organization"):
        headers = dict(world.credentials[name])
        world.acme.webhook(headers, f"{world.receiver.url}/shared")
        assert client.post("/v1/events", json=event, headers=headers).json()["accepted"] == 1
    own = {"key of this project": {"billing"}, "session of this organization": {"billing", "shipping"}}
    strangers = {"key of another project": {"shipping"}, "key of another organization": {"rivalry"}}
    for name, projects in {**own, **strangers, "session of another organization": {"rivalry"}}.items():
        headers = dict(world.credentials[name])
        queries = ("message_id=shared-message", "event_id=shared-id", "type=delivered")
        answers = [client.get(f"/v1/deliveries?{query}&limit=250", headers=headers) for query in queries]
        answers.append(client.post("/v1/search/deliveries", json={"recipient": "shared"}, headers=headers))
        for rows in [answer.json()["data"] for answer in answers]:
            events = {row["event_id"] for row in rows}
            document = [client.get(f"/v1/events/{event_id}", headers=headers).json() for event_id in events]
            assert {row["project"] for row in document} == projects


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
        (f"/v1/webhooks/{world.shared(World.endpoint)}", "/v1/webhooks/wh-there-is-none"),
        (f"/v1/webhooks/{world.shared(World.endpoint)}/replays", "/v1/webhooks/wh-there-is-none/replays"),
        (f"/v1/webhooks/{world.shared(World.endpoint)}/statistics", "/v1/webhooks/wh-there-is-none/statistics"),
        ("/v1/projects/billing/statistics", "/v1/projects/there-is-none/statistics"),
        (f"/v1/deliveries/{world.shared(World.delivery)}", f"/v1/deliveries/dlv_{1:026}"),
        (f"/v1/deliveries/{world.shared(World.delivery)}", "/v1/deliveries/no delivery"),
    ):
        answers = [client.get(path, headers=headers) for path in (foreign, missing)]
        assert [answer.status_code for answer in answers] == [404, 404]
        assert answers[0].text == answers[1].text

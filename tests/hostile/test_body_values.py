"""Bodies with very many values: they are refused as a whole, and delay no other organization."""

import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from urllib.parse import quote, urlsplit

import httpx
import pytest
from integration.api import conftest as shared
from support.api_processes import Organization, problem_of
from support.polling import eventually

from hookwright_crds.documents.message_bodies import AckRequest
from hookwright_crds.users import MAX_PASSWORD_LENGTH
from hookwright_dev.cluster.installation import ApiProcess, OperatorProcess

control_plane, operator = shared.control_plane, shared.operator
api, client, tenant = shared.api, shared.client, shared.tenant
organizations = shared.organizations

MOST_SECONDS = 0.5
"""Longest time that another organization may wait because of an attack. Without turns it waited 5 to 42 s."""
AT_ONCE = 95
"""Requests at once from one address; fewer than the connections that an address may have."""
ONES = [1] * 5_000
NAMES = {f"x{number}": 1.5 for number in range(2_490)}
LABELS = {f"!{number}": "!" for number in range(2_400)}
WEBHOOK = {"url": "https://example.com", "events": ["*"]}
EVENT = {"type": "unknown", "n": [1.25] * 90}
"""Is refused by the operator, also with an Idempotency-Key."""


class Burst:
    """Requests on connections of their own, of which each lacks its last byte until `send`."""

    def __init__(self, connections: list[socket.socket], last: bytes) -> None:
        self._connections = connections
        self._last = last

    def send(self) -> None:
        """Complete all requests, except those that the server has refused already."""
        for connection in self._connections:
            with suppress(ConnectionError):
                connection.sendall(self._last)

    def first_status(self) -> int:
        """Return the status code of the answer to the first request."""
        return int(self._connections[0].recv(4096).split(b" ", 2)[1])


@contextmanager
def burst(url: str, body: bytes, headers: Mapping[str, str], number: int) -> Iterator[Burst]:
    """Yield equal POST requests that are ready to be completed."""
    parts = urlsplit(url)
    fields = {"Host": parts.netloc, "Content-Length": str(len(body)), **headers}
    lines = [f"POST {parts.path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    request = "\r\n".join(lines).encode() + body
    with ExitStack() as stack:
        connections = []
        for _ in range(number):
            connection = socket.create_connection((str(parts.hostname), parts.port or 80), timeout=60)
            connections.append(stack.enter_context(connection))
            connection.sendall(request[:-1])
        yield Burst(connections, request[-1:])


@pytest.mark.parametrize(
    ("path", "body", "most"),
    [
        ("/v1/auth/login", NAMES, 10),
        ("/v1/webhooks", {**WEBHOOK, "events": ONES}, 300),
        ("/v1/webhooks", {**WEBHOOK, "labels": LABELS}, 300),
        ("/v1/webhooks", {**WEBHOOK, "headers": LABELS}, 300),
        ("/v1/webhooks/wh-1/messages/ack", {"ids": ONES}, AckRequest.most_values),
    ],
    ids=["login", "events", "labels", "headers", "ids"],
)
def test_a_body_with_very_many_values_gets_one_fault(tenant: Organization, path: str, body: object, most: int) -> None:
    """The answer names the bound of the route; to check each value would keep the event loop of all tenants busy."""
    headers = {"Content-Type": "application/json"} | ({} if path == "/v1/auth/login" else tenant.service_key())
    answer = tenant.client.post(path, content=json.dumps(body), headers=headers)
    problem = problem_of(answer, 422)
    assert problem["detail"] == f"the body has more than {most} values; nothing was done"
    assert "errors" not in problem


def test_a_form_without_a_session_is_small(client: httpx.Client) -> None:
    """Each escaped character costs a microsecond, so 95 large forms of logins kept the loop busy for 13 s."""
    form = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
    password = quote("\U0001f512" * MAX_PASSWORD_LENGTH)
    for content, status in ((f"email=a%40b.c&password={password}", 401), ("email=" + "%41" * 6_000, 413)):
        assert client.post("/console/login", content=content, headers=form).status_code == status


def test_the_largest_valid_webhook_is_below_the_bound(tenant: Organization) -> None:
    """Every header, label and event type that an endpoint may have."""
    headers = {f"X-{number}": "a,b" for number in range(32)}
    labels = {f"l{number}": "a" for number in range(32)}
    document = {**WEBHOOK, "headers": headers, "labels": labels, "rate_limit": {"per_minute": 1}, "timeout": "5s"}
    answer = tenant.client.post("/v1/webhooks", json=document, headers=tenant.service_key())
    assert answer.status_code == 201, answer.text
    change = {"headers": dict.fromkeys(headers) | {"X-New": "a"}, "labels": dict.fromkeys(labels)}
    response = tenant.client.patch(answer.headers["Location"], json=change, headers=tenant.service_key())
    assert (response.status_code, response.json()["header_names"]) == (200, ["X-New"])


@pytest.mark.parametrize("attack", ["labels", "login", "few labels", "events"])
def test_another_organization_does_not_wait_for_hostile_bodies(
    organizations: shared.Organizations, tenant: Organization, api: ApiProcess, attack: str
) -> None:
    """Many costly bodies at once; beside them a small request of another organization and /healthz are fast."""
    globex = organizations.new("globex")
    globex.project()
    mine, theirs = key_of(tenant), globex.service_key()
    path, body, count, status = {
        "labels": ("/v1/webhooks", {**WEBHOOK, "labels": LABELS}, AT_ONCE, 422),
        "login": ("/v1/auth/login", NAMES, AT_ONCE, 422),
        "few labels": ("/v1/webhooks", {**WEBHOOK, "labels": dict(list(LABELS.items())[:280])}, AT_ONCE, 422),
        "events": ("/v1/events", [EVENT] * 1_000, 30, 422),
    }[attack]
    headers = {"Content-Type": "application/json"} | (mine if path != "/v1/auth/login" else {})
    if attack == "events":
        headers["Idempotency-Key"] = "k"
    small = {**WEBHOOK, "labels": {"!": ""}}
    with burst(f"{tenant.client.base_url}{path}", json.dumps(body).encode(), headers, count) as requests:
        check_waits(
            requests,
            lambda: globex.client.get(f"{api.health_url}/healthz"),
            lambda: globex.client.post("/v1/webhooks", json=small, headers=theirs),
        )
        assert requests.first_status() == status


def test_another_namespace_does_not_wait_for_hostile_events(
    organizations: shared.Organizations, tenant: Organization, api: ApiProcess, operator: OperatorProcess
) -> None:
    """Many large requests at the intake, each refused for its last event; beside them another namespace sends one."""
    globex = organizations.new("globex")
    globex.project()
    url = f"{operator.intake_url}/v1alpha1/namespaces/{{}}/projects/billing/events"
    token = api.folder.joinpath("operator-token").read_text().strip()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    small, large = {"type": "delivered", "messageId": "m"}, {"type": "delivered", "messageId": "m", "n": [1.25] * 90}
    body = json.dumps([{**large, "id": str(number)} for number in range(999)] + [{}]).encode()
    with httpx.Client(headers=headers, trust_env=False, timeout=60.0) as client:
        sent: list[Callable[[], httpx.Response]] = [
            lambda: client.post(url.format(globex.name), json=small),
            lambda: client.get(f"{operator.health_url}/healthz"),
        ]
        eventually(lambda: {request().status_code for request in sent} <= {200, 202}, "the intake knows the project")
        with burst(url.format(tenant.name), body, headers, 40) as requests:
            check_waits(requests, *sent)
            assert requests.first_status() == 422


def key_of(organization: Organization) -> dict[str, str]:
    """Return the header with a new key, as soon as the bodies of the last attack are parsed."""

    def made() -> dict[str, str]:
        try:
            return organization.service_key()
        except AssertionError:
            return {}

    return eventually(made, "a key is made")


def check_waits(attack: Burst, *requests: Callable[[], httpx.Response]) -> None:
    """Send an attack, and check that other requests beside it take little longer than before it."""
    before = max(seconds(request) for request in requests * 3)
    attack.send()
    waits = sorted(seconds(request) for request in requests * 3)
    # On a busy machine each step of a request takes longer, also without an attack, and one of them much longer.
    assert waits[len(waits) // 2] < MOST_SECONDS + 5 * before, waits
    assert waits[-1] < 5 * MOST_SECONDS + 5 * before, waits


def seconds(request: Callable[[], httpx.Response]) -> float:
    """Return how long a request takes."""
    began = time.monotonic()
    request()
    return time.monotonic() - began

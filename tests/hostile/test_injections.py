"""Injections through every field that a tenant controls: text stays text, in URLs, headers, logs, labels and SQL.

One API and one operator with a real API server and a real store. Each payload contains the word ``injected``. At the
end the logs and the metrics of both processes are searched for it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from integration.api import conftest as shared
from integration.api.conftest import Organizations
from support.api_processes import Organization
from support.api_receiver import Received, receiving
from support.json_lines import complete_lines
from support.polling import eventually

from hookwright_dev.cluster.installation import ApiProcess, OperatorProcess
from hookwright_dev.cluster.kubectl import Cluster

control_plane, operator = shared.control_plane, shared.operator
api, client = shared.api, shared.client

IDS = {
    "a path up": "..%2f..%2finjected",
    "a path up, encoded twice": "..%252f..%252finjected",
    "a path up with backslashes": "..%5c..%5cinjected",
    "a slash": "injected%2fstatus",
    "a query": "injected%3flabelSelector=a",
    "a fragment": "injected%23",
    "a zero byte": "injected%00",
    "a line break": "a%0d%0ainjected:%201",
    "a line of a log": "a%0a%7b%22event%22:%22injected%22%7d",
    "an escape sequence of terminals": "%1b%5b2Jinjected",
    "a condition of SQL": "injected'%20OR%20'1'='1",
    "a statement of SQL": "injected';DROP%20TABLE%20deliveries;--",
    "a pattern of SQL": "%25injected_",
    "an option of kubectl": "--all=injected",
    "a command of a shell": "$(injected)",
    "a command in backticks": "%60injected%60",
    "a template": "%7b%7binjected%7d%7d",
    "a look-up of a logger": "$%7bjndi:ldap://127.0.0.1:9/injected%7d",
    "a label of a metric": "injected%22,route=%22a",
    "bytes that are no UTF-8": "injected%ff%fe",
    "letters of another alphabet": "injected%D0%B0",
    "the other writing direction": "injected%E2%80%AE",
    "300 characters": "injected" * 38,
    "another namespace": "kube-system%2finjected",
}
"""Ids in paths, percent-encoded: nothing has such a name, so each is a 404."""
PLACES = (
    ("GET", "/v1/webhooks/{}"),
    ("DELETE", "/v1/webhooks/{}"),
    ("GET", "/v1/webhooks/{}/deliveries"),
    ("POST", "/v1/deliveries/{}/retry"),
    ("GET", "/v1/projects/{}/keys"),
    ("DELETE", "/v1/projects/billing/keys/{}"),
)

LOG = "/v1/webhooks/{webhook}/deliveries"
QUERIES: dict[str, tuple[str, Mapping[str, str], int]] = {
    "a line break in a cursor": (LOG, {"cursor": "a\r\ninjected: 1"}, 422),
    "a parameter in a cursor": (LOG, {"cursor": "injected&limit=1000000"}, 422),
    "SQL in a status": (LOG, {"status": "failed' OR '1'='1 injected"}, 422),
    "SQL in a limit": (LOG, {"limit": "1; injected"}, 422),
    "a limit in other digits": (LOG, {"limit": "\u0661"}, 422),
    "a path in a project": ("/v1/webhooks", {"project": "../injected"}, 404),
    "SQL in a project": ("/v1/webhooks", {"project": "injected' OR '1'='1"}, 404),
    "a selector in a project": ("/v1/webhooks", {"project": "billing,injected=a"}, 404),
    "an unknown parameter": ("/v1/webhooks", {"project": "billing", "namespace": "injected"}, 422),
}
"""Parameters of a session: the path, the query and the status."""

EVENT = {"type": "delivered", "messageId": "m-1"}
HOOK = {"url": "https://example.com/injected", "events": ["opened"]}
BODIES: dict[str, tuple[str, object, int]] = {
    "a line break in an event's id": ("/v1/events", {**EVENT, "id": "a\r\ninjected: 1"}, 422),
    "a zero byte in an event's id": ("/v1/events", {**EVENT, "id": "injected\0"}, 422),
    "an escape sequence in a message's id": ("/v1/events", {**EVENT, "messageId": "\x1b[2Jinjected"}, 422),
    "half a character in a message's id": ("/v1/events", {**EVENT, "messageId": "injected\ud800"}, 400),
    "the other writing direction in a message's id": ("/v1/events", {**EVENT, "messageId": "injected\u202e"}, 422),
    "an object as a message's id": ("/v1/events", {**EVENT, "messageId": {"$ne": "injected"}}, 422),
    "SQL in an event's type": ("/v1/events", {**EVENT, "type": "injected' OR '1'='1"}, 422),
    "a list of types": ("/v1/events", {**EVENT, "type": ["delivered", "injected"]}, 422),
    "a line break in a URL": ("/v1/webhooks", {**HOOK, "url": "https://example.com/\r\ninjected: 1"}, 422),
    "a space in a URL": ("/v1/webhooks", {**HOOK, "url": "https://example.com/ HTTP/1.1 injected"}, 422),
    "a user in a URL": ("/v1/webhooks", {**HOOK, "url": "https://injected@example.com/"}, 422),
    "a script as a URL": ("/v1/webhooks", {**HOOK, "url": "javascript:injected"}, 422),
    "a file as a URL": ("/v1/webhooks", {**HOOK, "url": "file:///injected"}, 422),
    "an unknown event of a webhook": ("/v1/webhooks", {**HOOK, "events": ["injected"]}, 422),
    "a namespace of a webhook": ("/v1/webhooks", {**HOOK, "namespace": "injected"}, 422),
    "metadata of a webhook": ("/v1/webhooks", {**HOOK, "metadata": {"finalizers": ["injected"]}}, 422),
    "a prototype of a webhook": ("/v1/webhooks", {**HOOK, "__proto__": {"injected": True}}, 422),
    "a project of a webhook": ("/v1/webhooks", {**HOOK, "project": "injected"}, 422),
    "a digest of a key": ("/v1/projects/billing/keys", {"name": "a", "digest": "injected"}, 422),
    "a line break in a key's name": ("/v1/projects/billing/keys", {"name": "a\ninjected"}, 422),
    "an escape sequence in a key's name": ("/v1/projects/billing/keys", {"name": "\x1b]0;injected\x07"}, 422),
    "the other writing direction in a key's name": ("/v1/projects/billing/keys", {"name": "injected\u202e"}, 422),
    "a time that is SQL": ("/v1/projects/billing/keys", {"name": "a", "expires_at": "injected' OR 1=1"}, 422),
    "a line break in an email": ("/v1/auth/login", {"email": "a@example.com\r\ninjected: 1", "password": "x"}, 422),
    "SQL in an email": ("/v1/auth/login", {"email": "injected'--@example.com", "password": "x"}, 401),
    "a selector as an email": ("/v1/auth/login", {"email": {"$gt": "injected"}, "password": "x"}, 422),
    "a password that is a list": ("/v1/auth/login", {"email": "a@example.com", "password": ["injected"]}, 422),
}
"""Bodies: the path, the document and the status."""

PLAIN = [
    "injected'; DROP TABLE deliveries; --",
    'injected" OR ""="',
    "injected <script>alert(1)</script>",
    "injected {{7*7}} ${7*7} #{7*7}",
    "injected ../../etc/passwd",
    "injected $(id) `id` | id",
    "injected %0d%0aX-Admin: 1",
    "injected \\r\\nX-Admin: 1",
    "injected \\u0000",
    "=injected()",
]
"""Printable texts: they are accepted, stored, shown and delivered as they are."""

HEADERS: dict[str, tuple[Mapping[str, bytes], int]] = {
    "a request id with spaces": ({"X-Request-Id": b"injected 1"}, 200),
    "a request id that is a line of a log": ({"X-Request-Id": b'{"event":"injected"}'}, 200),
    "a request id beyond ASCII": ({"X-Request-Id": "injected\u00e9".encode()}, 200),
    "another method": ({"X-HTTP-Method-Override": b"DELETE", "X-Injected": b"injected"}, 200),
    "another path": ({"X-Original-URL": b"/v1/injected", "X-Rewrite-URL": b"/v1/injected"}, 200),
    "another host": ({"Host": b"injected.example", "X-Forwarded-Host": b"injected.example"}, 200),
    "a trace that is none": ({"traceparent": b"00-injected-01", "tracestate": b"injected"}, 200),
    "an origin": ({"Origin": b"https://injected.example"}, 200),
    "a range": ({"Range": b"bytes=injected"}, 200),
    "a condition": ({"If-Match": b'"injected"'}, 200),
}
"""Headers of a GET with a good key, and the status: none of them changes the answer."""


@dataclass(slots=True)
class World:
    """An organization with one endpoint, and both of its credentials."""

    client: httpx.Client
    acme: Organization
    receiver: Received
    webhook: str
    key: dict[str, str] = field(repr=False)

    def request(self, method: str, path: str, *, session: bool = True, **how: Any) -> httpx.Response:
        """Send a request with a session, or with the key."""
        headers = self.acme.session() if session else self.key
        return self.client.request(method, path, headers=headers, **how)


@pytest.fixture(scope="module")
def world(control_plane: Cluster, client: httpx.Client) -> Iterator[World]:
    """Yield the organization that the payloads are sent to."""
    organizations = Organizations(control_plane, client)
    acme = organizations.new("acme")
    acme.project()
    key = acme.service_key()
    with receiving() as receiver:
        webhook = str(acme.webhook(key, f"{receiver.url}/hooks")["id"])
        yield World(client, acme, receiver, webhook, key)
    organizations.remove()


def check_problem(answer: httpx.Response, status: int) -> None:
    """Check that a refusal is a problem document, and that no header repeats the payload."""
    assert answer.status_code == status, answer.text
    assert "injected" not in str(answer.headers)
    assert answer.headers["x-content-type-options"] == "nosniff"
    if status >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["status"] == status


@pytest.mark.parametrize("sentence", IDS)
def test_an_id_is_a_name_and_nothing_else(world: World, sentence: str) -> None:
    """404 at every route, in the words for a name that does not exist."""
    for method, path in PLACES:
        params = {"project": "billing"} if path.startswith("/v1/webhooks") else {}
        check_problem(world.request(method, path.format(IDS[sentence]), params=params), 404)


@pytest.mark.parametrize("sentence", QUERIES)
def test_a_parameter_is_a_value_and_nothing_else(world: World, sentence: str) -> None:
    """A cursor, a state, a number or a project; anything else is refused."""
    path, params, status = QUERIES[sentence]
    check_problem(world.request("GET", path.format(webhook=world.webhook), params=params), status)


@pytest.mark.parametrize("sentence", BODIES)
def test_a_field_is_checked_before_it_is_used(world: World, sentence: str) -> None:
    """422, or 400 where the text is no JSON, or 401 at a login; nothing is made."""
    path, document, status = BODIES[sentence]
    params = {"project": "billing"} if path == "/v1/webhooks" else {}
    headers = {**(world.key if path == "/v1/events" else world.acme.session()), "Content-Type": "application/json"}
    answer = world.client.post(path, content=json.dumps(document), headers=headers, params=params)
    check_problem(answer, status)


@pytest.mark.parametrize("text", PLAIN)
def test_printable_text_is_delivered_as_it_is(world: World, text: str) -> None:
    """It is data in the store, in the log and in the request: nothing interprets it."""
    event = {"id": text, "type": "delivered", "messageId": text}
    assert world.request("POST", "/v1/events", session=False, json=event).json()["accepted"] == 1
    assert world.request("POST", "/v1/events", session=False, json=event).json()["duplicates"] == 1

    def arrived() -> list[dict[str, str]]:
        """Return the headers of the requests with this text."""
        return [headers for _, headers, body in world.receiver.requests if json.loads(body)["messageId"] == text]

    eventually(lambda: bool(arrived()), "the event has arrived")
    [headers] = arrived()
    assert "injected" not in str(headers)


@pytest.mark.parametrize("sentence", HEADERS)
def test_a_header_changes_no_answer(world: World, sentence: str) -> None:
    """The same webhooks are listed as without it, and no header of the answer repeats it."""
    given, status = HEADERS[sentence]
    headers = httpx.Headers([(name.encode(), value) for name, value in given.items()])
    headers.update(world.key)
    answer = world.client.get("/v1/webhooks", headers=headers)
    assert answer.status_code == status
    assert [row["id"] for row in answer.json()["data"]] == [world.webhook]
    assert "injected" not in str(answer.headers)


def test_nothing_of_it_reaches_a_label_or_forges_a_line_of_a_log(
    world: World, api: ApiProcess, operator: OperatorProcess
) -> None:
    """After all of the above, the organization has the same webhooks and keys as before."""
    for process in (api, operator):
        metrics = process.metrics()
        assert "injected" not in metrics
        for line in complete_lines(process.log):
            if "injected" in line:
                assert isinstance(json.loads(line), dict)
                assert json.loads(line)["event"] != "injected"
    rows = world.request("GET", "/v1/webhooks", session=False).json()["data"]
    assert [row["id"] for row in rows] == [world.webhook]
    keys = world.request("GET", "/v1/projects/billing/keys").json()["data"]
    assert len(keys) == 1

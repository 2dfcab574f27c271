"""The examples and headers of the OpenAPI description against answers of the running service."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest
from support.api_processes import PASSWORD, Organization
from support.api_receiver import Received
from support.polling import eventually

from hookwright_api.http.openapi import EXAMPLES
from hookwright_dev.cluster.stack import ROOT

MAPS = {"labels", "headers", "request_headers", "response_headers"}
"""Fields whose names are data."""
REPLAY = {"since": "2026-01-01T00:00:00Z", "state": "all", "types": ["delivered"]}


class Story:
    """Requests of one organization, with the answer to each by its operation and status."""

    def __init__(self, acme: Organization, client: httpx.Client, receiver: Received) -> None:
        self.answers: dict[str, httpx.Response] = {}
        self._acme, self._client, self._receiver = acme, client, receiver
        self._user = acme.session()
        answer = self.call("createKey 201", "POST", "/v1/projects/billing/keys", self._user, {"name": "CI sender"})
        self._key = {"X-Service-Key": answer["key"]}

    def call(
        self, name: str, method: str, path: str, headers: Mapping[str, str] | None = None, body: Any = None
    ) -> dict[str, Any]:
        """Send a request, a 503 again as clients do, and return its answer, which has the status of the name."""
        status = int(name.partition(" ")[2])

        def answered() -> httpx.Response | None:
            answer = self._client.request(method, path, json=body, headers=dict(headers or self._key))
            return None if answer.status_code == 503 else answer

        answer = self.answers[name] = eventually(answered, name)
        assert answer.status_code == status, answer.text
        document: dict[str, Any] = answer.json()
        return document

    def organization(self) -> None:
        """Log in, list, and create and delete a project."""
        self.call("login 200", "POST", "/v1/auth/login", {}, {"email": self._acme.email, "password": PASSWORD})
        self.call("me 200", "GET", "/v1/auth/me", self._user)
        self.call("listKeys 200", "GET", "/v1/projects/billing/keys", self._user)
        self.call("listProjects 200", "GET", "/v1/projects")
        self.call("getProject 200", "GET", "/v1/projects/billing")
        self._acme.allow_projects()
        self.call("createProject 201", "POST", "/v1/projects", self._user, {"name": "shop", "display_name": "Shop"})
        self.call("deleteProject 200", "DELETE", "/v1/projects/shop", self._user)

    def webhook(self) -> str:
        """Create, show, change and test a webhook, and return its path."""
        expected = {"url": f"{self._receiver.url}/x", "events": ["delivered", "bounced"]}
        path = f"/v1/webhooks/{self.call('createWebhook 201', 'POST', '/v1/webhooks', body=expected)['id']}"
        self.call("listWebhooks 200", "GET", "/v1/webhooks")
        self.call("getWebhook 200", "GET", path)
        self.call("updateWebhook 200", "PATCH", path, body={"labels": {"team": "billing"}})
        self.call("rotateWebhookSecret 200", "POST", f"{path}/rotate-secret")
        self.call("getWebhookSecret 200", "GET", f"{path}/secret", self._user)
        self.call("testWebhook 200", "POST", f"{path}/test")
        return path

    def deliveries(self, webhook: str) -> None:
        """Send an event, read its delivery, send it again, and replay."""
        event = {"type": "delivered", "messageId": "m-42", "recipient": "ada@example.com"}
        self.call("sendEvents 202", "POST", "/v1/events", body=event)
        log = f"{webhook}/deliveries?status=delivered"
        eventually(lambda: bool(self.call("listDeliveries 200", "GET", log)["data"]), "a delivered delivery")
        (delivery,) = self.answers["listDeliveries 200"].json()["data"]
        self.call("getDelivery 200", "GET", f"/v1/deliveries/{delivery['id']}")
        self.call("getEvent 200", "GET", f"/v1/events/{delivery['event_id']}")
        self.call("retryDelivery 202", "POST", f"/v1/deliveries/{delivery['id']}/retry")
        self.call("getWebhookStatistics 200", "GET", f"{webhook}/statistics")
        self.call("getProjectStatistics 200", "GET", "/v1/projects/billing/statistics")
        self.call("beginReplay 200", "POST", f"{webhook}/replays", body={**REPLAY, "dry_run": True})
        answer = self.call("beginReplay 202", "POST", f"{webhook}/replays", body=REPLAY)
        self.call("getReplay 200", "GET", f"{webhook}/replays/{answer['id']}")
        self.call("listReplays 200", "GET", f"{webhook}/replays")

    def messages(self) -> None:
        """Take two messages, acknowledge one and refuse the other."""
        inbox = self._acme.webhook(self._key, None, pull={}, events=["opened"])["id"]
        events = [{"type": "opened", "messageId": f"m-{number}"} for number in range(2)]
        self.call("sendEvents 202", "POST", "/v1/events", body=events)
        path, ids = f"/v1/webhooks/{inbox}/messages", list[str]()
        while len(ids) < len(events):
            answer = self.call("takeMessages 200", "GET", f"{path}?wait=30s")["data"]
            assert answer
            ids += [message["id"] for message in answer]
        self.call("ackMessages 200", "POST", f"{path}/ack", body={"ids": ids[:1]})
        self.call("nackMessages 200", "POST", f"{path}/nack", body={"ids": ids[1:]})


@pytest.fixture
def story(acme: Organization, client: httpx.Client, receiver: Received) -> Story:
    """Return the story after its end."""
    new_story = Story(acme, client, receiver)
    new_story.organization()
    new_story.deliveries(new_story.webhook())
    new_story.messages()
    return new_story


def test_answers_have_the_fields_and_headers_of_the_description(story: Story) -> None:
    """Each recorded example has the field names of the same answer today; ETag and Location are sent as described."""
    recorded_fields = {
        name: fields for name, fields in json.loads(EXAMPLES.read_text()).items() if not isinstance(fields, str)
    }
    assert recorded_fields.keys() == story.answers.keys()
    for name, example in recorded_fields.items():
        assert set(_fields(example)) == set(_fields(story.answers[name].json())), name
    headers_of = {name: {"etag", "location"} & answer.headers.keys() for name, answer in story.answers.items()}
    assert headers_of == {name: item for name, item in _described_headers() if name in headers_of}


def _described_headers() -> Iterator[tuple[str, set[str]]]:
    for operations in json.loads((ROOT / "docs" / "openapi.json").read_text())["paths"].values():
        for operation in operations.values():
            for status, response in operation["responses"].items():
                names = {header.lower() for header in response["headers"]}
                yield f"{operation['operationId']} {status}", {"etag", "location"} & names


def _fields(value: Any, path: str = "") -> Iterator[str]:
    """Yield the path of each field; of a list, those of its first element."""
    match value:
        case dict():
            for name, inner in value.items():
                yield f"{path}.{name}"
                yield from () if name in MAPS else _fields(inner, f"{path}.{name}")
        case [first, *_]:
            yield f"{path}[]"
            yield from _fields(first, f"{path}[]")

"""Slow bodies, and requests of clients without a credential: they occupy no place that others need."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from uuid import uuid4

import pytest
from integration.api import conftest as shared
from support.attacks import Installation, Memory, connect, exchange, read_answer
from support.polling import eventually

from hookwright_api import services
from hookwright_dev.cluster.installation import ApiProcess, OperatorProcess
from hookwright_dev.cluster.kubectl import Cluster

control_plane, operator, api = shared.control_plane, shared.operator, shared.api

EVENT = json.dumps({"type": "delivered", "messageId": "m"}).encode()
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def site(operator: OperatorProcess, api: ApiProcess) -> Installation:
    """Return the stack."""
    return Installation(operator, api)


@pytest.fixture(scope="module")
def namespaces(control_plane: Cluster, site: Installation) -> Iterator[tuple[str, str]]:
    """Yield the namespaces of a hostile tenant and another one, each with project billing."""
    hostile, second = (f"{prefix}-{uuid4().hex[:8]}" for prefix in ("hostile", "other"))
    for name in (hostile, second):
        control_plane.objects.create("Namespace", name)
        control_plane.objects.create("Project", "billing", name, spec={})
        eventually(lambda name=name: event_status(site, name) == 202, "the operator knows the project")  # type: ignore[misc]
    yield hostile, second
    control_plane.objects.delete("Namespace", hostile, second, wait=False)


def head(site: Installation, namespace: str, *, length: int, token: str | None = None) -> bytes:
    """Return the head of a request with events."""
    token = token or site.api.folder.joinpath("operator-token").read_text()
    return (
        f"POST /v1alpha1/namespaces/{namespace}/projects/billing/events HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


def event_status(site: Installation, namespace: str) -> int:
    """Send one event and return the status of the answer."""
    return exchange(
        site.operator.intake_port, head(site, namespace, length=len(EVENT)) + EVENT, "127.0.0.2"
    ).status_code


@pytest.mark.parametrize("start", [b"", b"[", b"[" + b" " * 60_000], ids=["nothing", "a byte", "60 KB"])
def test_bodies_that_do_not_come_shut_nothing(site: Installation, namespaces: tuple[str, str], start: bytes) -> None:
    """During 300 requests of one tenant with incomplete bodies, events of both tenants are accepted."""
    hostile, second = namespaces
    memory = Memory(site.operator.running.pid)
    with ExitStack() as stack:
        slow = [stack.enter_context(connect(site.operator.intake_port)) for _ in range(300)]
        for connection in slow:
            connection.sendall(head(site, hostile, length=1_000_000) + start)
        assert [event_status(site, second) for _ in range(20)] == [202] * 20
        assert event_status(site, hostile) == 202
        assert memory.grown() < 100 * MIB


def test_heads_of_clients_without_a_credential_shut_nothing(site: Installation, namespaces: tuple[str, str]) -> None:
    """They get a 401 before their bodies are read, each token is reviewed once, and other events are accepted."""
    with ExitStack() as stack:
        anonymous = [stack.enter_context(connect(site.operator.intake_port)) for _ in range(300)]
        for number, connection in enumerate(anonymous):
            connection.sendall(head(site, namespaces[1], length=1_000_000, token=f"nonsense-{number}"))
        assert [event_status(site, namespaces[1]) for _ in range(20)] == [202] * 20
        assert {read_answer(connection).status_code for connection in anonymous} <= {401, 429, 503}


def test_slow_logins_shut_nothing(site: Installation) -> None:
    """/v1 serves others while 200 bodies of one address are incomplete; each of them has 30 s."""
    assert services._BODY_SECONDS == 30
    login = (
        b"POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 200000\r\n\r\n"
    )
    with ExitStack() as stack:
        slow = [stack.enter_context(connect(site.api.port)) for _ in range(200)]
        for connection in slow:
            connection.sendall(login + b'{"email": "' + b"a" * 50_000)
        assert exchange(site.api.port, b"GET /v1/webhooks HTTP/1.1\r\nHost: x\r\n\r\n", "127.0.0.2").status_code == 401
        assert site.healthy("api")

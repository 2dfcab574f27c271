"""Slow bodies, and requests of clients without a credential: they occupy no slot that others need."""

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from uuid import uuid4

import httpx
import pytest
from starlette.types import Message, Receive
from support.attacks import Installation, Memory, connect, exchange, installation, read_answer
from support.polling import eventually

from hookwright_dev.cluster.kubectl import Cluster
from hookwright_operator.intake.request_slots import BODY_BYTES, BODY_BYTES_OF_NAMESPACE, RequestSlots
from hookwright_runtime.problems import ProblemError
from hookwright_runtime.request_body import Bodies

EVENT = json.dumps({"type": "delivered", "messageId": "m"}).encode()
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def site(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Yield an operator and an API."""
    with installation(control_plane, tmp_path_factory.mktemp("bodies")) as running:
        yield running


@pytest.fixture(scope="module")
def namespaces(control_plane: Cluster, site: Installation) -> Iterator[tuple[str, str]]:
    """Yield the namespaces of a hostile tenant and another one, each with project billing."""
    names = tuple(f"{prefix}-{uuid4().hex[:8]}" for prefix in ("hostile", "other"))
    for name in names:
        control_plane.kubectl("create", "namespace", name)
        project = {"apiVersion": "hookwright.dev/v1alpha1", "kind": "Project", "metadata": {"name": "billing"}}
        control_plane.kubectl("apply", "-n", name, "-f", "-", stdin=json.dumps({**project, "spec": {}}))
        eventually(lambda name=name: event_status(site, name) == 202, "the operator knows the project")  # type: ignore[misc]
    yield names[0], names[1]
    control_plane.kubectl("delete", "namespace", *names, "--wait=false")


def head(site: Installation, namespace: str, *, length: int, token: str | None = None) -> bytes:
    """Return the head of a request with events."""
    token = token or site.api.folder.joinpath("operator-token").read_text()
    return (
        f"POST /v1alpha1/namespaces/{namespace}/projects/billing/events HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


def event_status(site: Installation, namespace: str) -> int:
    """Send one event and return the status of the answer."""
    return exchange(site.operator.intake_port, head(site, namespace, length=len(EVENT)) + EVENT, "127.0.0.2").status


@pytest.mark.parametrize("start", [b"", b"[", b"[" + b" " * 60_000], ids=["nothing", "a byte", "60 KB"])
def test_bodies_that_do_not_come_shut_nothing(site: Installation, namespaces: tuple[str, str], start: bytes) -> None:
    """During 300 requests of one tenant with incomplete bodies, events of both tenants are accepted."""
    hostile, other = namespaces
    memory = Memory(site.pid("operator"))
    with ExitStack() as stack:
        slow = [stack.enter_context(connect(site.operator.intake_port)) for _ in range(300)]
        for connection in slow:
            connection.sendall(head(site, hostile, length=1_000_000) + start)
        assert [event_status(site, other) for _ in range(20)] == [202] * 20
        assert event_status(site, hostile) == 202
        assert memory.grown() < 100 * MIB


def test_heads_of_clients_without_a_credential_shut_nothing(site: Installation, namespaces: tuple[str, str]) -> None:
    """They get a 401 before their bodies are read, each token is reviewed once, and other events are accepted."""
    with ExitStack() as stack:
        anonymous = [stack.enter_context(connect(site.operator.intake_port)) for _ in range(300)]
        for number, connection in enumerate(anonymous):
            connection.sendall(head(site, namespaces[1], length=1_000_000, token=f"nonsense-{number}"))
        assert [event_status(site, namespaces[1]) for _ in range(20)] == [202] * 20
        assert {read_answer(connection).status for connection in anonymous} <= {401, 503}


def test_slow_logins_shut_nothing(site: Installation) -> None:
    """/v1 serves others while 200 bodies of one address are incomplete, and ends those requests after 30 s."""
    login = (
        b"POST /v1/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 200000\r\n\r\n"
    )
    with ExitStack() as stack:
        slow = [stack.enter_context(connect(site.api.port)) for _ in range(200)]
        for connection in slow:
            connection.sendall(login + b'{"email": "' + b"a" * 50_000)
        assert exchange(site.api.port, b"GET /v1/webhooks HTTP/1.1\r\nHost: x\r\n\r\n", "127.0.0.2").status == 401
        assert httpx.get(f"{site.api.health_url}/healthz", trust_env=False).status_code == 200
        statuses = [_status(connection) for connection in slow[:100]]
        assert set(statuses) <= {408, 503}


def _status(connection: socket.socket) -> int:
    connection.settimeout(60)
    return read_answer(connection).status


# ---- bounds of bodies and slots by themselves


def sending(*pieces: bytes, more: asyncio.Event) -> Receive:
    """Return a receive that gives pieces of a body, and the end of the body once ``more`` is set."""
    waiting = list(pieces)

    async def receive() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(0), "more_body": True}
        await more.wait()
        return {"type": "http.request", "body": b"", "more_body": False}

    return receive


async def test_bytes_of_incomplete_bodies_are_bounded_for_a_namespace_and_in_all() -> None:
    """A namespace at its bound is refused, others are not; the bytes are free again when the bodies are whole."""
    bodies, more = Bodies(30, total=BODY_BYTES, each=BODY_BYTES_OF_NAMESPACE), asyncio.Event()

    async def read(namespace: str, size: int) -> int:
        return len(await bodies.read(sending(b"x" * size, more=more), {}, namespace, limit=MIB))

    async def full(namespace: str, size: int) -> bool:
        with pytest.raises(ProblemError) as refused:
            await read(namespace, size)
        return refused.value.status == 503 and "Retry-After" in refused.value.headers

    reading = [asyncio.create_task(read("hostile", MIB)) for _ in range(BODY_BYTES_OF_NAMESPACE // MIB)]
    await asyncio.sleep(0)
    assert await full("hostile", 1)
    namespaces = BODY_BYTES // BODY_BYTES_OF_NAMESPACE
    for number in range(1, namespaces):
        reading += [asyncio.create_task(read(f"n{number}", MIB)) for _ in range(BODY_BYTES_OF_NAMESPACE // MIB)]
    await asyncio.sleep(0)
    assert await full("last", 1)
    more.set()
    assert set(await asyncio.gather(*reading)) == {MIB}
    assert await read("hostile", MIB) == MIB


@pytest.mark.parametrize(
    ("held", "wanted", "detail"),
    [
        (["acme"] * 2, "acme", 'namespace "acme" has 2 requests'),
        (["acme", "globex", "initech"], "acme", "3 requests"),
        (["acme"] * 2, "globex", None),
    ],
    ids=["one namespace has its part", "all slots are held", "another namespace has room"],
)
def test_request_slots(held: list[str], wanted: str, detail: str | None) -> None:
    """A refused request is a 503 that names the bound."""
    slots = RequestSlots("requests", total=3, each=2)
    with ExitStack() as stack:
        for namespace in held:
            stack.enter_context(slots.held(namespace))
        refusal = _refusal(lambda: stack.enter_context(slots.held(wanted)))
    assert (refusal is None) == (detail is None)
    if refusal is not None and detail is not None:
        assert refusal.status == 503
        assert detail in refusal.detail


def _refusal(act: Callable[[], object]) -> ProblemError | None:
    try:
        act()
    except ProblemError as error:
        return error
    return None

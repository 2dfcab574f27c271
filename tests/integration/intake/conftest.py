"""Fixtures of the intake's tests: an intake on loopback, whose callers a real API server authorizes."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
import uvloop
from support.attempts import OLDER, SECRET
from support.dispatcher import Engine, Plan, open_store, subscriber
from support.intake import BEGUN_MS, ORDERS, Intake, Line, Tokens, allow, await_permission, rule
from support.store_factories import Clock

from hookwright_dev.cluster.kubectl import Cluster
from hookwright_operator.delivery.attempt import RetrySchedule
from hookwright_operator.delivery.http.sender import Sender
from hookwright_operator.intake.app import IntakeApp
from hookwright_operator.intake.auth import ReviewAuth
from hookwright_operator.services import IntakeServices
from hookwright_operator.services.delivery_log import DeliveryLog
from hookwright_operator.services.endpoint_test import EndpointTester
from hookwright_operator.services.messages import Messages
from hookwright_operator.services.replays import Replays
from hookwright_runtime.bounds import EVENT_REQUESTS
from hookwright_runtime.connections import ConnectionBounds
from hookwright_runtime.server import Server


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run on uvloop, as the operator does."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def tokens(shared_cluster: Cluster) -> Iterator[Tokens]:
    """Yield accounts, permissions and tokens, created once."""
    objects, namespace = shared_cluster.objects, f"intake-{uuid4().hex[:8]}"
    objects.create("Namespace", namespace)
    for account in ("sender", "stranger"):
        objects.create("ServiceAccount", account, namespace)
    allow(
        shared_cluster,
        namespace,
        {"kind": "ServiceAccount", "name": "sender", "namespace": namespace},
        rule("create", "projects/events", "billing", "ghost"),
        rule("create", "webhookendpoints/test"),
        rule("get", "webhookendpoints/secret"),
        rule("update", "webhookendpoints/credentials"),
        rule("get", "webhookendpoints/deliveries"),
        rule("create", "webhookendpoints/retry"),
        rule("create", "webhookendpoints/pull"),
    )
    await_permission(shared_cluster, namespace, f"system:serviceaccount:{namespace}:sender")

    def token(account: str, audience: str = "hookwright") -> str:
        return objects.token(account, namespace, audience=audience, seconds=3600)

    yield Tokens(namespace, token("sender"), token("stranger"), token("sender", "elsewhere"))
    objects.delete("Namespace", namespace, wait=False)


@pytest.fixture
async def line(shared_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Line]:
    """Yield a line to the real API server."""
    monkeypatch.setenv("KUBECONFIG", str(shared_cluster.kubeconfig))
    line = await Line.connect("hookwright-operator")
    yield line
    await line.close()


@pytest.fixture
async def intake(line: Line, tokens: Tokens, database: Path) -> AsyncIterator[Intake]:
    """Yield an intake with project ``billing`` and endpoint ``orders``, and a client with the sender's token."""
    clock = Clock(BEGUN_MS)
    plan = Plan(clock_ms=clock, heartbeats=False)
    engine = await Engine.start(await open_store(database, plan, patience=0.2), plan)
    engine.registry.put_project(tokens.namespace, "billing")
    orders = subscriber(ORDERS, "http://127.0.0.1:1/nobody-listens", suspend=True)
    engine.registry.put(replace(orders, namespace=tokens.namespace, name="orders", secrets=(SECRET, OLDER)))
    services = services_of(engine)
    auth = ReviewAuth(line)
    app = IntakeApp(
        services,
        auth,
        ready=lambda: running.unready,
        event_requests=EVENT_REQUESTS._replace(total=8, each=2, reserved=2),
        body_seconds=0.5,
        new_request_id=lambda: "request-1",
    )
    server = await Server.start(
        app, host="127.0.0.1", port=0, bounds=ConnectionBounds(total=64, per_address=64), grace=2
    )
    base = f"http://127.0.0.1:{server.port}/v1alpha1/namespaces/{tokens.namespace}"
    bearer = {"Authorization": f"Bearer {tokens.sender}"}
    async with httpx.AsyncClient(base_url=base, headers=bearer, trust_env=False, timeout=30.0) as client:
        running = Intake(server, client, line, services, auth, engine, database, clock, app.polls, app.ending)
        yield running
    await server.stop()
    await engine.stop(grace=1)


def services_of(engine: Engine) -> IntakeServices:
    """Connect the services with an engine as the operator does."""
    assert isinstance(engine.sender, Sender)
    return IntakeServices(
        engine.registry,
        engine.store,
        engine.events,
        DeliveryLog(engine.store, engine.dispatcher, engine.sender),
        Replays(engine.registry, engine.dispatcher, engine.store, engine.plan.clock_ms),
        EndpointTester(engine.sender, engine.store, time.time),
        messages_of(engine),
    )


def messages_of(engine: Engine) -> Messages:
    """Connect the messages with an engine as the operator does."""
    waiters, clock = engine.dispatcher.pull_waiters, engine.plan.clock_ms
    engine.registry.listen(waiters)
    schedule = RetrySchedule.parse("30s,2m")
    return Messages(engine.registry, engine.store, waiters, schedule, clock, engine.watcher)

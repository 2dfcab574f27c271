"""Fixtures of the intake's tests: an intake on loopback, whose callers a real API server authorizes."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from uuid import uuid4

import httpx
import pytest
import uvloop
from support.intake_recorder import ORDERS, Intake, Jobs, Line, Log, Recorder, Tester, Tokens, await_permission

from hookwright_dev.cluster.kubectl import Cluster
from hookwright_operator.intake.app import create_app
from hookwright_operator.intake.auth import ReviewAuth
from hookwright_operator.intake.deps import Deps
from hookwright_operator.registry import Endpoint, Registry
from hookwright_runtime.connections import ConnectionBounds
from hookwright_runtime.kubernetes import KubernetesClient
from hookwright_runtime.server import Server


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run on uvloop, as the operator does."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def tokens(control_plane: Cluster) -> Iterator[Tokens]:
    """Yield accounts, permissions and tokens, created once."""
    kubectl, namespace = control_plane.kubectl, f"intake-{uuid4().hex[:8]}"
    kubectl("create", "namespace", namespace)
    for account in ("sender", "stranger"):
        kubectl("create", "serviceaccount", account, "-n", namespace)
    kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(_permissions(namespace)))
    await_permission(kubectl, namespace, f"system:serviceaccount:{namespace}:sender")

    def token(account: str, audience: str = "hookwright") -> str:
        return kubectl("create", "token", account, "-n", namespace, "--audience", audience).stdout.strip()

    yield Tokens(namespace, token("sender"), token("stranger"), token("sender", "elsewhere"))
    kubectl("delete", "namespace", namespace, "--wait=false")


def _permissions(namespace: str) -> dict[str, object]:
    def rule(verb: str, resource: str, *names: str) -> dict[str, object]:
        named = {"resourceNames": names} if names else {}
        return {"apiGroups": ["hookwright.dev"], "resources": [resource], "verbs": [verb], **named}

    role = {
        "rules": [
            rule("create", "projects/events", "billing", "ghost"),
            rule("create", "webhookendpoints/test"),
            rule("get", "webhookendpoints/secret"),
            rule("get", "webhookendpoints/deliveries"),
            rule("create", "webhookendpoints/retry"),
        ]
    }
    binding = {
        "subjects": [{"kind": "ServiceAccount", "name": "sender", "namespace": namespace}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "sender"},
    }
    common = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "sender"}}
    items = [{**common, "kind": "Role", **role}, {**common, "kind": "RoleBinding", **binding}]
    return {"apiVersion": "v1", "kind": "List", "items": items}


@pytest.fixture
async def line(control_plane: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Line]:
    """Yield a line to the real API server."""
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
    kube = await KubernetesClient.connect("hookwright-operator")
    yield Line(kube)
    await kube.close()


@pytest.fixture
async def intake(line: Line, tokens: Tokens) -> AsyncIterator[Intake]:
    """Yield an intake with project ``billing`` and endpoint ``orders``, and a client with the sender's token."""
    registry, recorder, log, tester, jobs = Registry(), Recorder(), Log(), Tester(), Jobs()
    registry.put_project(tokens.namespace, "billing")
    registry.put(
        Endpoint(
            uid=ORDERS,
            namespace=tokens.namespace,
            name="orders",
            project="billing",
            url="https://example.com/hooks",
            events=frozenset({"delivered"}),
            secrets=("whsec_new", "whsec_old"),
        )
    )

    def ready() -> str | None:
        return running.unready

    app = create_app(
        Deps(
            registry=registry,
            accepter=recorder,
            auth=ReviewAuth(line),
            deliveries=log,
            recoveries=jobs,
            tester=tester,
            ready=ready,
        ),
        max_requests=4,
        body_seconds=0.5,
        new_request_id=lambda: "request-1",
    )
    server = await Server.start(
        app, host="127.0.0.1", port=0, bounds=ConnectionBounds(total=64, per_address=64), grace=2
    )
    base = f"http://127.0.0.1:{server.port}/v1alpha1/namespaces/{tokens.namespace}"
    bearer = {"Authorization": f"Bearer {tokens.sender}"}
    async with httpx.AsyncClient(base_url=base, headers=bearer, trust_env=False, timeout=30.0) as client:
        running = Intake(server, client, registry, line, recorder, log, tester, jobs)
        yield running
    await server.stop()

"""Outages of the API's dependencies during requests, and their end."""

import os
import re
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from uuid import uuid4

import httpx
import pytest
from support.api_processes import Organization, problem_of
from support.polling import eventually
from support.stack import LIFTED

from hookwright_dev.cluster.control_plane import ControlPlane
from hookwright_dev.cluster.installation import ApiProcess, OperatorProcess
from hookwright_dev.processes import ChildProcess

WEBHOOK = {"url": "https://example.com/hooks", "events": ["delivered"]}


@pytest.fixture(scope="module")
def its_operator(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    """Yield an operator on it."""
    with OperatorProcess(plane, tmp_path_factory.mktemp("operator")) as operator:
        yield operator


@pytest.fixture(scope="module")
def its_api(
    plane: ControlPlane, its_operator: OperatorProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApiProcess]:
    """Yield an API on it that waits 2 s for the operator."""
    settings = {**LIFTED, "HOOKWRIGHT_CREATE_TIMEOUT": "2"}
    with ApiProcess(plane, tmp_path_factory.mktemp("api"), its_operator.intake_url, settings) as api:
        yield api


@pytest.fixture(scope="module")
def acme(plane: ControlPlane, its_api: ApiProcess) -> Iterator[Organization]:
    """Yield an organization with a project."""
    plane.objects.create("Namespace", "acme")
    with httpx.Client(base_url=its_api.url, trust_env=False, timeout=30.0) as client:
        organization = Organization(plane, client, "acme")
        organization.project()
        yield organization


def apiserver(plane: ControlPlane) -> ChildProcess:
    """Return the API server's process."""
    return next(process for process in plane.processes if process.name == "kube-apiserver")


@contextmanager
def away(operator: OperatorProcess) -> Iterator[None]:
    """Kill the operator, and start it again when the context ends."""
    operator.kill()
    try:
        yield
    finally:
        operator.start()


@pytest.mark.slow
def test_without_the_operator_requests_are_503_and_leave_nothing_behind(
    acme: Organization, plane: ControlPlane, its_operator: OperatorProcess
) -> None:
    """Without an operator: a 503 with Retry-After in bounded time, and no object. With it, requests succeed again.

    A rotation is requested then: its repetition returns its secret, and rotates no second time.
    """
    key = acme.service_key()
    endpoint = acme.webhook(key)
    path = f"/v1/webhooks/{endpoint['id']}"
    once = {**key, "Idempotency-Key": "while-away"}
    event = {"type": "delivered", "messageId": "m"}
    with away(its_operator):
        began = time.monotonic()
        refusal = acme.client.post("/v1/webhooks", json=WEBHOOK, headers=key)
        problem_of(refusal, 503)
        assert refusal.headers["retry-after"]
        assert time.monotonic() - began < 20
        assert [row["id"] for row in acme.client.get("/v1/webhooks", headers=key).json()["data"]] == [endpoint["id"]]
        resources = plane.objects.list("WebhookEndpoint", "acme")
        assert [row["metadata"]["name"] for row in resources] == [endpoint["id"]]
        for answer in (
            acme.client.post("/v1/events", json=event, headers=key),
            acme.client.post(f"{path}/test", headers=key),
            acme.client.get(f"{path}/deliveries", headers=key),
        ):
            problem_of(answer, 503)
            assert answer.headers["retry-after"]
        rotation = problem_of(acme.client.post(f"{path}/rotate-secret", headers=once), 503)
        assert "the rotation is requested" in rotation["detail"]
    assert acme.webhook(key)["secret"]
    assert acme.client.post("/v1/events", json=event, headers=key).status_code == 202
    answers = [acme.client.post(f"{path}/rotate-secret", headers=once) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200], answers[0].text
    assert answers[0].json() == answers[1].json()
    assert answers[0].json()["secret"] != endpoint["secret"]
    resource = plane.objects.get("WebhookEndpoint", endpoint["id"], "acme") or {}
    assert resource["spec"]["signing"]["rotation"] == 1


@pytest.mark.slow
def test_a_repeatable_creation_is_completed_by_its_repetition(
    acme: Organization, its_operator: OperatorProcess, its_api: ApiProcess
) -> None:
    """A repetition may have been answered by another replica, so a 503 deletes no webhook of an Idempotency-Key.

    The audit log has its creation when it is created, and a read of its secret for each repetition. The operator is
    killed in the middle of requests: each of a stream gets 202 or 503, and never 500.
    """
    key = acme.service_key()
    once = key | {"Idempotency-Key": uuid4().hex}

    def send(number: int) -> int:
        event = {"type": "delivered", "messageId": f"m{number}"}
        return acme.client.post("/v1/events", json=event, headers=key).status_code

    with ThreadPoolExecutor(4) as pool:
        requests = [pool.submit(send, number) for number in range(200)]
        with away(its_operator):
            statuses = {request.result() for request in requests}
            problem = problem_of(acme.client.post("/v1/webhooks", json=WEBHOOK, headers=once), 503)
    assert statuses <= {202, 503}
    assert 503 in statuses
    assert "send the same request again" in problem["detail"]
    eventually(lambda: send(1000) == 202, "recovered")
    answer = acme.client.post("/v1/webhooks", json=WEBHOOK, headers=once)
    assert answer.status_code == 201, answer.text
    rows = acme.client.get("/v1/webhooks", headers=key).json()["data"]
    assert [row["id"] for row in rows].count(answer.json()["id"]) == 1
    assert acme.client.post("/v1/webhooks", json=WEBHOOK, headers=once).json()["id"] == answer.json()["id"]
    actions = re.findall(rf" action=(\S+) .* target={answer.json()['id']}$", its_api.log.read_text(), re.MULTILINE)
    assert actions == ["webhook.create", "secret.read", "secret.read"]


@pytest.mark.slow
def test_without_the_api_server_reads_go_on_and_writes_are_503(acme: Organization, plane: ControlPlane) -> None:
    """Reads use the view, writes are refused, and the age of the view is visible."""
    key = acme.service_key()
    endpoint = acme.webhook(key)["id"]
    pid = apiserver(plane).pid
    os.kill(pid, signal.SIGSTOP)
    try:
        assert acme.client.get("/v1/webhooks", headers=key).status_code == 200
        for answer in (
            acme.client.post("/v1/webhooks", json=WEBHOOK, headers=key, timeout=60),
            acme.client.post("/v1/projects/billing/keys", json={"name": "k"}, headers=acme.session(), timeout=60),
            acme.client.delete(f"/v1/webhooks/{endpoint}", headers=key, timeout=60),
        ):
            problem_of(answer, 503)
    finally:
        os.kill(pid, signal.SIGCONT)
    eventually(
        lambda: acme.client.delete(f"/v1/webhooks/{endpoint}", headers=key).status_code in (204, 404), "writes again"
    )


@pytest.mark.slow
def test_a_key_revoked_while_the_watch_was_broken_is_refused_afterwards(
    acme: Organization, plane: ControlPlane, its_api: ApiProcess
) -> None:
    """After a 410, a new list removes objects that were deleted in the gap."""
    new_key = acme.key()
    header = {"X-Service-Key": new_key["key"]}
    assert acme.client.get("/v1/webhooks", headers=header).status_code == 200
    lists = its_api.metric("hookwright_api_view_lists_total", resource="apikeys")
    os.kill(its_api.running.pid, signal.SIGSTOP)
    try:
        restart(plane)  # closes the connections, so that no later event waits in a socket
        plane.objects.delete("ApiKey", new_key["id"], namespace="acme")
        restart(plane)  # its cache of events begins after the deletion
    finally:
        os.kill(its_api.running.pid, signal.SIGCONT)
    eventually(lambda: acme.client.get("/v1/webhooks", headers=header).status_code == 401, "refused", within=30)
    assert its_api.metric("hookwright_api_view_lists_total", resource="apikeys") > lists
    assert its_api.metric("hookwright_api_view_age_seconds", resource="apikeys") < 90
    assert its_api.ready() == 200


def restart(plane: ControlPlane) -> None:
    """Kill the API server and start it again on the same port."""
    old = apiserver(plane)
    old.kill()
    plane.processes.remove(old)
    new = plane._run("kube-apiserver", plane.apiserver_command())
    with plane._client() as client:
        new.wait_ready(lambda: client.get(f"{plane.server}/readyz").is_success, 60.0)

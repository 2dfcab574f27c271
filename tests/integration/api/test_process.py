"""The process: readiness, metrics, an orderly stop."""

import os
import signal
import socket
import subprocess
import sys
import time

import httpx
import pytest
from integration.api.conftest import Organizations, StartApi
from support.api_processes import PASSWORD, Organization
from support.polling import eventually

from hookwright_dev.cluster.installation import ApiProcess
from hookwright_dev.cluster.kubectl import Cluster


@pytest.mark.slow
def test_some_namespaces_are_served_alone_and_sigterm_finishes_requests_under_way(
    acme: Organization, organizations: Organizations, start_api: StartApi
) -> None:
    """With HOOKWRIGHT_WATCH_NAMESPACES, a key of another namespace is unknown; HOOKWRIGHT_SESSION_TTL ends sessions.

    After SIGTERM, a request with an incomplete body is answered, new connections are refused, and the exit code is 0.
    """
    api, client = start_api({"HOOKWRIGHT_WATCH_NAMESPACES": acme.name, "HOOKWRIGHT_SESSION_TTL": "3s"})
    rival = organizations.new("other")
    rival.project()
    strange, container = rival.service_key(), acme.service_key()
    eventually(lambda: client.get("/v1/webhooks", headers=container).status_code == 200, "key known")
    assert client.get("/v1/webhooks", headers=strange).status_code == 401
    token = client.post("/v1/auth/login", json={"email": acme.email, "password": PASSWORD}).json()["token"]
    session = {"Authorization": f"Bearer {token}"}
    assert client.get("/v1/auth/me", headers=session).status_code == 200
    eventually(lambda: client.get("/v1/auth/me", headers=session).status_code == 401, "the session ends", within=10)
    body = b'{"type":"delivered","messageId":"m"}'
    head = f"POST /v1/events HTTP/1.1\r\nHost: x\r\nX-Service-Key: {container['X-Service-Key']}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", api.port), 10) as slow:
        slow.sendall(head.encode() + body[:5])
        time.sleep(0.3)  # until the server has begun; no outside sign shows it
        os.kill(api.running.pid, signal.SIGTERM)
        eventually(lambda: _refused(api.port), "no new connections")
        assert api.running.running
        slow.sendall(body[5:])
        assert slow.recv(1024).startswith(b"HTTP/1.1 202")
    assert api.running.wait(10) == 0


def _refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return True
    return False


def test_metrics_have_route_templates_and_no_names(acme: Organization, api: ApiProcess, client: httpx.Client) -> None:
    """Labels are bounded: unknown paths share one value, and ids have none."""
    key = acme.service_key()
    new_webhook = acme.webhook(key)["id"]
    client.get(f"/v1/webhooks/{new_webhook}", headers=key)
    client.get("/etc/passwd")
    client.request("PROPFIND", "/v1/webhooks")
    text = api.metrics()
    assert 'hookwright_api_requests_total{method="GET",route="/v1/webhooks/{id}",status="200"}' in text
    assert 'route="unmatched"' in text
    assert 'method="other"' in text
    assert new_webhook not in text
    assert acme.name not in text
    assert "passwd" not in text
    assert api.metric("hookwright_api_view_age_seconds", resource="webhookendpoints") < 90


@pytest.mark.slow
def test_it_is_not_ready_and_answers_503_until_the_view_is_complete(control_plane: Cluster, api: ApiProcess) -> None:
    """Without permission to list, the API answers no 401 or 404, and /readyz answers 503."""
    folder = api.folder / "unready"
    folder.mkdir()
    blind = ApiProcess(control_plane, folder, api.operator_url, {"HOOKWRIGHT_USERS_NAMESPACE": "kube-system"})
    blind.start(wait=False)
    try:
        eventually(lambda: blind.ready() == 503, "up and not ready")
        assert httpx.get(f"{blind.health_url}/healthz", timeout=30.0).status_code == 200
        answer = httpx.get(f"{blind.url}/v1/webhooks", headers={"X-Service-Key": "hw_x"}, timeout=30.0)
        assert answer.status_code == 503
        assert answer.headers["retry-after"]
        assert httpx.get(f"{blind.url}/openapi.json", timeout=30.0).status_code == 200
    finally:
        blind.stop()


@pytest.mark.slow
def test_a_wrong_setting_ends_the_process_with_a_sentence() -> None:
    """The exit code is 2, and standard error names the variable."""
    environment = {**os.environ, "HOOKWRIGHT_SESSION_TTL": "forever"}
    argv = [sys.executable, "-m", "hookwright_api"]
    result = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 2
    assert "HOOKWRIGHT_SESSION_TTL" in result.stderr

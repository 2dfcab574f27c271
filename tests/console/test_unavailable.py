"""The console while the operator is unavailable, and the attributes of its cookie on an installation with https."""

import re
from collections.abc import Iterator

import httpx
import pytest
from console.conftest import SETTINGS
from support.api_processes import PASSWORD, running
from support.console_browser import ConsoleService

from hookwright_dev.cluster.installation import ApiProcess
from hookwright_dev.cluster.kubectl import Cluster
from hookwright_dev.processes import free_port


@pytest.fixture(scope="module")
def client(
    control_plane: Cluster, console_service: ConsoleService, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    """Yield a client of another API, which has no operator and permits no plain http; it is logged in as an admin."""
    settings = SETTINGS | {"HOOKWRIGHT_ALLOW_HTTP": "false"}
    nowhere = f"http://127.0.0.1:{free_port()}"
    email = console_service.organization.user()
    console_service.organization.wait_for_user(email)
    with running(ApiProcess(control_plane, tmp_path_factory.mktemp("api"), nowhere, settings)) as api:
        ours = {"Sec-Fetch-Site": "same-origin"}
        with httpx.Client(base_url=api.url, headers=ours, trust_env=False, timeout=30.0) as made:
            answer = made.post("/console/login", data={"email": email, "password": PASSWORD})
            assert answer.status_code == 303, answer.text
            cookie = answer.headers["set-cookie"]
            made.headers["Cookie"] = cookie.partition(";")[0]
            made.headers["X-Test-Cookie"] = cookie
            yield made


def test_the_cookie_is_for_https_and_for_the_console_only(client: httpx.Client) -> None:
    """No script reads it, and no request of another site has it."""
    attributes = {part.strip().lower() for part in client.headers["X-Test-Cookie"].split(";")[1:]}
    assert {"httponly", "secure", "samesite=strict", "path=/console"} <= attributes


def test_pages_work_without_the_operator_and_say_what_is_missing(client: httpx.Client) -> None:
    """Lists come from the view; only numbers of the operator are missing."""
    for path in ("/console/", "/console/projects/billing", "/console/projects/billing/keys", "/console/account"):
        assert client.get(path).status_code == 200, path
    shown = client.get("/console/?rates=1")
    assert shown.status_code == 200
    assert "The operator is unavailable or not ready" in shown.text
    assert "Billing" in shown.text


def test_a_change_without_the_operator_is_refused_in_words(client: httpx.Client) -> None:
    """The form is shown again with all that was typed, and nothing was created."""
    form = client.get("/console/projects/billing/new-endpoint").text
    token = re.search(r'name="form_token" value="([0-9a-f]+)"', form)
    assert token is not None
    fields = {
        "form_token": token.group(1),
        "url": "https://example.com/hooks",
        "events": ["opened"],
        "description": "An order service",
        "timeout": "15s",
        "max_in_flight": "8",
        "format": "json",
    }
    answer = client.post("/console/projects/billing/new-endpoint", data=fields)
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert 'role="alert"' in answer.text
    assert "An order service" in answer.text
    assert "https://example.com/hooks" not in client.get("/console/projects/billing").text

"""The console while the operator, its store, the API server or Redis is unavailable, on an installation with https."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

import httpx
import pytest
from support.api_processes import PASSWORD, Organization
from support.local_server import LocalServer, redis_server
from support.polling import eventually
from support.stack import installed_plane

from hookwright_api.console.static_files import URLS
from hookwright_crds.users import UserRole
from hookwright_dev.cluster.assets import Assets
from hookwright_dev.cluster.control_plane import ControlPlane
from hookwright_dev.cluster.installation import ApiProcess, OperatorProcess
from hookwright_dev.cluster.postgres import PostgresServer, postgres_server

pytestmark = pytest.mark.slow

PROJECT: Final = "/console/projects/billing"
OURS: Final = {"Sec-Fetch-Site": "same-origin"}
AWAY: Final = "The operator, or a service that it needs, is unavailable"


@dataclass(slots=True)
class Site:
    """An installation whose parts can be stopped, and a browser's requests to it.

    Attributes:
        closed: another API, which refuses requests that it cannot count.
        client: logged in as an admin.
        endpoint: path of an endpoint's pages.
        delivery: path of a delivery's page.
    """

    plane: ControlPlane
    operator: OperatorProcess
    postgres: PostgresServer
    redis: LocalServer
    api: ApiProcess
    closed: ApiProcess
    client: httpx.Client
    email: str
    cookie: str
    endpoint: str = ""
    delivery: str = ""

    @property
    def pages(self) -> tuple[str, ...]:
        """The pages that need nothing but the API."""
        of_project = ("", "/keys", "/new-endpoint", "/new-key", "/delete")
        of_endpoint = ("", "/configuration", "/secret", "/edit", "/verify", "/test", "/delete")
        return (
            "/console/", "/console/account", "/console/new-project", *(PROJECT + part for part in of_project),
            *(self.endpoint + part for part in of_endpoint),
        )  # fmt: skip

    def log_in(self, client: httpx.Client) -> str:
        """Log in, and return the cookie with its attributes."""
        answer = client.post("/console/login", data={"email": self.email, "password": PASSWORD})
        assert answer.status_code == 303, answer.text
        return answer.headers["set-cookie"]

    def read(self, path: str, status: int = 200) -> str:
        """Return the text of a page that has a status."""
        answer = self.client.get(path)
        assert answer.status_code == status, (path, answer.text)
        assert answer.headers["content-type"].startswith("text/html"), path
        return answer.text

    def send(self, path: str, status: int, **fields: str) -> str:
        """Send the form of a page, and return the text of the answer."""
        token = re.search(r'name="form_token" value="([0-9a-f]+)"', self.read("/console/account"))
        assert token is not None
        answer = self.client.post(path, data={"form_token": token.group(1), **fields})
        assert answer.status_code == status, (path, answer.text)
        return answer.text

    def check_basics(self) -> None:
        """Check what no part but the API is needed for: files, login, logout page, and the pages of the view."""
        with httpx.Client(base_url=self.api.url, headers=OURS, trust_env=False, timeout=30.0) as client:
            assert "Log in" in client.get("/console/login").text
            assert self.log_in(client)
            for url in URLS:
                assert client.get(url).status_code == 200, url
        for path in self.pages:
            assert "unavailable" not in self.read(path), path


@pytest.fixture(scope="module")
def site(assets: Assets, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield an installation with a separate control plane, because its API server is stopped here."""
    folder = tmp_path_factory.mktemp("site")
    with ExitStack() as stack:
        plane = stack.enter_context(installed_plane(assets))
        postgres = stack.enter_context(postgres_server())
        redis = stack.enter_context(redis_server(folder))
        settings = {"HOOKWRIGHT_DATABASE_URL": postgres.new_database("console"), "HOOKWRIGHT_RETRY_SCHEDULE": "1h"}
        operator = OperatorProcess(plane, folder / "operator", settings)
        operator.start()
        stack.callback(operator.kill)
        environment = {"HOOKWRIGHT_RATE_LIMIT_URL": f"redis://{redis.address}/0", "HOOKWRIGHT_RATE_LIMIT_IP": "100000"}
        unlimited = {"HOOKWRIGHT_RATE_LIMIT_ORGANIZATION": "0", "HOOKWRIGHT_ALLOW_HTTP": "false"}
        api, closed_replica = (
            stack.enter_context(
                ApiProcess(
                    plane,
                    folder / f"api-{fail_open}",
                    operator.intake_url,
                    environment | unlimited | {"HOOKWRIGHT_RATE_LIMIT_FAIL_OPEN": fail_open},
                )
            )
            for fail_open in ("true", "false")
        )
        client = stack.enter_context(httpx.Client(base_url=api.url, headers=OURS, trust_env=False, timeout=60.0))
        plane.kubectl("create", "namespace", "acme")
        organization = Organization(plane, client, "acme")
        organization.project()
        email = organization.user(UserRole.ADMIN)
        organization.wait_for_user(email)
        creation = Site(plane, operator, postgres, redis, api, closed_replica, client, email, "")
        creation.cookie = creation.log_in(client)
        client.headers["Cookie"] = creation.cookie.partition(";")[0]
        _fill(creation, organization)
        yield creation


def _fill(site: Site, organization: Organization) -> None:
    """Make an endpoint with a delivery, whose receiver does not exist."""
    key = organization.service_key()
    name = organization.webhook(key, "https://127.0.0.1:1/hooks")["id"]
    event = {"type": "delivered", "messageId": "m-1"}
    assert site.client.post("/v1/events", json=event, headers=key).json()["deliveries"] == 1
    rows = site.client.get(f"/v1/webhooks/{name}/deliveries", headers=key).json()["data"]
    site.endpoint = f"{PROJECT}/endpoints/{name}"
    site.delivery = f"{site.endpoint}/deliveries/{rows[0]['id']}"


@contextmanager
def api_server_stopped(site: Site) -> Iterator[None]:
    """Stop the process of the API server inside the context: connections stay open, and no request is answered."""
    pid = next(process.pid for process in site.plane.processes if process.name == "kube-apiserver")
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_the_cookie_is_for_https_and_for_this_host_only(site: Site) -> None:
    """No script reads it, and no request of another site has it."""
    attributes = {part.strip().lower() for part in site.cookie.split(";")[1:]}
    assert site.cookie.startswith("__Host-hookwright_session=")
    assert {"httponly", "secure", "samesite=strict", "path=/"} <= attributes
    assert not [attribute for attribute in attributes if attribute.startswith("domain")]


@pytest.mark.parametrize("part", ["the store", "the operator"])
def test_without_the_operator_or_its_store_the_pages_say_what_is_missing(site: Site, part: str) -> None:
    """Lists come from the view. A change is refused in words, with all that was typed.

    Only a new endpoint remains, because its form repeats the request.
    """
    if part == "the operator":
        site.operator.kill()
    else:
        site.postgres.kill()
    try:
        site.check_basics()
        for path in (
            "/console/?rates=1", f"{PROJECT}/deliveries", f"{site.endpoint}/deliveries", f"{site.endpoint}/statistics",
            f"{site.endpoint}/replays", f"{PROJECT}/start",
        ):  # fmt: skip
            assert AWAY in site.read(path), path
        assert "Billing" in site.read("/console/?rates=1")
        assert "Wait a moment" in site.read(site.delivery, 503)
        for path, fields in (
            (f"{site.delivery}/retry", {}),
            (f"{site.endpoint}/replays", {"period": "1h", "begin": "yes"}),
        ):
            assert AWAY in site.send(path, 503, **fields), path
        # A test and the secret do not need the store.
        alone = 503 if part == "the operator" else 200
        test = {"type": "opened", "payload": "{}"}
        for path, fields in ((f"{site.endpoint}/test", test), (f"{site.endpoint}/secret/reveal", {})):
            assert (AWAY in site.send(path, alone, **fields)) == (part == "the operator"), path
        if part == "the operator":
            fields = {"url": "https://example.com/new", "events": "opened", "description": "An order service"}
            fields |= {"timeout": "15s", "max_in_flight": "8", "format": "json", "request_key": "k" * 32}
            text = site.send(f"{PROJECT}/new-endpoint", 503, **fields)
            assert 'role="alert"' in text
            assert "An order service" in text
            # The form repeats its request, which then returns the endpoint that is being set up.
            assert f'value="{"k" * 32}"' in text
            assert site.read(PROJECT).count("https://example.com/new") == 1
            # A form that was changed is another request; it makes no second endpoint.
            fields["url"] = "https://example.com/other"
            assert "Your first request created the endpoint" in site.send(f"{PROJECT}/new-endpoint", 409, **fields)
            assert "https://example.com/other" not in site.read(PROJECT)
    finally:
        if part == "the operator":
            site.operator.start()
        else:
            site.postgres.start()
    eventually(lambda: site.client.get(site.delivery).status_code == 200, "the log is shown again")


def test_without_the_api_server_pages_show_the_last_state_and_changes_are_refused(site: Site) -> None:
    """A login works, because the view has the users; a form is shown again with a sentence."""
    with api_server_stopped(site):
        site.check_basics()
        for path, fields in (
            (f"{PROJECT}/new-key", {"name": "CI", "scopes": "send", "expires": "30"}),
            ("/console/new-project", {"name": "shop"}),
            (f"{site.endpoint}/suspend", {}),
        ):
            text = site.send(path, 503, **fields)
            assert "The API server is unavailable; nothing was done" in text, path
    eventually(lambda: site.client.get(site.delivery).status_code == 200, "the operator knows the API again")


def test_without_redis_requests_are_counted_here_or_refused_in_words(site: Site) -> None:
    """The setting decides, as for /v1; files have no limit."""
    site.redis.stop()
    try:
        site.check_basics()
        with httpx.Client(base_url=site.closed.url, headers=OURS, trust_env=False, timeout=30.0) as session:
            for path in ("/console/login", "/console/", PROJECT):
                answer = session.get(path, headers={"Cookie": site.client.headers["Cookie"]})
                assert answer.status_code == 503, path
                assert "The rate limit counters are unavailable" in answer.text
                assert "Wait a moment, then reload the page" in answer.text
            for url in URLS:
                assert session.get(url).status_code == 200
    finally:
        site.redis.start()
    eventually(
        lambda: httpx.get(f"{site.closed.url}/console/login", trust_env=False).status_code == 200, "counted again"
    )

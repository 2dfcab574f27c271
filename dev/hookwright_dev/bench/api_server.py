"""The API beside the operator of a benchmark, with a user who is logged in."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx

from hookwright_dev.bench.site import NAMESPACE, Site
from hookwright_dev.cluster.installation import ApiProcess
from hookwright_dev.cluster.stack import EMAIL, PASSWORD, create_user
from hookwright_dev.polling import eventually
from hookwright_dev.processes import ChildProcess

_SETTINGS: Final = {
    **{f"HOOKWRIGHT_RATE_LIMIT_{scope}": "0" for scope in ("IP", "ORGANIZATION", "LOGIN")},
    "HOOKWRIGHT_LOG_FORMAT": "json",
}


@dataclass(frozen=True, slots=True)
class ApiServer:
    """A running API without rate limits.

    Attributes:
        url: the base URL.
        token: of the session of an admin.
    """

    process: ChildProcess
    client: httpx.Client
    url: str
    token: str

    def key(self, project: str) -> dict[str, str]:
        """Create a key of a project, and return its header once the API knows the key."""
        bearer = {"Authorization": f"Bearer {self.token}"}
        path, body = f"/v1/projects/{project}/keys", {"name": "bench"}
        answer = _answer(lambda: self.client.post(path, json=body, headers=bearer), "a key")
        key = {"X-Service-Key": str(answer["key"])}
        _answer(lambda: self.client.get("/v1/webhooks", headers=key), "a list with the key")
        return key


@contextmanager
def serving(site: Site) -> Iterator[ApiServer]:
    """Run the API, and log in as a new user of the site's namespace."""
    create_user(site.plane, NAMESPACE)
    api = ApiProcess(site.plane, site.folder / "api", site.operator.intake_url, _SETTINGS)
    with api, httpx.Client(base_url=api.url, timeout=30.0, trust_env=False) as client:
        login = {"email": EMAIL, "password": PASSWORD}
        session = _answer(lambda: client.post("/v1/auth/login", json=login), "a session")
        yield ApiServer(api.running, client, api.url, str(session["token"]))


def _answer(ask: Callable[[], httpx.Response], subject: str) -> dict[str, Any]:
    """Repeat a request until its answer is good, because the API's view follows the cluster's."""

    def read() -> dict[str, Any]:
        answer = ask()
        return dict(answer.json()) if answer.is_success else {}

    return eventually(read, subject)

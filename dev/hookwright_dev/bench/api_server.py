"""The API beside the operator of a benchmark, with a user who is logged in."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx

from hookwright_dev.bench.site import NAMESPACE, Site
from hookwright_dev.cluster.installation import ApiProcess
from hookwright_dev.errors import BenchError
from hookwright_dev.processes import ChildProcess

_EMAIL: Final = "ada@example.com"
_PASSWORD: Final = "correct horse battery staple"  # noqa: S105 - of a cluster that exists for a minute
_PATIENCE: Final = 30.0
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
        answer = _eventually(
            self.process,
            lambda: self.client.post(f"/v1/projects/{project}/keys", json={"name": "bench"}, headers=bearer),
        )
        key = {"X-Service-Key": str(answer["key"])}
        _eventually(self.process, lambda: self.client.get("/v1/webhooks", headers=key))
        return key


@contextmanager
def serving(site: Site) -> Iterator[ApiServer]:
    """Run the API, and log in as a new user of the site's namespace.

    Raises:
        BenchError: the API does not answer.
    """
    api = ApiProcess(site.plane, site.folder / "api", site.operator.intake_url, _SETTINGS)
    api.start()
    try:
        _create_user(site)
        with httpx.Client(base_url=api.url, timeout=_PATIENCE, trust_env=False) as client:
            login = {"email": _EMAIL, "password": _PASSWORD}
            session = _eventually(api.running, lambda: client.post("/v1/auth/login", json=login))
            yield ApiServer(api.running, client, api.url, str(session["token"]))
    finally:
        api.running.stop()


def _create_user(site: Site) -> None:
    process = subprocess.run(
        [
            sys.executable,
            "-m",
            "hookwright_cli",
            "--way=kubeconfig",
            "users",
            "create",
            _EMAIL,
            "--organization",
            NAMESPACE,
        ],
        input=f"{_PASSWORD}\n",
        env={**os.environ, "KUBECONFIG": str(site.plane.kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode != 0:
        raise BenchError(f"the user was not created: {process.stderr}")


def _eventually(process: ChildProcess, ask: Callable[[], httpx.Response]) -> dict[str, Any]:
    """Repeat a request until its answer is good, because the API's view follows the cluster's."""
    deadline = time.monotonic() + _PATIENCE
    words = ""
    while process.running and time.monotonic() < deadline:
        try:
            answer = ask()
        except httpx.TransportError as error:
            words = type(error).__name__
        else:
            if answer.is_success:
                good: dict[str, Any] = answer.json()
                return good
            words = f"{answer.status_code} {answer.text}"
        time.sleep(0.1)
    raise BenchError(f"the API did not answer as expected: {words}\n{process.tail()}")

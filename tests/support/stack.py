"""The stack of a test process: one operator and one API on its cluster, started when a test first needs them.

Only one operator at a time reconciles a cluster. So a module with other settings, or one that starts operators of its
own, stops the operator of the modules before it. Modules of one folder follow each other, so this happens seldom.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from hookwright_dev.cluster.assets import Assets
from hookwright_dev.cluster.control_plane import ControlPlane
from hookwright_dev.cluster.installation import ApiProcess, OperatorProcess, install
from hookwright_dev.cluster.kubectl import Cluster
from hookwright_dev.cluster.stack import CRDS
from hookwright_dev.processes import tail

LIFTED: Final = {
    "HOOKWRIGHT_RATE_LIMIT_IP": "0",
    "HOOKWRIGHT_RATE_LIMIT_ORGANIZATION": "0",
    "HOOKWRIGHT_RATE_LIMIT_LOGIN": "0",
    "HOOKWRIGHT_RATE_LIMIT_LOGIN_EMAIL": "0",
}
"""Settings of an API without rate limits."""

OPERATOR: Final = {"HOOKWRIGHT_STATUS_INTERVAL": "1", "HOOKWRIGHT_LOG_FORMAT": "json"}
API: Final = LIFTED | {"HOOKWRIGHT_TRUSTED_PROXIES": "127.0.0.0/8", "HOOKWRIGHT_LOG_FORMAT": "json"}

QUICK_RETRY: Final = OPERATOR | {"HOOKWRIGHT_RETRY_SCHEDULE": "100ms"}
PASSWORD_CHANGE: Final = API | {"HOOKWRIGHT_PASSWORD_CHANGE": "true"}
"""For the console and the command line: deliveries fail after one retry, and users may change their passwords."""


@dataclass(slots=True)
class Stack:
    """The operator and the API of this test process.

    Attributes:
        cluster: their cluster.
        folder: for files of both.
    """

    cluster: Cluster
    folder: Path
    _operator: OperatorProcess | None = field(default=None, init=False)
    _api: ApiProcess | None = field(default=None, init=False)
    _starts: int = field(default=0, init=False)

    def operator(self, settings: Mapping[str, str] = OPERATOR) -> OperatorProcess:
        """Return the running operator; start it, or start it again if its settings differ."""
        if self._operator is not None and self._operator.settings == settings and self._operator.running.running:
            return self._operator
        self.stop()
        operator = OperatorProcess(self.cluster, self._new_folder("operator"), settings)
        operator.start()
        self._operator = operator
        return operator

    def api(self, operator: OperatorProcess, settings: Mapping[str, str] = API) -> ApiProcess:
        """Return the running API of the operator; start it, or start it again if its settings differ."""
        if self._api is not None and self._api.settings == settings and self._api.running.running:
            return self._api
        self._stop_api()
        api = ApiProcess(self.cluster, self._new_folder("api"), operator.intake_url, settings)
        api.start()
        self._api = api
        return api

    def stop(self) -> None:
        """Stop both processes. The operator must end with 0, and its log must have no traceback."""
        self._stop_api()
        if self._operator is not None:
            operator, self._operator = self._operator, None
            code = operator.stop()
            assert code == 0, tail(operator.log, 60)
            assert "Traceback" not in operator.log.read_text(), operator.log.read_text()

    def _new_folder(self, process: str) -> Path:
        self._starts += 1
        return self.folder / f"{process}-{self._starts}"

    def _stop_api(self) -> None:
        if self._api is not None:
            api, self._api = self._api, None
            api.stop()


@contextmanager
def installed_plane(assets: Assets, **options: Any) -> Iterator[ControlPlane]:
    """Run a control plane with the kinds of ``crds/`` and the objects of an installation."""
    with ControlPlane.start(assets=assets, crds=CRDS, **options) as plane:
        install(plane)
        yield plane


@pytest.fixture(scope="module")
def plane(assets: Assets) -> Iterator[ControlPlane]:
    """Yield a control plane of the module alone, whose requests it may count, and whose API server it may stop."""
    with installed_plane(assets) as plane:
        yield plane


@pytest.fixture(scope="session")
def stack(shared_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Yield the stack of this test process; nothing is started yet."""
    stack = Stack(shared_cluster, tmp_path_factory.mktemp("stack"))
    yield stack
    stack.stop()


@pytest.fixture(scope="module")
def control_plane(stack: Stack) -> Cluster:
    """Return the cluster of this test process, on which no operator runs now."""
    stack.stop()
    return stack.cluster

"""Hookwright on this machine: a real control plane with operator and API, and `.dev/env` with their addresses."""

import contextlib
import json
import os
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hookwright_api.auth.passwords import hash_password
from hookwright_crds.users import user_secret
from hookwright_dev.cluster.control_plane import ControlPlane
from hookwright_dev.cluster.installation import (
    AUDIENCE,
    SYSTEM_NAMESPACE,
    USERS_NAMESPACE,
    ApiProcess,
    OperatorProcess,
    deletion_policies,
    install,
    service_account_token,
)
from hookwright_dev.cluster.kubectl import Cluster
from hookwright_dev.errors import ProcessError
from hookwright_dev.progress import progress

ROOT: Final = Path(__file__).resolve().parents[3]
CRDS: Final = ROOT / "crds"
EXAMPLES: Final = ROOT / "examples"
RECEIVER: Final = "127.0.0.1:8900"
"""Address of the receivers on this machine, which replace example.com."""
APPLY_EXAMPLES: Final = f"sed 's|https://example.com|http://{RECEIVER}|' examples/*.yaml | kubectl apply -f -"
DEV: Final = Path(os.environ.get("HOOKWRIGHT_DEV_FOLDER", ROOT / ".dev"))
"""Folder of the running processes' files; tests use another one, to avoid a developer's running processes."""
ENV_FILE: Final = DEV / "env"
EMAIL: Final = "ada@example.com"
PASSWORD: Final = "correct horse battery staple"  # noqa: S105 - of a user who exists only on this machine
ORGANIZATION: Final = "acme"
"""The login of the console, and its organization, which is that of the examples."""
RESTART_SECONDS: Final = 10.0
"""Seconds before an ended process is restarted: the kubelet's first delay after a crash."""


def shown(path: Path) -> Path:
    """Return a path as a user would type it in the checkout."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def local_examples() -> str:
    """Return the YAML of examples/ with receivers on this machine, as `APPLY_EXAMPLES` makes it."""
    texts = [path.read_text() for path in sorted(EXAMPLES.glob("*.yaml"))]
    return "".join(texts).replace("https://example.com", f"http://{RECEIVER}")


@dataclass(frozen=True, slots=True)
class Stack:
    """Running processes.

    Attributes:
        token: may send events for every project, and use the rest of the intake.
    """

    plane: ControlPlane
    operator: OperatorProcess
    api: ApiProcess
    token: str

    def environment(self) -> dict[str, str]:
        """Return the variables with the addresses and credentials of the running processes."""
        return {
            "KUBECONFIG": str(self.plane.kubeconfig),
            "HOOKWRIGHT_INTAKE_URL": self.operator.intake_url,
            "HOOKWRIGHT_INTAKE_TOKEN": self.token,
            "HOOKWRIGHT_METRICS_URL": f"{self.operator.health_url}/metrics",
            "HOOKWRIGHT_PID": str(self.operator.running.pid),
            "HOOKWRIGHT_API_URL": self.api.url,
            "HOOKWRIGHT_API_METRICS_URL": f"{self.api.health_url}/metrics",
            "HOOKWRIGHT_API_PID": str(self.api.running.pid),
            "HOOKWRIGHT_KEYRING": "off",
        }

    def write_env(self) -> None:
        """Write `.dev/env`, readable only by this user, because it contains a token."""
        lines = [f"export {name}={shlex.quote(value)}" for name, value in self.environment().items()]
        # The commands of README must not depend on an earlier login or key, so each shell has contexts of its own.
        lines.append(f"export HOOKWRIGHT_CONFIG_FOLDER={shlex.quote(str(DEV / 'config'))}/$$")
        lines.append("unset HOOKWRIGHT_API_KEY HOOKWRIGHT_CONTEXT HOOKWRIGHT_PROJECT")
        lines.append(f'export PATH={shlex.quote(str(self.plane.assets.kubectl.parent))}:"$PATH"')
        draft = ENV_FILE.with_suffix(".new")
        draft.unlink(missing_ok=True)
        draft.touch(mode=0o600)
        draft.write_text("\n".join(lines) + "\n")
        draft.rename(ENV_FILE)


def create_user(cluster: Cluster, organization: str) -> None:
    """Create the user of `EMAIL` and `PASSWORD` in an organization."""
    password_hash = hash_password(PASSWORD)
    user = user_secret(USERS_NAMESPACE, email=EMAIL, organization=organization, password_hash=password_hash)
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(user))


def console_hint(stack: Stack) -> str:
    """Return the address of the console, with a login that this creates."""
    create_user(stack.plane, ORGANIZATION)
    return f"The console: {stack.api.url}/console/   email {EMAIL}   password {PASSWORD}"


class Keeper:
    """Restarts operator and API some time after they end, as a kubelet does."""

    def __init__(self, stack: Stack, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stack, self._clock = stack, clock
        self._ended_at: dict[str, float] = {}

    def look(self) -> None:
        """Record which processes have ended, and restart those that ended long enough ago."""
        for name, process in (("operator", self._stack.operator), ("API", self._stack.api)):
            if process.running.running:
                continue
            if name not in self._ended_at:
                self._ended_at[name] = self._clock()
                print(f"the {name} ended; it is restarted in {RESTART_SECONDS:g} s", flush=True)
            elif self._clock() - self._ended_at[name] >= RESTART_SECONDS:
                del self._ended_at[name]
                self._start(name, process)

    def _start(self, name: str, process: OperatorProcess | ApiProcess) -> None:
        try:
            process.start()
        except ProcessError as error:
            print(f"the {name} could not be started: {error}", flush=True)
        else:
            self._stack.write_env()
            print(f"the {name} runs again, as process {process.running.pid}", flush=True)


@contextlib.contextmanager
def running(settings: Mapping[str, str]) -> Iterator[Stack]:
    """Start everything, and stop it at the end of the block, also after an error.

    Args:
        settings: HOOKWRIGHT_* variables for the processes; those of this process's environment override them.
    """
    DEV.mkdir(exist_ok=True)
    with ControlPlane.start(DEV / "controlplane", crds=CRDS) as plane:
        ENV_FILE.unlink(missing_ok=True)
        install(plane)
        plane.kubectl("apply", "-f", "-", stdin=deletion_policies())
        variables = {name: value for name, value in settings.items() if name not in os.environ}
        for folder in (DEV / "operator", DEV / "api", DEV / "config"):
            shutil.rmtree(folder, ignore_errors=True)
        operator = OperatorProcess(plane, DEV / "operator", variables)
        api = ApiProcess(plane, DEV / "api", operator.intake_url, variables)
        try:
            with progress("starting operator and API"):
                operator.start()
                api.start()
            token = service_account_token(plane, "hookwright-producer", namespace=SYSTEM_NAMESPACE, audience=AUDIENCE)
            yield Stack(plane, operator, api, token)
        finally:
            ENV_FILE.unlink(missing_ok=True)
            for process in (api, operator):
                if process.process is not None:
                    process.stop()

"""Hookwright on this machine: a real control plane with operator and API on it, and `.dev/env` to find them by."""

import contextlib
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hookwright_dev.controlplane import ControlPlane
from hookwright_dev.errors import ProcessError
from hookwright_dev.installation import (
    AUDIENCE,
    SYSTEM_NAMESPACE,
    ApiProcess,
    OperatorProcess,
    install,
    service_account_token,
)
from hookwright_dev.progress import progress

ROOT: Final = Path(__file__).resolve().parents[2]
CRDS: Final = ROOT / "crds"
EXAMPLES: Final = ROOT / "examples"
DEV: Final = Path(os.environ.get("HOOKWRIGHT_DEV_FOLDER", ROOT / ".dev"))
"""Where what runs keeps its files; tests name another folder, so as not to meet what a developer has running."""
ENV_FILE: Final = DEV / "env"
RESTART_SECONDS: Final = 10.0
"""How long an ended process stays away: the kubelet's first delay after a crash."""


def shown(path: Path) -> Path:
    """Return a path as a person in the checkout would write it."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


@dataclass(frozen=True, slots=True)
class Stack:
    """What runs.

    Attributes:
        token: may send events for every project, and use the rest of the intake.
    """

    plane: ControlPlane
    operator: OperatorProcess
    api: ApiProcess
    token: str

    def environment(self) -> dict[str, str]:
        """Return the variables by which shells and programs find what runs."""
        return {
            "KUBECONFIG": str(self.plane.kubeconfig),
            "HOOKWRIGHT_INTAKE_URL": self.operator.intake_url,
            "HOOKWRIGHT_INTAKE_TOKEN": self.token,
            "HOOKWRIGHT_METRICS_URL": f"{self.operator.health_url}/metrics",
            "HOOKWRIGHT_PID": str(self.operator.running.pid),
            "HOOKWRIGHT_API_URL": self.api.url,
            "HOOKWRIGHT_API_METRICS_URL": f"{self.api.health_url}/metrics",
            "HOOKWRIGHT_API_PID": str(self.api.running.pid),
            "HOOKWRIGHT_USER_COMMAND": str(Path(sys.executable).with_name("hookwright-user")),
        }

    def write_env(self) -> None:
        """Write `.dev/env`, readable by this user alone, for it holds a token."""
        lines = [f"export {name}={shlex.quote(value)}" for name, value in self.environment().items()]
        lines.append(f'export PATH={shlex.quote(str(self.plane.assets.kubectl.parent))}:"$PATH"')
        draft = ENV_FILE.with_suffix(".new")
        draft.unlink(missing_ok=True)
        draft.touch(mode=0o600)
        draft.write_text("\n".join(lines) + "\n")
        draft.rename(ENV_FILE)


class Keeper:
    """Starts operator and API again when they end, a while after, as a kubelet does."""

    def __init__(self, stack: Stack, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stack, self._clock = stack, clock
        self._ended_at: dict[str, float] = {}

    def look(self) -> None:
        """Note which processes have ended, and start those again that ended long enough ago."""
        for name, process in (("operator", self._stack.operator), ("API", self._stack.api)):
            if process.running.running:
                continue
            if name not in self._ended_at:
                self._ended_at[name] = self._clock()
                print(f"the {name} ended; it is started again in {RESTART_SECONDS:g} s", flush=True)
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
    """Start everything, and stop it when the block ends, however it ends.

    Args:
        settings: HOOKWRIGHT_* variables for the processes; those of this process's environment come first.
    """
    DEV.mkdir(exist_ok=True)
    with ControlPlane.start(DEV / "controlplane", crds=CRDS) as plane:
        ENV_FILE.unlink(missing_ok=True)
        install(plane)
        chosen = {name: value for name, value in settings.items() if name not in os.environ}
        for folder in (DEV / "operator", DEV / "api"):
            shutil.rmtree(folder, ignore_errors=True)
        operator = OperatorProcess(plane, DEV / "operator", chosen)
        api = ApiProcess(plane, DEV / "api", operator.intake_url, chosen)
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

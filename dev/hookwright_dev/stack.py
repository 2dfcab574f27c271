"""Hookwright on this machine: a real control plane with operator and API on it, and `.dev/env` to find them by."""

import contextlib
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hookwright_dev.controlplane import ControlPlane
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
DEV: Final = ROOT / ".dev"
ENV_FILE: Final = DEV / "env"


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

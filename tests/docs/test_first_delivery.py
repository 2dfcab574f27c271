"""The first delivery on this machine runs as printed, beside `make up`."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.pages import section
from support.polling import eventually

from hookwright_dev.cluster.stack import ROOT
from hookwright_dev.processes import ChildProcess, free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Yield the folder that has the file ``env`` while the processes of `make up` run."""
    argv = [sys.executable, "-m", "hookwright_dev", "up"]
    environment = {**os.environ, "HOOKWRIGHT_DEV_FOLDER": str(tmp_path / "dev")}
    with ChildProcess.start("make up", argv, log=tmp_path / "up.log", env=environment) as up:
        eventually((tmp_path / "dev" / "env").exists, "make up is ready", within=180)
        yield tmp_path
        up.stop(grace=60.0)


def test_the_first_delivery_runs_as_printed(folder: Path) -> None:
    """A fresh start, the examples, a delivery, then the client's commands; the kubeconfig is used again afterwards."""
    _, first, second = section("first-delivery.md", "On your machine").blocks
    # The last command runs until Ctrl-C, and its receiver is one of the reader.
    first = re.sub(r"^.*hookwright listen .*\n", "", first, flags=re.MULTILINE)
    again = ". .dev/env\nkubectl get validatingadmissionpolicy hookwright-delete-projects\n.venv/bin/hookwright whoami"
    script = f"set -euo pipefail\ntrap 'kill $(jobs -p) || true' EXIT\n{first}\n{second}\nbash -euc '{again}'\n"
    for value, here in (
        (".venv/bin/", f"{Path(sys.executable).parent}/"),
        (". .dev/env", f". {folder}/dev/env"),
        ("/tmp/orders-secret", f"{folder}/orders-secret"),  # noqa: S108 - of the page
        ("8900", str(free_port())),
    ):
        assert value in script
        script = script.replace(value, here)
    earlier = {**os.environ, "HOOKWRIGHT_CONTEXT": "prod", "HOOKWRIGHT_API_KEY": "hw_k7q2m9x0a3b5_secret"}
    result = subprocess.run(
        ["bash", "-c", script], cwd=ROOT, env=earlier, capture_output=True, text=True, timeout=200, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "signatures good" in result.stdout
    assert "test of orders delivered: HTTP 200" in result.stdout
    assert re.search(r"endpoint wh-\w+ deleted", result.stdout)
    assert re.search(r"Way: +kubeconfig", result.stdout)

"""The command line installed alone: in a new virtual environment, without a package of the server."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hookwright_dev.command_artefacts import build_wheel

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_the_wheel_works_alone(tmp_path: Path) -> None:
    """The dependencies of the wheel suffice, and no package of the server is one of them."""
    wheel = build_wheel(tmp_path)
    folder = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    uv = Path(sys.executable).with_name("uv")
    python = folder / "bin" / "python"
    subprocess.run([str(uv), "pip", "install", "--quiet", "--python", str(python), str(wheel)], check=True)
    listed = subprocess.run(
        [str(uv), "pip", "list", "--python", str(python), "--format=freeze"], capture_output=True, text=True, check=True
    )
    packages = {line.partition("==")[0] for line in listed.stdout.splitlines()}
    assert "hookwright-cli" in packages
    assert not packages & {"hookwright", "fastapi", "sqlalchemy", "kopf", "starlette", "uvicorn"}
    for name in ("hookwright", "kubectl-hookwright"):
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        shown = subprocess.run(
            [str(folder / "bin" / name), "--help"], capture_output=True, text=True, check=True, env=environment
        )
        assert "deliveries" in shown.stdout

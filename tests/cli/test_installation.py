"""The command line installed alone: in a new virtual environment, without a package of the server."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hookwright_dev.command_artefacts import build_wheel

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
SERVER = ("fastapi", "sqlalchemy", "kopf", "starlette", "hookwright_crds", "hookwright_runtime", "hookwright_api")
HEAVY = ("kubernetes", "httpx", "keyring", "yaml")


def test_the_wheel_works_alone_and_help_imports_nothing_heavy(tmp_path: Path) -> None:
    """The dependencies of the wheel suffice for each command, and --help imports none of the slow ones."""
    wheel = build_wheel(tmp_path)
    folder = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    uv = Path(sys.executable).with_name("uv")
    python = folder / "bin" / "python"
    subprocess.run([str(uv), "pip", "install", "--quiet", "--python", str(python), str(wheel)], check=True)
    result = subprocess.run(
        [str(uv), "pip", "list", "--python", str(python), "--format=freeze"], capture_output=True, text=True, check=True
    )
    packages = {line.partition("==")[0] for line in result.stdout.splitlines()}
    assert "hookwright-cli" in packages
    assert not packages & {"hookwright", "fastapi", "sqlalchemy", "kopf", "starlette", "uvicorn"}
    for name in ("hookwright", "kubectl-hookwright"):
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        outcome = subprocess.run(
            [str(folder / "bin" / name), "--help"], capture_output=True, text=True, check=True, env=environment
        )
        assert "deliveries" in outcome.stdout
    program = f"""
import sys
from hookwright_cli.command_line import app
app(["--help"], standalone_mode=False)
print("IMPORTED", [name for name in {[*SERVER, *HEAVY]!r} if name in sys.modules])"""
    run = subprocess.run([str(python), "-c", program], capture_output=True, text=True, check=True)
    assert "IMPORTED []" in run.stdout

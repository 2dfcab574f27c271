"""Processes under limits of open files: each raises its soft limit, or refuses to start in words."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hookwright_api.__main__ import open_files as open_files_of_api
from hookwright_api.settings import ApiSettings
from hookwright_operator.process import open_files
from hookwright_operator.settings import OperatorSettings

SCALING = Path(__file__).resolve().parents[2] / "docs/scaling.md"
PROGRAM = (
    "import resource; from hookwright_runtime.descriptors import ensure_open_files;"
    "ensure_open_files(1024, bounds='SETTING'); print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
)
REDIS = {"HOOKWRIGHT_RATE_LIMIT_URL": "redis://127.0.0.1:1"}
RECONCILES = {"HOOKWRIGHT_ROLES": "reconcile", "HOOKWRIGHT_DATABASE_URL": "postgresql://127.0.0.1:1/hookwright"}
PROCESSES = [
    pytest.param("operator", {}, 10_080, id="operator"),
    pytest.param("operator", {"HOOKWRIGHT_WATCH_NAMESPACES": "acme,globex"}, 10_094, id="two namespaces"),
    pytest.param("operator", {"HOOKWRIGHT_MAX_IN_FLIGHT": "80"}, 5_536, id="few attempts"),
    pytest.param("operator", RECONCILES, 288, id="only the role reconcile"),
    pytest.param("api", {}, 4_936, id="api"),
    pytest.param("api", REDIS, 9_032, id="api with a shared counter"),
]


@pytest.mark.parametrize("limits", ["256:1024", "1024:1024", "256:8192"])
def test_the_soft_limit_is_raised_to_the_hard_one(limits: str) -> None:
    """A separate process runs the check, because a lowered hard limit stays low."""
    argv = ["prlimit", f"--nofile={limits}", sys.executable, "-c", PROGRAM]
    result = subprocess.run(argv, capture_output=True, text=True, check=True)
    hard = limits.partition(":")[2]
    assert result.stdout.split() == [hard, hard]


@pytest.mark.parametrize(("name", "environment", "needed"), PROCESSES)
def test_a_process_refuses_to_start_below_its_least_limit(
    name: str, environment: dict[str, str], needed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It exits with the sentence and status 2 before it opens anything; the sentence names the settings to lower."""
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    count = open_files(OperatorSettings.load()) if name == "operator" else open_files_of_api(ApiSettings.load())
    assert count == needed
    limit = needed - 1
    result = subprocess.run(
        ["prlimit", f"--nofile={limit}:{limit}", sys.executable, "-m", f"hookwright_{name}"],
        env=os.environ, capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip
    assert result.returncode == 2
    assert result.stderr.startswith(
        f"hookwright-{name}: the system allows this process {limit} open files; it needs {needed}: raise the limit"
    )
    assert "CONNECTIONS" in result.stderr


def test_the_documentation_has_the_least_limits() -> None:
    """docs/scaling.md has the numbers for the default settings."""
    text = SCALING.read_text()
    shared_hook = ApiSettings(rate_limit_url=REDIS["HOOKWRIGHT_RATE_LIMIT_URL"])
    counts = open_files(OperatorSettings()), open_files_of_api(ApiSettings()), open_files_of_api(shared_hook)
    for count in counts:
        assert f"{count:,}" in text

"""Processes under limits of file descriptors: each raises its soft limit, or refuses to start in words."""

import os
import subprocess
import sys

import pytest

PROGRAM = (
    "from hookwright_runtime.descriptors import *;"
    "before = descriptor_limit();"
    "print(before, raise_descriptor_limit(), connections_that_fit(4096, beside={beside}, each={each}))"
)


@pytest.mark.parametrize(
    ("limits", "beside", "each", "expected"),
    [
        pytest.param("256:1024", 600, 1, "256 1024 424", id="fewer fit"),
        pytest.param("256:1024", 600, 2, "256 1024 212", id="each needs another descriptor"),
        pytest.param("1024:8192", 600, 1, "1024 8192 4096", id="as many as are wanted"),
        pytest.param("664:664", 600, 1, "664 664 64", id="the least number"),
    ],
)
def test_the_limit_is_raised_and_connections_stay_below_it(limits: str, beside: int, each: int, expected: str) -> None:
    """A separate process runs the check, because a lowered limit stays low."""
    argv = ["prlimit", f"--nofile={limits}", sys.executable, "-c", PROGRAM.format(beside=beside, each=each)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected


@pytest.mark.parametrize(
    ("settings", "limit", "least"),
    [({}, 903, 904), ({"HOOKWRIGHT_RATE_LIMIT_URL": "redis://127.0.0.1:1"}, 967, 968)],
    ids=["memory", "redis"],
)
def test_the_api_refuses_to_start_below_the_least_limit(settings: dict[str, str], limit: int, least: int) -> None:
    """The process exits with the sentence and status 2 before it opens anything."""
    ended = _started("hookwright_api", limit, settings)
    assert ended.returncode == 2
    assert ended.stderr.startswith(
        f"hookwright-api: the system allows this process {limit} open files; it needs at least {least}: raise the limit"
    )


def test_the_operator_refuses_to_start_with_a_bound_that_does_not_fit() -> None:
    """The process exits with the sentence and status 2 before it opens anything."""
    ended = _started("hookwright_operator", 1024, {"HOOKWRIGHT_MAX_IN_FLIGHT": "1024"})
    assert ended.returncode == 2
    assert ended.stderr.startswith("hookwright-operator: HOOKWRIGHT_MAX_IN_FLIGHT is 1024 and needs 7007 open files")


def _started(module: str, limit: int, settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["prlimit", f"--nofile={limit}:{limit}", sys.executable, "-m", module],
        env={**os.environ, **settings}, capture_output=True, text=True, timeout=150, check=False,
    )  # fmt: skip

"""The budget of file descriptors: the uses fit together, and too small a limit has a clear error."""

import os
import resource
import subprocess
import sys

import pytest

from hookwright_operator.descriptors import OWN, Budget, budget, fit, idle_connections
from hookwright_operator.errors import SettingsError

SMALL = budget(1024)


@pytest.mark.parametrize("limit", [0, 100, 385, 1024, 4480, 20_000, 1_048_576])
def test_the_uses_never_exceed_the_limit(limit: int) -> None:
    """Two sockets for each attempt, the idle connections, the intake and the process itself fit together."""
    available = budget(limit)
    total = 2 * available.attempts + available.idle + available.intake
    assert total <= max(0, limit - OWN)
    assert available.limit == limit


def test_the_budget_follows_the_limit_of_the_process() -> None:
    """Without an argument the soft limit counts."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert budget() == budget(soft)


def test_a_declared_bound_that_does_not_fit_is_refused_with_both_values() -> None:
    """The error names the setting, its value, the limit, and the values that fit."""
    with pytest.raises(SettingsError) as refused:
        fit(1024, SMALL, declared=True)
    for words in ("HOOKWRIGHT_MAX_IN_FLIGHT is 1024", "allows this process 1024", "set it to 160 or less", "to 4480"):
        assert words in str(refused.value)
    assert fit(160, SMALL, declared=True) == 160
    assert fit(1024, budget(4480), declared=True) == 1024


def test_a_default_that_does_not_fit_is_lowered() -> None:
    """An installation without settings starts under a small limit too."""
    assert fit(1024, SMALL, declared=False) == SMALL.attempts == 160


def test_a_limit_that_allows_no_attempt_is_refused() -> None:
    """The error names the smallest limit."""
    with pytest.raises(SettingsError, match="allows this process 200 open files; it needs at least 388"):
        fit(1, budget(200), declared=False)


@pytest.mark.parametrize(
    ("max_in_flight", "available", "kept"),
    [(8, budget(20_000), 256), (2000, budget(20_000), 2000), (8, SMALL, 160), (1024, Budget(9, 9, 9, 9), 9)],
)
def test_idle_connections_are_as_many_as_attempts_within_the_budget(
    max_in_flight: int, available: Budget, kept: int
) -> None:
    """A small bound on attempts still keeps connections; a small limit of open files keeps fewer."""
    assert idle_connections(max_in_flight, available) == kept


def _operator(environment: dict[str, str], *, hard: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", f"ulimit -n {hard} && exec {sys.executable} -m hookwright_operator"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def test_the_operator_refuses_to_start_with_a_bound_that_does_not_fit() -> None:
    """The process exits with the sentence and status 2 before it opens anything."""
    ended = _operator({"HOOKWRIGHT_MAX_IN_FLIGHT": "1024"}, hard=1024)
    assert ended.returncode == 2
    assert ended.stderr.startswith("hookwright-operator: HOOKWRIGHT_MAX_IN_FLIGHT is 1024 and needs 4480 open files")


def test_the_operator_raises_the_soft_limit_to_the_hard_limit() -> None:
    """A small soft limit makes no difference."""
    program = (
        "import resource; from hookwright_runtime.descriptors import raise_descriptor_limit; "
        "print(raise_descriptor_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    shown = subprocess.run(
        ["/bin/sh", "-c", f'ulimit -Sn 500 && ulimit -Hn 4000 && exec {sys.executable} -c "{program}"'],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert shown.stdout.split() == ["4000", "4000", "4000"]

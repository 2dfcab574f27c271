"""The budget of file descriptors: the uses fit together, and too small a limit has a clear error."""

import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwright_operator.delivery.descriptor_budget import (
    LISTENERS,
    PROCESS,
    WATCHES,
    DescriptorBudget,
    budget,
    fit,
    idle_connections,
)
from hookwright_operator.delivery.http.resolver import SOCKETS
from hookwright_runtime.bounds import LOOKUPS, TESTS
from hookwright_runtime.descriptors import LEAST_CONNECTIONS
from hookwright_runtime.errors import SettingsError

SMALL = budget(1024)


def most(one: DescriptorBudget) -> int:
    """Return how many descriptors the process has open if each use is at its bound."""
    sockets = SOCKETS * (one.attempts + one.tests)
    return one.own + one.lookups + sockets + one.idle + one.intake


@pytest.mark.parametrize(
    ("limit", "namespaces", "divided"),
    [
        pytest.param(516, 0, (64, 8, 0, 64), id="too small"),
        pytest.param(517, 0, (64, 8, 1, 64), id="the smallest"),
        pytest.param(1024, 0, (128, 16, 80, 80), id="an old default"),
        pytest.param(1024, 30, (128, 16, 59, 64), id="watches of 30 namespaces"),
        pytest.param(2048, 0, (256, 32, 218, 218), id="all look-ups"),
        pytest.param(4096, 0, (256, 64, 538, 538), id="all look-ups and tests"),
        pytest.param(7007, 0, (256, 64, 1024, 1023), id="the default of HOOKWRIGHT_MAX_IN_FLIGHT"),
        pytest.param(1_048_576, 0, (256, 64, 174_618, 174_618), id="a container runtime's default"),
    ],
)
def test_the_descriptors_are_divided(limit: int, namespaces: int, divided: tuple[int, int, int, int]) -> None:
    """Look-ups and tests shrink with the limit, and the intake has its least number of connections."""
    available = budget(limit, namespaces=namespaces)
    lookups, tests, attempts, intake = divided
    assert available[2:] == (lookups, tests, attempts, attempts, intake)
    assert available.own == PROCESS + LISTENERS + WATCHES * namespaces
    assert available.reduced == (lookups < LOOKUPS.at_once or tests < TESTS.total)


def test_the_table_of_the_documentation_is_correct() -> None:
    """Each row of docs/scaling.md is a limit with what it allows."""
    text = (Path(__file__).resolve().parents[4] / "docs/scaling.md").read_text()
    _, _, table = text.partition("| Open files | Look-ups | Tests | Attempts | Connections of the intake |\n")
    rows = [row.replace(",", "").split("|")[1:-1] for row in table.partition("\n\n")[0].splitlines()[1:]]
    assert len(rows) == 5
    for limit, *divided in [[int(cell) for cell in row] for row in rows]:
        available = budget(limit)
        assert divided == [available.lookups, available.tests, available.attempts, available.intake]


@given(st.integers(0, 20_000), st.integers(0, 200))
def test_the_uses_at_their_bounds_never_exceed_a_limit_that_is_accepted(limit: int, namespaces: int) -> None:
    """Sockets of attempts and tests, look-ups, connections, listeners and the process itself fit together."""
    divided = budget(limit, namespaces=namespaces)
    if divided.attempts:
        assert most(divided) <= limit
        assert divided.intake >= LEAST_CONNECTIONS
        assert min(divided.idle, divided.lookups, divided.tests) >= 1
    else:
        with pytest.raises(SettingsError, match=f"allows this process {limit} open files"):
            fit(1, divided, declared=False)


def test_the_budget_follows_the_limit_of_the_process() -> None:
    """Without an argument the soft limit counts."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert budget() == budget(soft)


def test_a_declared_bound_that_does_not_fit_is_refused_with_both_values() -> None:
    """The error names the setting, its value, the limit, and the values that fit."""
    with pytest.raises(SettingsError) as refused:
        fit(1024, SMALL, declared=True)
    for words in ("HOOKWRIGHT_MAX_IN_FLIGHT is 1024", "allows this process 1024", "set it to 80 or less", "to 7007"):
        assert words in str(refused.value)
    assert fit(80, SMALL, declared=True) == 80
    assert fit(1024, budget(7007), declared=True) == 1024


def test_a_default_that_does_not_fit_is_lowered() -> None:
    """An installation without settings starts under a small limit too."""
    assert fit(1024, SMALL, declared=False) == SMALL.attempts == 80


def test_a_limit_that_allows_no_attempt_is_refused() -> None:
    """The error names the smallest limit."""
    with pytest.raises(SettingsError, match="allows this process 200 open files; it needs at least 517"):
        fit(1, budget(200), declared=False)


@pytest.mark.parametrize(
    ("max_in_flight", "available", "kept"),
    [(8, budget(20_000), 256), (2000, budget(20_000), 2000), (8, SMALL, 80), (1024, SMALL, 80)],
)
def test_idle_connections_are_as_many_as_attempts_within_the_budget(
    max_in_flight: int, available: DescriptorBudget, kept: int
) -> None:
    """A small bound on attempts still keeps connections; a small limit of open files keeps fewer."""
    assert idle_connections(max_in_flight, available) == kept

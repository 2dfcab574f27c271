"""The next step with orphans, as a table."""

import pytest

from hookwright_operator.store.orphans import OrphanPlan, plan_orphans

NONE: frozenset[str] = frozenset()
A = frozenset({"a"})


@pytest.mark.parametrize(
    ("found", "since", "grace_ms", "expected"),
    [
        pytest.param(set(), {}, 10, OrphanPlan(NONE, NONE, NONE), id="no orphan"),
        pytest.param({"a"}, {}, 10, OrphanPlan(A, NONE, NONE), id="a new orphan waits"),
        pytest.param({"a"}, {"a": 91}, 10, OrphanPlan(NONE, NONE, NONE), id="a known orphan waits until its time"),
        pytest.param({"a"}, {"a": 90}, 10, OrphanPlan(NONE, NONE, A), id="its time is over"),
        pytest.param(set(), {"a": 0}, 10, OrphanPlan(NONE, A, NONE), id="an endpoint that came back is no orphan"),
        pytest.param({"a"}, {}, 0, OrphanPlan(A, NONE, A), id="without a grace time at once"),
        pytest.param({"a"}, {"a": 200}, 10, OrphanPlan(NONE, NONE, NONE), id="recorded by a clock that was ahead"),
    ],
)
def test_orphans(found: set[str], since: dict[str, int], grace_ms: int, expected: OrphanPlan) -> None:
    """Only the recorded time counts."""
    assert plan_orphans(found, since, now_ms=100, grace_ms=grace_ms) == expected

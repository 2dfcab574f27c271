"""Restarts of processes by `make up`."""

from dataclasses import dataclass, field
from typing import cast

from hookwright_dev.cluster.stack import RESTART_SECONDS, Keeper, Stack


@dataclass(slots=True)
class Child:
    """A child process."""

    running: bool = True
    pid: int = 7


@dataclass(slots=True)
class Process:
    """A process of an installation that can end and be started, as the keeper sees it."""

    running: Child = field(default_factory=Child)
    starts: int = 0

    def start(self) -> None:
        """Start again."""
        self.running.running = True
        self.starts += 1


@dataclass(slots=True)
class Running:
    """A stack of two such processes."""

    operator: Process = field(default_factory=Process)
    api: Process = field(default_factory=Process)
    written: int = 0

    def write_env(self) -> None:
        """Count how often .dev/env was written."""
        self.written += 1


def test_a_process_that_ended_is_started_again_after_a_while_and_told_in_the_env() -> None:
    """The restart is delayed, as a kubelet delays it; then `.dev/env` has the new process."""
    stack, now = Running(), [0.0]
    keeper = Keeper(cast("Stack", stack), clock=lambda: now[0])
    keeper.look()
    stack.operator.running.running = False
    keeper.look()
    now[0] = RESTART_SECONDS - 1
    keeper.look()
    assert stack.operator.starts == 0
    now[0] = RESTART_SECONDS
    keeper.look()
    assert (stack.operator.starts, stack.api.starts, stack.written) == (1, 0, 1)

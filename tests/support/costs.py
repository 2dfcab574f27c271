"""The cost of the tests: tests, seconds and started processes of each folder, printed with ``--costs SECONDS``.

The run fails if the tests of one file take longer than these seconds, because such a file delays everybody. It belongs
to the tests that are marked slow. Only the calls of tests count, because the first file of a process starts the stack.
"""

import sys
from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import pytest
from _pytest.terminal import TerminalReporter

_started = [0]
"""The number of processes that this process has started since the last report, as the only item."""


def _count(event: str, _: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen":
        _started[0] += 1


sys.addaudithook(_count)


@dataclass(slots=True)
class Cost:
    """The cost of a file or a folder: the seconds of all phases, and those of the calls alone."""

    tests: int = 0
    seconds: float = 0.0
    calls: float = 0.0
    starts: int = 0

    def add(self, other: "Cost") -> None:
        """Add another cost to this one."""
        self.tests += other.tests
        self.seconds += other.seconds
        self.calls += other.calls
        self.starts += other.starts


@dataclass(slots=True, eq=False)
class Costs:
    """The costs of all files of a run.

    Attributes:
        limit: the most seconds of a file.
    """

    limit: float
    files: dict[str, Cost] = field(default_factory=lambda: defaultdict(Cost))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase of a test to its file."""
        is_call = report.when == "call"
        calls = report.duration if is_call else 0.0
        starts = int(getattr(report, "starts", 0))
        self.files[report.nodeid.partition("::")[0]].add(Cost(int(is_call), report.duration, calls, starts))

    @property
    def slow_files(self) -> list[str]:
        """The files that take longer than the limit."""
        return sorted(file for file, cost in self.files.items() if cost.calls > self.limit)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the run if a file is slow."""
        if self.slow_files and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Print the costs of the folders, and the slow files."""
        folders: dict[str, Cost] = defaultdict(Cost)
        for file, cost in self.files.items():
            folder = "/".join(file.split("/")[: 3 if file.startswith("tests/integration/") else 2])
            folders[folder].add(cost)
            folders["all"].add(cost)
        terminalreporter.section("costs")
        for folder, cost in sorted(folders.items()):
            terminalreporter.line(f"{folder:32} {cost.tests:6} tests {cost.seconds:8.1f} s {cost.starts:6} processes")
        for file in self.slow_files:
            terminalreporter.line(
                f"{file} takes {self.files[file].calls:.0f} s, more than {self.limit:.0f} s", red=True
            )


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--costs``."""
    parser.addoption("--costs", type=float, metavar="SECONDS", help="print costs; fail if a file takes longer")


def pytest_configure(config: pytest.Config) -> None:
    """Collect the costs in the process that prints the summary."""
    if config.option.costs is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Costs(config.option.costs), "costs")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the number of processes that the phase has started to its report."""
    report = yield
    report.starts = _started[0]  # type: ignore[attr-defined]
    _started[0] = 0
    return report

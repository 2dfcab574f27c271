"""Programs that tests need: fetched or built beside the first tests, awaited before the first test that needs them.

A folder names its programs with `need`, by the fixture that uses them. The first process of a run prepares the programs
of all collected tests at the same time; other processes wait for its locks. No time limit of a test covers the wait.
"""

import os
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, nullcontext

import pytest
from _pytest.capture import CaptureManager

from hookwright_dev.cache import exclusive, tools_folder
from hookwright_dev.progress import progress

_acquirers: dict[str, Callable[[], object]] = {}
_slow: set[str] = set()
_preparations: dict[str, "Preparation"] = {}


def need(fixture: str, acquire: Callable[[], object], *, slow: bool = False) -> None:
    """Fetch or build a program if a collected test uses a fixture.

    Args:
        fixture: the fixture's name, one name for one program in all folders.
        acquire: the function that fetches or builds; it returns at once if the program is there.
        slow: whether this takes minutes or much disk. Then the tests with this fixture are marked slow, too.
    """
    _acquirers[fixture] = acquire
    if slow:
        _slow.add(fixture)


class Preparation(threading.Thread):
    """The acquisition of one program.

    Attributes:
        error: the error that ended it; the setup of each test that needs the program raises it.
    """

    def __init__(self, fixture: str) -> None:
        """Prepare the program of a fixture."""
        super().__init__(name=fixture, daemon=True)
        self.error: Exception | None = None

    def run(self) -> None:
        """Acquire the program; one process at a time does this."""
        try:
            folder = tools_folder()
            folder.mkdir(parents=True, exist_ok=True)
            with exclusive(folder / f"needed-{self.name}.lock", self.name):
                _acquirers[self.name]()
        except Exception as error:  # noqa: BLE001 - a test raises it
            self.error = error


def _prepare(fixtures: Iterable[str]) -> list[Preparation]:
    """Return the preparations of the programs behind these fixtures; start those that are new."""
    preparations = []
    for name in sorted(_acquirers.keys() & fixtures):
        if name not in _preparations:
            _preparations[name] = Preparation(name)
            _preparations[name].start()
        preparations.append(_preparations[name])
    return preparations


def _fixtures(item: pytest.Item) -> set[str]:
    return set(getattr(item, "fixturenames", ()))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests slow whose programs take minutes to prepare."""
    for item in items:
        if _slow & _fixtures(item):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Start to prepare the programs of all tests, in the first process of this run."""
    first = os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0"
    if first and not session.config.option.collectonly:
        _prepare(set().union(*map(_fixtures, session.items)))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Wait for the programs of a test, with a progress display, before its time limit begins."""
    running = [preparation for preparation in _prepare(_fixtures(item)) if preparation.is_alive()]
    if running:
        with uncaptured(item.config), progress(f"preparing {', '.join(process.name for process in running)}"):
            for preparation in running:
                preparation.join()
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Raise the error of a program that could not be prepared."""
    for preparation in _prepare(_fixtures(item)):
        if preparation.error is not None:
            raise preparation.error


def uncaptured(config: pytest.Config) -> AbstractContextManager[None]:
    """Return a context in which a progress display reaches the terminal."""
    capture = config.pluginmanager.getplugin("capturemanager")
    return capture.global_and_fixture_disabled() if isinstance(capture, CaptureManager) else nullcontext()

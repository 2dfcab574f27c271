"""Child processes report when they are ready, end on request, and report why they failed."""

import signal
import sys
from pathlib import Path

import pytest

from hookwright_dev.errors import EarlyExitError, NotReadyError
from hookwright_dev.processes import ChildProcess

WORDS_THEN_EXIT = "print('last words'); raise SystemExit(3)"
SLEEP = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEP
GRACEFUL = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); " + SLEEP


def start(code: str, folder: Path, **env: str) -> ChildProcess:
    """Start Python code."""
    return ChildProcess.start("child", [sys.executable, "-c", code], log=folder / "child.log", env=env)


def wait_until_up(child: ChildProcess) -> None:
    """Wait until the code has printed that it is up."""
    child.wait_ready(lambda: "up" in child.tail(), 10)


def test_a_child_gets_its_environment_and_its_log(tmp_path: Path) -> None:
    """``env`` is added to the environment, and both output streams are written to the log."""
    code = "import os, sys; print(os.environ['WORD']); print('PATH' in os.environ, file=sys.stderr)"
    with start(code, tmp_path, WORD="hello") as child:
        assert child.wait(10) == 0
    assert sorted(child.tail().splitlines()) == ["True", "hello"]


def test_a_child_that_ends_before_it_is_ready_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    """The wait ends with the process, before the deadline."""
    with start(WORDS_THEN_EXIT, tmp_path) as child, pytest.raises(EarlyExitError, match=r"(?s)status 3.*last words"):
        child.wait_ready(lambda: False, 60)


def test_a_child_that_is_never_ready_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    """A refused connection means "not yet", until the deadline."""

    def refused() -> bool:
        raise ConnectionRefusedError

    with start(SLEEP, tmp_path) as child:
        wait_until_up(child)
        with pytest.raises(NotReadyError, match=r"(?s)not ready after 0\.2 s.*up"):
            child.wait_ready(refused, 0.2)


def test_stopping_lets_a_child_end_by_itself(tmp_path: Path) -> None:
    """SIGTERM is sent first, and the exit status is the child's own."""
    child = start(GRACEFUL, tmp_path)
    wait_until_up(child)
    assert child.running
    assert child.stop() == 7
    assert not child.running
    assert child.stop() == 7


def test_stopping_kills_a_child_that_does_not_listen(tmp_path: Path) -> None:
    """After the grace period SIGKILL is sent."""
    child = start(STUBBORN, tmp_path)
    wait_until_up(child)
    assert child.stop(grace=0.2) == -signal.SIGKILL

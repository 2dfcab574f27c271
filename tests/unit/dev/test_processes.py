"""Child processes report when they are ready, end on request, and report why they failed."""

import signal
import sys
from pathlib import Path

import pytest

from hookwright_dev.errors import EarlyExitError
from hookwright_dev.processes import ChildProcess

WORDS_THEN_EXIT = "print('last words'); raise SystemExit(3)"
SLEEP = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEP


def start(code: str, folder: Path, **env: str) -> ChildProcess:
    """Start Python code."""
    return ChildProcess.start("child", [sys.executable, "-c", code], log=folder / "child.log", env=env)


def wait_until_up(child: ChildProcess) -> None:
    """Wait until the code has printed that it is up."""
    child.wait_ready(lambda: "up" in child.tail(), 10)


def test_a_child_that_ends_before_it_is_ready_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    """The wait ends with the process, before the deadline."""
    with start(WORDS_THEN_EXIT, tmp_path) as child, pytest.raises(EarlyExitError, match=r"(?s)status 3.*last words"):
        child.wait_ready(lambda: False, 60)


def test_stopping_kills_a_child_that_does_not_listen(tmp_path: Path) -> None:
    """After the grace period SIGKILL is sent."""
    child = start(STUBBORN, tmp_path)
    wait_until_up(child)
    assert child.stop(grace=0.2) == -signal.SIGKILL

"""Long operations show progress, and short ones print nothing."""

import io
import re

import pytest
from support.polling import eventually

from hookwright_dev.progress import progress, reported


def test_what_is_quick_prints_nothing() -> None:
    """Below the threshold there is no output."""
    stream = io.StringIO()
    with progress("quick", stream=stream, quiet=60):
        pass
    assert stream.getvalue() == ""


def test_without_a_terminal_each_sign_of_life_is_a_line() -> None:
    """A log gets plain lines with the elapsed seconds and the detail, and a last one."""
    stream = io.StringIO()
    with progress("building [etcd]", stream=stream, quiet=0, every=0.01) as show:
        show("7 packages")
        eventually(lambda: stream.getvalue().count("(7 packages)\n") >= 2, "two lines are printed")
    assert re.search(r"building \[etcd\]: \d+ s \(7 packages\)\n", stream.getvalue())
    assert re.search(r"building \[etcd\]: \d+ s, done\n$", stream.getvalue())
    assert "\x1b" not in stream.getvalue()


def test_a_failure_is_not_called_done() -> None:
    """The last line reports the failure."""
    stream = io.StringIO()

    def look() -> None:
        with progress("looking", stream=stream, quiet=0):
            eventually(lambda: stream.getvalue() != "", "a line is printed")
            raise LookupError

    with pytest.raises(LookupError):
        look()
    assert re.search(r"looking: \d+ s, failed\n$", stream.getvalue())


def test_work_beside_other_work_reports_its_lines() -> None:
    """One display can show the lines of several threads, and nothing else is printed."""
    lines: list[str] = []
    stream = io.StringIO()
    with reported(lines.append), progress("building helm", stream=stream, quiet=0) as show:
        show("7 packages")
    assert lines == ["building helm", "building helm, 7 packages"]
    assert stream.getvalue() == ""

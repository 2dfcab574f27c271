"""Progress display on standard error for operations of more than two seconds."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TextIO

QUIET_SECONDS = 2.0
LINE_SECONDS = 10.0

Show = Callable[[str], None]
"""Function that sets the detail after the title, for example the progress of a download."""

_report: ContextVar[Show | None] = ContextVar("report", default=None)


@contextmanager
def reported(show: Show) -> Iterator[None]:
    """Pass the lines of every `progress` inside the context to ``show`` instead of printing them."""
    token = _report.set(show)
    try:
        yield
    finally:
        _report.reset(token)


@contextmanager
def progress(
    title: str,
    *,
    stream: TextIO | None = None,
    quiet: float = QUIET_SECONDS,
    every: float = LINE_SECONDS,
) -> Iterator[Show]:
    """Show ``title`` and the elapsed seconds while the body runs.

    The first line comes after ``quiet`` seconds, further ones each ``every`` seconds. A shorter body prints nothing.
    """
    if (report := _report.get()) is not None:
        report(title)
        yield lambda detail: report(f"{title}, {detail}")
        return
    began, finished, detail, lines = time.monotonic(), threading.Event(), "", 0

    def show(text: str) -> None:
        nonlocal detail
        detail = text

    def print_line(end: str) -> None:
        nonlocal lines
        lines += 1
        print(f"{title}: {round(time.monotonic() - began)} s{end}", file=stream or sys.stderr, flush=True)

    def run() -> None:
        while not finished.wait(every if lines else quiet):
            print_line(f" ({detail})" if detail else "")

    thread = threading.Thread(target=run, name="progress", daemon=True)
    thread.start()
    outcome = "failed"
    try:
        yield show
        outcome = "done"
    finally:
        finished.set()
        thread.join()
        if lines:
            print_line(f", {outcome}")

"""Progress display on standard error for operations of more than two seconds."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TextIO

from rich.console import Console
from rich.markup import escape

QUIET_SECONDS = 2.0
LINE_SECONDS = 15.0
_FRAME_SECONDS = 0.2

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

    A terminal gets a spinner; other streams get one line each ``every`` seconds. A body that takes less than ``quiet``
    seconds prints nothing.
    """
    if (report := _report.get()) is not None:
        report(title)
        yield lambda detail: report(f"{title}, {detail}")
        return
    display = _Display(title, stream or sys.stderr, quiet, every)
    thread = threading.Thread(target=display.run, name="progress", daemon=True)
    thread.start()
    try:
        yield display.show
        display.outcome = "done"
    finally:
        display.finished.set()
        thread.join()


class _Display:
    """One running display; ``run`` is its thread's body."""

    def __init__(self, title: str, stream: TextIO, quiet: float, every: float) -> None:
        self._title = title
        self._console = Console(file=stream, highlight=False)
        self._quiet = quiet
        self._every = every
        self._began = time.monotonic()
        self._detail = ""
        self.outcome = "failed"
        self.finished = threading.Event()

    def show(self, detail: str) -> None:
        self._detail = detail

    def run(self) -> None:
        if self.finished.wait(self._quiet):
            return
        if self._console.is_terminal:
            self._spin()
        else:
            self._print_lines()
        self._console.print(escape(f"{self._title}: {self._elapsed} s, {self.outcome}"), soft_wrap=True)

    @property
    def _elapsed(self) -> int:
        return round(time.monotonic() - self._began)

    def _line(self) -> str:
        detail = f" ({self._detail})" if self._detail else ""
        return escape(f"{self._title}: {self._elapsed} s{detail}")

    def _spin(self) -> None:
        with self._console.status(self._line()) as status:
            while not self.finished.wait(_FRAME_SECONDS):
                status.update(self._line())

    def _print_lines(self) -> None:
        self._console.print(self._line(), soft_wrap=True)
        while not self.finished.wait(self._every):
            self._console.print(self._line(), soft_wrap=True)

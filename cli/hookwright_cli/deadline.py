"""The deadline of a command: the seconds that its requests may wait in total, and a line while one waits long."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from hookwright_cli.command_errors import CommandError, ExitCode

VARIABLE = "HOOKWRIGHT_DEADLINE"
_SECONDS = 60.0
_GRACE_SECONDS = 0.25
"""The timeout of a silent socket comes first, because its error has more words."""


class Deadline:
    """The seconds that requests of the present command may still wait.

    The time between two requests does not count, for example while a password is typed.

    Attributes:
        notice_seconds: one wait until a line says so on standard error; None writes none.
    """

    def __init__(self) -> None:
        self._total = self._left = float("inf")
        self.notice_seconds: float | None = 5.0

    @property
    def has_passed(self) -> bool:
        """Whether no further request may wait."""
        return self._left <= 0

    def begin(self, seconds: float | None = None) -> None:
        """Begin a command with its total wait, by default that of ``HOOKWRIGHT_DEADLINE``."""
        self._total = self._left = seconds or _seconds_of_variable()

    def lift(self) -> None:
        """Remove the total, because the command runs until its work ends; each request keeps its own timeout."""
        self._total = self._left = float("inf")

    @contextmanager
    def waiting(self, place: str, seconds: float) -> Iterator[float]:
        """Enclose one request; yield its timeout in seconds, which is at most ``seconds``.

        The timeout holds for each operation of a socket, so an answer that arrives byte by byte can take longer. The
        total ends such a request too.

        Raises:
            CommandError: earlier requests of the command used the whole time.
            TimeoutError: the request used what the command had left.
        """
        if self.has_passed:
            raise CommandError(
                f"{place} was not asked: the requests of this command have waited {self._total:g} s",
                ExitCode.UNAVAILABLE,
                hint=f"{VARIABLE}=300 allows 300 s",
            )
        seconds = min(seconds, self._left)
        notice = f"still waiting for {place}, at most {seconds:.3g} s\n"
        timer = threading.Timer(self.notice_seconds or 0.0, sys.stderr.write, (notice,))
        timer.daemon = True
        if self.notice_seconds is not None:
            timer.start()
        start = time.monotonic()
        try:
            with _ended_after(self._left):
                yield seconds
        finally:
            self._left -= time.monotonic() - start
            timer.cancel()


@contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    """End the block after a time by a TimeoutError, as a socket does; systems without SIGALRM do not end it."""

    def end(*_: object) -> NoReturn:
        raise TimeoutError("the answer was not complete in time")

    can_end = hasattr(signal, "SIGALRM") and threading.current_thread() is threading.main_thread()
    if not can_end or seconds == float("inf"):
        yield
        return
    handler = signal.signal(signal.SIGALRM, end)
    timer = signal.setitimer(signal.ITIMER_REAL, seconds + _GRACE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)


def _seconds_of_variable() -> float:
    value = os.environ.get(VARIABLE, "")
    try:
        seconds = float(value or _SECONDS)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise CommandError(f"{VARIABLE}={value} must be a positive number of seconds, such as 60", ExitCode.USAGE)
    return seconds


DEADLINE = Deadline()
"""That of this process, which runs one command."""

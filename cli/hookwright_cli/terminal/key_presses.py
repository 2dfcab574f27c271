"""Single keys of a terminal, without Enter. Ctrl-C stays a signal."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LOOK_SECONDS = 0.2


@contextmanager
def keys_pressed(handle: Callable[[str], None]) -> Iterator[bool]:
    """Call a function for each key, in a thread, inside the context.

    Yields:
        Whether keys are read: only if standard input is a terminal whose mode this machine can set.
    """
    try:
        import termios
        import tty
    except ImportError:
        yield False
        return
    terminal = sys.stdin.fileno() if sys.stdin.isatty() else -1
    # The terminal would stop a process in the background that changes its mode.
    if terminal < 0 or os.tcgetpgrp(terminal) != os.getpgrp():
        yield False
        return
    before = termios.tcgetattr(terminal)
    stopping = threading.Event()
    reader = threading.Thread(target=_read, args=(terminal, stopping, handle), daemon=True)
    # TCSANOW: keys that were pressed before are not lost.
    tty.setcbreak(terminal, termios.TCSANOW)
    reader.start()
    try:
        yield True
    finally:
        stopping.set()
        termios.tcsetattr(terminal, termios.TCSANOW, before)


def _read(terminal: int, stopping: threading.Event, handle: Callable[[str], None]) -> None:
    import select

    while not stopping.is_set():
        ready, _, _ = select.select([terminal], [], [], _LOOK_SECONDS)
        if not ready:
            continue
        try:
            data = os.read(terminal, 64)
        except OSError:
            return
        if not data:
            return
        for key in data.decode(errors="ignore"):
            handle(key)

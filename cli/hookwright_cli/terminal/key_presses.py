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
    ended = threading.Event()
    reader = threading.Thread(target=_read, args=(terminal, ended, handle), daemon=True)
    # TCSANOW: keys that were pressed before are not lost.
    tty.setcbreak(terminal, termios.TCSANOW)
    reader.start()
    try:
        yield True
    finally:
        ended.set()
        termios.tcsetattr(terminal, termios.TCSANOW, before)


def _read(terminal: int, ended: threading.Event, handle: Callable[[str], None]) -> None:
    import select

    while not ended.is_set():
        ready, _, _ = select.select([terminal], [], [], _LOOK_SECONDS)
        if not ready:
            continue
        try:
            pressed = os.read(terminal, 64)
        except OSError:
            return
        if not pressed:
            return
        for key in pressed.decode(errors="ignore"):
            handle(key)

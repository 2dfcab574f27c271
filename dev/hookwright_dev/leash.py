"""The process that outlives a crash: it kills its parent's children as soon as the parent is gone.

Run as a script, it reads ``+PID`` and ``-PID`` lines from standard input. The end of the input means that the parent
ended, however that came about (SIGKILL included), and then every process group still listed gets SIGKILL.

Linux's PR_SET_PDEATHSIG is no substitute: it fires when the forking *thread* ends, and does not exist elsewhere.
"""

import os
import signal
import sys
from contextlib import suppress


def main() -> None:
    """Follow the list until the parent is gone, then kill what is on it."""
    held: set[int] = set()
    for line in sys.stdin.buffer:
        pid = int(line[1:])
        if line.startswith(b"+"):
            held.add(pid)
        else:
            held.discard(pid)
    for pid in held:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()

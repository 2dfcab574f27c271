"""Watchdog process that survives a crash of its parent, and then kills the parent's children at once.

Run as a script, it reads ``+PID`` and ``-PID`` lines from standard input. The end of the input means that the parent
ended, for any reason (SIGKILL included). Then every process group that is still listed gets SIGKILL.

Linux's PR_SET_PDEATHSIG is no substitute: it fires when the forking *thread* ends, and does not exist elsewhere.
"""

import os
import signal
import sys
from contextlib import suppress


def main() -> None:
    """Maintain the list until the parent has ended, then kill the listed groups."""
    groups: set[int] = set()
    for line in sys.stdin.buffer:
        pid = int(line[1:])
        if line.startswith(b"+"):
            groups.add(pid)
        else:
            groups.discard(pid)
    for pid in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()

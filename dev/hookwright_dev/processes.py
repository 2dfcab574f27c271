"""Child processes that write a log, have a readiness check, and never outlive this process."""

import atexit
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import httpx

from hookwright_dev import parent_watchdog
from hookwright_dev.errors import EarlyExitError, ProcessError

_POLL_SECONDS = 0.05


def free_port() -> int:
    """Return a port on loopback that no other process gets before this one ends.

    The port stays bound, without a listener. Otherwise the kernel may give it to a connection of any process before its
    server starts, or while its server restarts. A server that sets SO_REUSEADDR can listen on it.
    """
    reservation = socket.socket()
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reservation.bind(("127.0.0.1", 0))
    port = int(reservation.getsockname()[1])
    reservation.detach()
    return port


class ChildProcess:
    """A running child in its own session, so that a terminal's Ctrl-C reaches this process only.

    If this process ends without having stopped the child, even by SIGKILL, the child's process group is killed.
    """

    def __init__(self, name: str, popen: subprocess.Popen[bytes], log: Path) -> None:
        """Wrap ``popen``; use `start` instead."""
        self.name = name
        self.log = log
        self._popen = popen
        self._group_killed = False

    @classmethod
    def start(
        cls,
        name: str,
        argv: Sequence[str | Path],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Self:
        """Start ``argv`` with standard output and error appended to ``log``.

        ``env`` is added to this process's environment; ``name`` is the child's name in errors.
        """
        with log.open("ab") as output:
            popen = subprocess.Popen(
                [str(argument) for argument in argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **(env or {})},
                cwd=cwd,
                start_new_session=True,
            )
        _LEASH.hold(popen.pid)
        return cls(name, popen, log)

    def __enter__(self) -> Self:
        """Return the child; leaving the block stops it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the child."""
        self.stop()

    @property
    def pid(self) -> int:
        """Process id, which is also the id of the process group."""
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        """Exit status, negative for a signal; None while the child runs."""
        status = self._popen.poll()
        if status is not None:
            _LEASH.release(self.pid)
        return status

    @property
    def running(self) -> bool:
        """Whether the child has not ended yet."""
        return self.returncode is None

    def tail(self, lines: int = 20) -> str:
        """Return the last ``lines`` lines of the log."""
        return tail(self.log, lines)

    def wait_ready(self, ready: Callable[[], bool], timeout: float) -> None:
        """Call ``ready`` repeatedly until it returns True, for at most ``timeout`` seconds.

        A refused connection counts as "not yet". Raises `EarlyExitError` as soon as the child has ended, and
        `ProcessError` after the timeout.
        """
        deadline = time.monotonic() + timeout
        while self.running:
            with suppress(OSError, httpx.TransportError):
                if ready():
                    return
            if time.monotonic() > deadline:
                raise ProcessError(self._report(f"was not ready after {timeout:g} s"))
            time.sleep(_POLL_SECONDS)
        raise EarlyExitError(self._report(f"ended with status {self.returncode} before it was ready"))

    def wait(self, timeout: float) -> int:
        """Return the exit status of a child that is expected to end within ``timeout`` seconds."""
        try:
            self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise ProcessError(self._report(f"still ran after {timeout:g} s")) from None
        _LEASH.release(self.pid)
        return self._popen.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the child only, not to its group."""
        self._popen.send_signal(number)

    def stop(self, grace: float = 10.0) -> int:
        """Send SIGTERM, kill the group after ``grace`` seconds, and return the exit status."""
        if self.running:
            self._popen.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(grace)
        return self.kill()

    def kill(self) -> int:
        """Kill the child's whole process group at once and return the exit status."""
        if not self._group_killed:
            self._group_killed = True  # once only: afterwards another process may have the id
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        status = self._popen.wait()
        _LEASH.release(self.pid)
        return status

    def _report(self, fault: str) -> str:
        return f"{self.name} {fault}; the end of its log:\n{self.tail()}"


def tail(log: Path, lines: int = 20) -> str:
    """Return the last ``lines`` lines of a log that may not exist yet."""
    if not log.exists():
        return "(no log)"
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) or "(empty)"


class _Watchdog:
    """This process's end of the pipe to its `hookwright_dev.parent_watchdog` process, started with the first child."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._held: set[int] = set()

    def hold(self, pid: int) -> None:
        with self._lock:
            self._held.add(pid)
            self._write(f"+{pid}\n")

    def release(self, pid: int) -> None:
        with self._lock:
            if pid in self._held:
                self._held.remove(pid)
                self._write(f"-{pid}\n")

    def _write(self, line: str) -> None:
        if self._process is None or self._process.poll() is not None:
            self._process = self._start()
            line = "".join(f"+{pid}\n" for pid in self._held)
        assert self._process.stdin is not None
        os.write(self._process.stdin.fileno(), line.encode())

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            atexit.register(self._let_go)
        return subprocess.Popen(
            [sys.executable, "-I", "-S", parent_watchdog.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def _let_go(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)


_LEASH = _Watchdog()

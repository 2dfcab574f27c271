"""A real Redis or Valkey server for tests, installed if it is missing and the user is root."""

import shutil
import socket
from dataclasses import dataclass, field
from pathlib import Path

import redis
from support.needed_programs import need

from hookwright_dev import packages
from hookwright_dev.processes import ChildProcess, free_port

_PROGRAMS = ("redis-server", "valkey-server")


def program() -> str:
    """Return the server's executable; install Debian's package if there is none and the user is root."""
    path = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if path is None:
        packages.install("redis-server")
        path = shutil.which("redis-server")
    assert path, "neither redis-server nor valkey-server is installed: install one of them (Debian: redis-server)"
    return path


need("redis_server", program)


@dataclass(slots=True)
class RedisServer:
    """A server that can be killed and started again on the same port; it stores nothing on disk."""

    folder: Path
    port: int = field(default_factory=free_port)
    process: ChildProcess | None = None

    @property
    def url(self) -> str:
        """The value for HOOKWRIGHT_RATE_LIMIT_URL."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it and return when it answers."""
        argv = [program(), "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.process = ChildProcess.start("redis", argv, log=self.folder / "redis.log", cwd=self.folder)
        self.process.wait_ready(self._answers, 10.0)

    def kill(self) -> None:
        """Send SIGKILL."""
        assert self.process is not None
        self.process.kill()

    def _answers(self) -> bool:
        with socket.create_connection(("127.0.0.1", self.port), 1):
            pass
        with redis.Redis(port=self.port) as client:
            return bool(client.ping())

"""Real servers of Debian for tests, on loopback, installed if they are missing and the user is root."""

import socket
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Self

from support.needed_programs import need

from hookwright_dev.packages import acquire_program
from hookwright_dev.processes import ChildProcess, free_port

_PROGRAMS: Final = {
    "connect_proxy": ("tinyproxy", "tinyproxy-bin"),
    "redis_server": ("redis-server", "redis-server"),
    "tls_receiver": ("nginx", "nginx"),
}
"""Program and package by the fixture that runs it."""

for _fixture, _names in _PROGRAMS.items():
    need(_fixture, partial(acquire_program, *_names))


@dataclass(slots=True)
class LocalServer:
    """A server that can be stopped and started again on the same port; a context manager that starts and stops it.

    Attributes:
        fixture: runs it.
        folder: for its files.
        arguments: of the program, which runs in the folder.
        settings: text of the file ``settings`` in the folder; in it, PORT stands for the port.
    """

    fixture: str
    folder: Path
    arguments: str
    settings: str
    port: int = field(default_factory=free_port)
    process: ChildProcess | None = None

    def __enter__(self) -> Self:
        (self.folder / "settings").write_text(self.settings.replace("PORT", str(self.port)))
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def address(self) -> str:
        """Its address with its port."""
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """The file with what it printed."""
        return self.folder / f"{self.fixture}.log"

    def start(self) -> None:
        """Start it and return when it listens."""
        program = acquire_program(*_PROGRAMS[self.fixture])
        argv: list[str | Path] = [program, *self.arguments.split()]
        self.process = ChildProcess.start(self.fixture, argv, log=self.log, cwd=self.folder)
        self.process.wait_ready(self._listens, 10.0)

    def stop(self) -> None:
        """Stop it; its connections end."""
        assert self.process is not None
        self.process.stop()

    def _listens(self) -> bool:
        with socket.create_connection(("127.0.0.1", self.port), 1):
            return True


def redis_server(folder: Path) -> LocalServer:
    """Return a Redis that stores nothing on disk."""
    settings = 'port PORT\nbind 127.0.0.1\nsave ""\nappendonly no\n'
    return LocalServer("redis_server", folder, "settings", settings)

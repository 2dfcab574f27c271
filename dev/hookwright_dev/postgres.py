"""A real PostgreSQL server on loopback, in a folder of its own, for tests and measurements.

Where PostgreSQL is not installed and that can be done, it is: on Debian as root. The server refuses to run as root, so
root runs it as the user ``nobody``.
"""

import asyncio
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

import asyncpg

from hookwright_dev.errors import DevError
from hookwright_dev.installation import free_port
from hookwright_dev.processes import ChildProcess
from hookwright_dev.progress import progress

HOST: Final = "127.0.0.1"
USER: Final = "hookwright"
_FOLDERS: Final = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin")
_UNPRIVILEGED: Final = "nobody"
_START_SECONDS: Final = 30.0

FAST: Final = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
"""Settings for tests, which nobody needs to survive a power cut."""


class PostgresMissingError(DevError):
    """PostgreSQL is not installed, and could not be."""


@cache
def programs() -> Path:
    """Return the folder with ``initdb`` and ``postgres``, installing them where they are missing.

    Raises:
        PostgresMissingError: that cannot be done; the message says what to install.
    """
    found = _installed()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        with progress("installing PostgreSQL (once)"):
            _install()
        found = _installed()
    if found is None:
        raise PostgresMissingError("PostgreSQL 15 or newer is needed: install it (Debian: apt-get install postgresql)")
    return found


def _installed() -> Path | None:
    on_path = shutil.which("initdb")
    folders = [Path(on_path).resolve().parent] if on_path else []
    for pattern in _FOLDERS:
        # The newest first.
        folders += sorted(Path("/").glob(pattern[1:]), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists() and (folder / "postgres").exists()), None)


def _install() -> None:
    # The package would start a server for the whole machine.
    no_cluster = Path("/etc/postgresql-common/createcluster.conf")
    if not no_cluster.exists():
        no_cluster.parent.mkdir(parents=True, exist_ok=True)
        no_cluster.write_text("create_main_cluster = false\n")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    keep = ("-o", "Dpkg::Options::=--force-confold")
    for command in (("update", "-q"), ("install", "-q", "-y", "--no-install-recommends", *keep, "postgresql")):
        done = subprocess.run(
            ["apt-get", *command], env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        if done.returncode != 0:
            raise PostgresMissingError(
                f"PostgreSQL could not be installed; apt-get {command[0]} said: {done.stderr.strip()[-500:]}"
            )


@dataclass(slots=True)
class PostgresServer:
    """A server that can be killed and started again on the same port with what it holds.

    Attributes:
        settings: of ``postgresql.conf``, on top of those that loopback needs.
        folder: where it keeps its files; removed with `remove`.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="hookwright-postgres-")))
    process: ChildProcess | None = None

    def url(self, database: str = "postgres") -> str:
        """Return what HOOKWRIGHT_DATABASE_URL takes."""
        return f"postgresql://{USER}@{HOST}:{self.port}/{database}"

    @property
    def log(self) -> Path:
        """The server's log."""
        return self.folder / "server.log"

    def start(self) -> None:
        """Start the server, with an empty database at the first time, and return when it answers."""
        if not (self.folder / "data").exists():
            self._create()
        argv: list[str | Path] = [programs() / "postgres", "-D", self.folder / "data"]
        self.process = ChildProcess.start("postgres", _unprivileged(argv), log=self.log, cwd=self.folder)
        self.process.wait_ready(self._answers, _START_SECONDS)

    def stop(self) -> None:
        """End every connection and stop the server."""
        assert self.process is not None, "the server was not started"
        if self.process.running:
            # "Fast": SIGTERM would wait until the clients have gone.
            self.process.send_signal(signal.SIGINT)
            self.process.wait(_START_SECONDS)

    def kill(self) -> None:
        """Send SIGKILL, as a machine's sudden end does."""
        assert self.process is not None, "the server was not started"
        self.process.kill()

    def remove(self) -> None:
        """Kill the server, and remove its files."""
        if self.process is not None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def execute(self, *statements: str, database: str = "postgres") -> None:
        """Run statements as the superuser, each in a transaction of its own."""
        asyncio.run(self._execute(statements, database))

    def new_database(self, name: str) -> str:
        """Make an empty database and return its URL."""
        self.execute(f'CREATE DATABASE "{name}"')
        return self.url(name)

    async def _execute(self, statements: Sequence[str], database: str) -> None:
        connection = await asyncpg.connect(self.url(database), timeout=10)
        try:
            for statement in statements:
                await connection.execute(statement)
        finally:
            await connection.close()

    def _answers(self) -> bool:
        try:
            self.execute()
        except asyncpg.CannotConnectNowError:
            return False
        return True

    def _create(self) -> None:
        owned = self.folder
        if os.geteuid() == 0:
            shutil.chown(owned, _UNPRIVILEGED)
        argv: list[str | Path] = [programs() / "initdb", "-D", owned / "data", "-U", USER, "-A", "trust", "-E", "UTF8"]
        argv += ["--locale=C", "--no-sync"]
        subprocess.run(_unprivileged(argv), cwd=owned, check=True, capture_output=True, timeout=60)
        settings = {
            "listen_addresses": f"'{HOST}'",
            "port": str(self.port),
            "unix_socket_directories": "''",
            **self.settings,
        }
        with (owned / "data" / "postgresql.conf").open("a") as conf:
            conf.writelines(f"{name} = {value}\n" for name, value in settings.items())


def _unprivileged(argv: Sequence[str | Path]) -> list[str | Path]:
    if os.geteuid() != 0:
        return list(argv)
    user = pwd.getpwnam(_UNPRIVILEGED)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", *argv]

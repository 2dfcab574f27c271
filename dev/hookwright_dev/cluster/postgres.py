"""A real PostgreSQL server on loopback, in its own folder, for tests and measurements.

If PostgreSQL is not installed, it is installed if possible: on Debian as root. The server refuses to run as root, so
root runs it as the user ``nobody``.
"""

import asyncio
import os
import pwd
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import asyncpg

from hookwright_dev import packages
from hookwright_dev.cache import run_tool
from hookwright_dev.errors import DevError, ToolError
from hookwright_dev.processes import ChildProcess, free_port

HOST: Final = "127.0.0.1"
USER: Final = "hookwright"
_FOLDERS: Final = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin")
_USER: Final = "nobody"
_START_SECONDS: Final = 30.0

FAST: Final = {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
"""Settings for tests, whose data need not survive a power cut."""


@cache
def programs() -> Path:
    """Return the folder with ``initdb`` and ``postgres``; install them if they are missing.

    Raises:
        ToolError: the installation is not possible; the message names the package.
    """
    folder = _installed()
    if folder is None:
        _install()
        folder = _installed()
    if folder is None:
        raise ToolError("PostgreSQL 15 or newer is needed, and the package postgresql has no initdb and postgres")
    return folder


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
    if os.geteuid() == 0 and not no_cluster.exists():
        no_cluster.parent.mkdir(parents=True, exist_ok=True)
        no_cluster.write_text("create_main_cluster = false\n")
    packages.install("postgresql")


@dataclass(slots=True)
class PostgresServer:
    """A server that can be killed, and started again on the same port with its data.

    Attributes:
        settings: of ``postgresql.conf``, in addition to those that loopback needs.
        folder: where it keeps its files; removed with `remove`.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="hookwright-postgres-")))
    process: ChildProcess | None = None

    def url(self, database: str = "postgres", *others: "PostgresServer") -> str:
        """Return a value for HOOKWRIGHT_DATABASE_URL; it may name other servers that could be the primary one."""
        hosts = ",".join(f"{HOST}:{server.port}" for server in (self, *others))
        return f"postgresql://{USER}@{hosts}/{database}"

    @property
    def log(self) -> Path:
        """Path of the server's log."""
        return self.folder / "server.log"

    def start(self) -> None:
        """Start the server, the first time with an empty database, and return when it answers."""
        if not (self.folder / "data").exists():
            self._create()
        argv: list[str | Path] = [programs() / "postgres", "-D", self.folder / "data"]
        self.process = ChildProcess.start("postgres", _unprivileged(argv), log=self.log, cwd=self.folder)
        self.process.wait_ready(self._answers, _START_SECONDS)

    def stop(self, *, immediate: bool = False) -> None:
        """End every connection and stop the server.

        Args:
            immediate: end as in a crash, and recover from the log at the next start. Otherwise running transactions are
                rolled back and everything is written to disk ("fast").
        """
        assert self.process is not None, "the server was not started"
        if self.process.running:
            # SIGTERM would wait until the clients disconnect.
            self.process.send_signal(signal.SIGQUIT if immediate else signal.SIGINT)
            self.process.wait(_START_SECONDS)

    def kill(self) -> None:
        """Send SIGKILL, as in a sudden end of the machine."""
        assert self.process is not None, "the server was not started"
        self.process.kill()

    def remove(self) -> None:
        """Kill the server, and remove its files."""
        if self.process is not None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def execute(self, *statements: str, database: str = "postgres") -> None:
        """Run statements as the superuser, each in its own transaction."""
        asyncio.run(self._execute(statements, database))

    def new_database(self, name: str) -> str:
        """Create an empty database and return its URL."""
        self.execute(f'CREATE DATABASE "{name}"')
        return self.url(name)

    def scalar(self, query: str, database: str = "postgres") -> Any:
        """Return the first column of the first row of a query's result, None if it is empty."""
        return asyncio.run(self._scalar(query, database))

    def standby(self, name: str, *, port: int | None = None, through: int | None = None) -> "PostgresServer":
        """Copy this server into a streaming standby in its own folder, and start it.

        Args:
            name: its name for `commit_with`.
            port: that it listens on; any free one if None.
            through: the port on which it reaches this server, if there is a proxy between them.
        """
        standby = PostgresServer(self.settings, port or free_port())
        standby._own()
        source = f"host={HOST} port={through or self.port} user={USER} application_name={name}"
        argv: list[str | Path] = [programs() / "pg_basebackup", "-D", standby.folder / "data", "-d", source]
        # -R: write the primary's address into the configuration.
        standby._run([*argv, "-R", "-c", "fast", "--no-sync"])
        with (standby.folder / "data" / "postgresql.conf").open("a") as conf:
            conf.write(f"port = {standby.port}\n")
        standby.start()
        return standby

    def commit_with(self, standby: str) -> None:
        """Make commits wait until the standby of this name has them on its disk too; return when it follows."""
        self.execute(f"ALTER SYSTEM SET synchronous_standby_names = '\"{standby}\"'", "SELECT pg_reload_conf()")
        following = "SELECT application_name FROM pg_stat_replication WHERE sync_state = 'sync'"
        assert self.process is not None, "the server was not started"
        self.process.wait_ready(lambda: self.scalar(following) == standby, _START_SECONDS)

    def promote(self) -> None:
        """Promote a standby to an independent server, and return when it can be written to."""
        if not self.scalar(f"SELECT pg_promote(true, {_START_SECONDS:.0f})"):
            raise DevError(f"the standby on port {self.port} was not promoted within {_START_SECONDS:g} s")

    async def _scalar(self, query: str, database: str) -> Any:
        connection = await asyncpg.connect(self.url(database), timeout=10)
        try:
            return await connection.fetchval(query)
        finally:
            await connection.close()

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
        self._own()
        data = self.folder / "data"
        argv: list[str | Path] = [programs() / "initdb", "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8"]
        self._run([*argv, "--locale=C", "--no-sync"])
        settings = {
            "listen_addresses": f"'{HOST}'",
            "port": str(self.port),
            "unix_socket_directories": "''",
            **self.settings,
        }
        with (data / "postgresql.conf").open("a") as conf:
            conf.writelines(f"{name} = {value}\n" for name, value in settings.items())

    def _own(self) -> None:
        if os.geteuid() == 0:
            shutil.chown(self.folder, _USER)

    def _run(self, argv: Sequence[str | Path]) -> None:
        run_tool(Path(argv[0]).name, _unprivileged(argv), os.environ, folder=self.folder)


@contextmanager
def postgres_server(settings: Mapping[str, str] = FAST) -> Iterator[PostgresServer]:
    """Run a new server for a block, and remove it with its data."""
    server = PostgresServer(settings)
    try:
        server.start()
        yield server
    finally:
        server.remove()


def _unprivileged(argv: Sequence[str | Path]) -> list[str | Path]:
    if os.geteuid() != 0:
        return list(argv)
    user = pwd.getpwnam(_USER)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", *argv]

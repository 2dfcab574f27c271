"""Helpers of attacks over HTTP: raw connections, the memory of a process, and an installation under attack."""

import os
import resource
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Final

import httpx

from hookwright_dev.cluster.installation import ApiProcess, OperatorProcess
from hookwright_dev.cluster.kubectl import Cluster

LOOPBACK: Final = "127.0.0.1"
MIB: Final = 1024 * 1024


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Let this process open no further file meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(entry.name) for entry in Path("/proc/self/fd").iterdir())
    sockets: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 8, hard))
    try:
        with suppress(OSError):
            while True:
                sockets.append(os.open("/dev/null", os.O_RDONLY))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in sockets:
            os.close(descriptor)


def connect(port: int, source: str = LOOPBACK) -> socket.socket:
    """Open a connection from an address on loopback."""
    return socket.create_connection((LOOPBACK, port), timeout=30, source_address=(source, 0))


def read_answer(connection: socket.socket) -> httpx.Response:
    """Read one answer; its status is 0 if the connection was closed without one."""
    answer = HTTPResponse(connection)
    try:
        answer.begin()
        return httpx.Response(answer.status, headers=answer.getheaders(), content=answer.read())
    except (ConnectionError, HTTPException):
        return httpx.Response(0)


def exchange(port: int, request: bytes, source: str = LOOPBACK) -> httpx.Response:
    """Send bytes on a new connection and return the answer."""
    with connect(port, source) as connection:
        with suppress(ConnectionError):
            connection.sendall(request)
        return read_answer(connection)


class Memory:
    """The memory of a process since this object was created.

    Args:
        pid: of the process, which runs as the same user.
    """

    def __init__(self, pid: int) -> None:
        self._status = Path(f"/proc/{pid}/status")
        # 5 resets the highest mark of the resident set (proc(5)).
        Path(f"/proc/{pid}/clear_refs").write_text("5")
        self._before = self._field("VmHWM")

    def grown(self) -> int:
        """Return by how many bytes the highest mark of the resident set has grown."""
        return self._field("VmHWM") - self._before

    def _field(self, name: str) -> int:
        (line,) = [line for line in self._status.read_text().splitlines() if line.startswith(f"{name}:")]
        return int(line.split()[1]) * 1024


@dataclass(frozen=True, slots=True)
class Installation:
    """An operator process and an API process."""

    operator: OperatorProcess
    api: ApiProcess

    @property
    def ports(self) -> dict[str, int]:
        """The public ports by the name of the process."""
        return {"operator": self.operator.intake_port, "api": self.api.port}

    def process(self, name: str) -> OperatorProcess | ApiProcess:
        """Return ``operator`` or ``api``."""
        return self.operator if name == "operator" else self.api

    def healthy(self, name: str) -> bool:
        """Return whether /healthz answers 200 on a new connection."""
        return httpx.get(f"{self.process(name).health_url}/healthz", timeout=20, trust_env=False).status_code == 200

    def refusals(self, name: str, reason: str) -> float:
        """Return how many requests the server of a process has refused for a reason."""
        return self.process(name).metric("hookwright_http_refusals_total", reason=reason)


@contextmanager
def installation(
    cluster: Cluster,
    folder: Path,
    *,
    operator: Mapping[str, str] | None = None,
    api: Mapping[str, str] | None = None,
    descriptors: int | None = None,
) -> Iterator[Installation]:
    """Run an operator and an API inside the context.

    Args:
        cluster: their control plane.
        folder: for their files.
        operator: settings of the operator.
        api: settings of the API.
        descriptors: limit of file descriptors of both processes.
    """
    command = ["prlimit", f"--nofile={descriptors}:{descriptors}"] if descriptors else []
    first = OperatorProcess(cluster, folder / "operator", operator or {}, command=command)
    second = ApiProcess(cluster, folder / "api", first.intake_url, api or {}, command)
    first.start()
    try:
        second.start()
        try:
            yield Installation(first, second)
        finally:
            second.stop()
    finally:
        first.stop()


def open_files(pid: int) -> int:
    """Return how many file descriptors a process has open."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())

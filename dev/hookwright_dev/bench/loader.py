"""Loader and receiver: the Go program of ``dev/bench``, built once, started for each case."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx
from pydantic import BaseModel, ConfigDict

from hookwright_dev.cache import acquire_path, build_with_go, cache_folder
from hookwright_dev.cluster.certificates import Authority
from hookwright_dev.errors import BenchError
from hookwright_dev.processes import ChildProcess, free_port

MODULE: Final = Path(__file__).resolve().parents[2] / "bench"
"""The Go module."""

_HOST: Final = "127.0.0.1"
_LONGEST: Final = 2000.0


class Quantiles(BaseModel):
    """Quantiles of durations, in milliseconds."""

    model_config = ConfigDict(frozen=True)

    p50: float
    p99: float


class Report(BaseModel):
    """Result of one load; see ``dev/bench/run.go``."""

    model_config = ConfigDict(frozen=True)

    sent: int
    accepted: int
    refused: Mapping[int, int]
    fault: str
    expected: int
    arrived: int
    duplicates: int
    post_seconds: float
    seconds: float
    accepted_per_second: float
    arrived_per_second: float
    answer_ms: Quantiles
    arrival_ms: Quantiles

    def clean(self) -> Self:
        """Return the report of a load if nothing was refused, lost or delivered twice.

        Raises:
            BenchError: something was.
        """
        if self.refused:
            refusals = ", ".join(f"{number} with {status or self.fault}" for status, number in self.refused.items())
            raise BenchError(f"of {self.sent} events were refused: {refusals}")
        if self.arrived < self.expected or self.duplicates:
            raise BenchError(
                f"of {self.expected} deliveries {self.arrived} arrived in time, and {self.duplicates} came again"
            )
        return self


@dataclass(frozen=True, slots=True)
class Target:
    """URL to which events of a type are posted; target N of a load leads to endpoint N."""

    url: str
    type: str = "delivered"


class Loader:
    """A running loader; made by `start`, a context manager that stops it."""

    def __init__(self, process: ChildProcess, receiver: str, secure: str, control: str, authority: Authority) -> None:
        """Wrap a running process; use `start` instead."""
        self.process = process
        self.receiver, self.secure_receiver, self.authority = receiver, secure, authority
        self._client = httpx.Client(base_url=control, timeout=_LONGEST, trust_env=False)

    @classmethod
    def start(cls, folder: Path) -> Self:
        """Build the program unless it is built, start it, and return when it listens.

        Raises:
            ToolError: there is no Go, or it does not compile.
            ProcessError: it does not start.
        """
        receiver, secure, control = (f"{_HOST}:{free_port()}" for _ in range(3))
        authority = Authority()
        authority.issue("receiver", hosts=[_HOST]).write(folder, "receiver")
        (folder / "authority.crt").write_bytes(authority.pem)
        addresses: list[str | Path] = ["-receiver", receiver, "-secure", secure, "-control", control, "-folder", folder]
        process = ChildProcess.start("loader", [build(), *addresses], log=folder / "loader.log")
        loader = cls(process, f"http://{receiver}", f"https://{secure}", f"http://{control}", authority)
        process.wait_ready(lambda: loader._client.get("/strays").is_success, 10.0)
        return loader

    def __enter__(self) -> Self:
        """Return the loader; leaving the block stops it."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Stop the loader."""
        self._client.close()
        self.process.stop()

    def url(self, endpoint: int) -> str:
        """Return the URL at which an endpoint's deliveries are counted."""
        return f"{self.receiver}/e/{endpoint}"

    def load(self, targets: Sequence[Target], *, seconds: float, token: str = "", **how: object) -> Report:
        """Post events and return when they have arrived, or after ``wait_seconds``.

        Args:
            targets: each event goes to one of them, in turn.
            seconds: how long to post.
            token: bearer token of the intake.
            how: other fields of a Spec; see ``dev/bench/spec.go``.

        Raises:
            BenchError: the loader refuses the request.
        """
        spec: dict[str, object] = {
            "targets": [{"url": target.url, "type": target.type} for target in targets],
            "seconds": seconds,
            "fan": 1,
            "wait_seconds": 120,
            **how,
        }
        if token:
            spec["headers"] = {"Authorization": f"Bearer {token}"}
        return Report.model_validate(self._order("POST", "/load", spec))

    def wait(self, seconds: float) -> Report:
        """Return the last load's report when all accepted events have arrived, or after so many seconds."""
        return Report.model_validate(self._order("POST", "/await", {"seconds": seconds}))

    def hang(self, *endpoints: int, seconds: float = 0.0) -> None:
        """Delay the answers of these endpoints only; requests that hang now are answered."""
        self._order("PUT", "/behaviours", {str(endpoint): {"seconds": seconds} for endpoint in endpoints})

    def direct(self, *, fan: int = 1, seconds: float = 2.0, **how: Any) -> float:
        """Return how many posts a second reach the receiver without Hookwright: the ceiling."""
        targets = [Target(self.url(endpoint)) for endpoint in range(fan)]
        return self.load(targets, seconds=seconds, fan=fan, copies=fan, **how).clean().arrived_per_second

    def _order(self, method: str, path: str, body: object = None) -> object:
        answer = self._client.request(method, path, json=body)
        if not answer.is_success:
            raise BenchError(f"loader: {path}: {answer.status_code} {answer.text.strip()}")
        return answer.json()


def build(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the program; compile it first if its sources changed.

    Raises:
        ToolError: there is no Go, or it does not compile.
    """
    digest = hashlib.sha256()
    for source in sorted([*MODULE.glob("*.go"), MODULE / "go.mod"]):
        digest.update(source.read_bytes())
    return acquire_path(
        cache_folder(environ) / f"bench-{digest.hexdigest()[:8]}",
        "the loader",
        lambda draft: build_with_go("the loader", MODULE, draft, ".", environ=environ),
    )

"""Usage of processes: CPU seconds and resident memory, as Linux counts them."""

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final

_TICK: Final = os.sysconf("SC_CLK_TCK")
_PROC: Final = Path("/proc")
_CALM_CORES: Final = 0.3
_LOOK_SECONDS: Final = 1.0


def parse_cpu(stat: str) -> int:
    """Pure: return the ticks of user and system time in ``/proc/<pid>/stat`` (proc(5)), for any name of the program.

    They include the ticks of ended children that the process has waited for.
    """
    return sum(int(field) for field in _fields(stat)[11:15])


def parse_parent(stat: str) -> int:
    """Pure: return the id of the parent process in ``/proc/<pid>/stat``."""
    return int(_fields(stat)[1])


def _fields(stat: str) -> list[str]:
    return stat.rpartition(")")[2].split()


def parse_resident(status: str) -> float:
    """Pure: return the MiB of ``VmRSS`` in ``/proc/<pid>/status``."""
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS:"))


def parse_machine(stat: str) -> int:
    """Pure: return the ticks that all cores were busy, in ``/proc/stat``; waiting for a disk does not count."""
    user, nice, system, _idle, _iowait, irq, softirq, *_ = (int(field) for field in stat.splitlines()[0].split()[1:])
    return user + nice + system + irq + softirq


def families(pids: Iterable[int]) -> dict[int, dict[int, int]]:
    """Return, for each process, the ticks that it and each of its living descendants have used, by process id."""
    stats: dict[int, str] = {}
    for folder in _PROC.glob("[0-9]*"):
        # Processes may end during the reading.
        with suppress(FileNotFoundError, ProcessLookupError):
            stats[int(folder.name)] = (folder / "stat").read_text()
    children: dict[int, list[int]] = {}
    for pid, stat in stats.items():
        children.setdefault(parse_parent(stat), []).append(pid)
    return {
        pid: {member: parse_cpu(stats[member]) for member in _descent(pid, children) if member in stats} for pid in pids
    }


def _descent(pid: int, children: Mapping[int, Sequence[int]]) -> list[int]:
    return [pid, *(member for child in children.get(pid, ()) for member in _descent(child, children))]


def resident(pid: int) -> float:
    """Return the resident memory of a process and its descendants in MiB."""
    total = 0.0
    for member in families([pid])[pid]:
        with suppress(FileNotFoundError, ProcessLookupError, StopIteration):
            total += parse_resident((_PROC / str(member) / "status").read_text())
    return total


def machine_cpu_seconds() -> float:
    """Return the CPU seconds that the whole machine has used so far."""
    return parse_machine((_PROC / "stat").read_text()) / _TICK


@dataclass(frozen=True, slots=True)
class Used:
    """CPU seconds used between two moments, by process."""

    by_name: Mapping[str, float]

    @property
    def total(self) -> float:
        """CPU seconds of all processes of the benchmark."""
        return sum(self.by_name.values())

    def __add__(self, usage: "Used") -> "Used":
        """Return what the same processes used in two spans of time."""
        return Used({name: seconds + usage.by_name[name] for name, seconds in self.by_name.items()})


class Meter:
    """Meter of named processes with all their descendants, from its creation to `read`."""

    def __init__(self, pids: Mapping[str, Sequence[int]]) -> None:
        """Start to measure; this process counts as one of the benchmark's, without its children."""
        self._pids = pids
        self._before = self._now()

    def read(self) -> Used:
        """Return the usage since then."""
        return Used({name: (ticks - self._before[name]) / _TICK for name, ticks in self._now().items()})

    def _now(self) -> dict[str, int]:
        own_pid = os.getpid()
        ticks = families([own_pid, *chain.from_iterable(self._pids.values())])
        by_name = {name: sum(sum(ticks[pid].values()) for pid in pids) for name, pids in self._pids.items()}
        # Other children of this process, which it has waited for, are not measured: between two readings
        # there are none.
        return {**by_name, "harness": ticks[own_pid][own_pid]}


class Noise:
    """Work of the machine outside the benchmark, until `cores`; exact once the benchmark's children have ended."""

    def __init__(self) -> None:
        """Start to measure."""
        self._began = time.monotonic()
        self._before = self._others()

    def cores(self) -> float:
        """Return how many cores other processes used."""
        return max(0.0, (self._others() - self._before) / (time.monotonic() - self._began))

    def _others(self) -> float:
        # Its fifth field is the time since some moment; the others are user and system, of this process and its
        # children.
        return machine_cpu_seconds() - sum(os.times()[:4])


def wait_calm(patience: float) -> float:
    """Wait until the machine is idle, or for ``patience`` seconds; return the cores that other processes use."""
    deadline = time.monotonic() + patience
    while True:
        before = machine_cpu_seconds()
        time.sleep(_LOOK_SECONDS)
        cores = (machine_cpu_seconds() - before) / _LOOK_SECONDS
        if cores < _CALM_CORES or time.monotonic() > deadline:
            return cores

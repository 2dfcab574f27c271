"""What processes use: CPU seconds and resident memory, as Linux counts them."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TICK: Final = os.sysconf("SC_CLK_TCK")
_PROC: Final = Path("/proc")
_CALM_CORES: Final = 0.3
_LOOK_SECONDS: Final = 1.0


def parse_cpu(stat: str) -> int:
    """Pure: the ticks of user and system time in ``/proc/<pid>/stat`` (proc(5)), whatever the program is called."""
    fields = stat.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def parse_resident(status: str) -> float:
    """Pure: the MiB of ``VmRSS`` in ``/proc/<pid>/status``."""
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS:"))


def parse_machine(stat: str) -> int:
    """Pure: the ticks that all cores were busy, in ``/proc/stat``; waiting for a disk is not being busy."""
    user, nice, system, _idle, _iowait, irq, softirq, *_ = (int(field) for field in stat.splitlines()[0].split()[1:])
    return user + nice + system + irq + softirq


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds that a process, with all its threads, has used so far."""
    return parse_cpu((_PROC / str(pid) / "stat").read_text()) / _TICK


def resident(pid: int) -> float:
    """Return a process's resident memory in MiB."""
    return parse_resident((_PROC / str(pid) / "status").read_text())


def machine_cpu_seconds() -> float:
    """Return the CPU seconds that the whole machine has used so far."""
    return parse_machine((_PROC / "stat").read_text()) / _TICK


@dataclass(frozen=True, slots=True)
class Used:
    """CPU seconds used between two moments, by process."""

    by_name: Mapping[str, float]

    @property
    def total(self) -> float:
        """All that belongs to the benchmark used."""
        return sum(self.by_name.values())


class Meter:
    """Reads what named processes use, from its making to `read`."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        """Start to measure; this process counts as one of the benchmark's."""
        self._pids = {**pids, "harness": os.getpid()}
        self._before = {name: cpu_seconds(pid) for name, pid in self._pids.items()}

    def read(self) -> Used:
        """Return what was used since."""
        return Used({name: cpu_seconds(pid) - self._before[name] for name, pid in self._pids.items()})


class Noise:
    """What the machine does beside the benchmark, from its making to `cores`; exact once our children have ended."""

    def __init__(self) -> None:
        """Start to listen."""
        self._began = time.monotonic()
        self._before = self._others()

    def cores(self) -> float:
        """Return how many cores other processes kept busy."""
        return max(0.0, (self._others() - self._before) / (time.monotonic() - self._began))

    def _others(self) -> float:
        # Its fifth field is the time since some moment, the others are user and system, ours and our children's.
        return machine_cpu_seconds() - sum(os.times()[:4])


def wait_calm(patience: float) -> float:
    """Return when the machine does nothing else, or after ``patience`` seconds; return the cores others use."""
    deadline = time.monotonic() + patience
    while True:
        before = machine_cpu_seconds()
        time.sleep(_LOOK_SECONDS)
        cores = (machine_cpu_seconds() - before) / _LOOK_SECONDS
        if cores < _CALM_CORES or time.monotonic() > deadline:
            return cores

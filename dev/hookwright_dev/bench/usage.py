"""Usage of processes: CPU seconds and resident memory, by psutil."""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import psutil

_CALM_CORES: Final = 0.3
_LOOK_SECONDS: Final = 1.0


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and its descendants; of those that have ended, what it has waited for."""
    total = 0.0
    for member in _family(pid):
        # Processes may end during the reading.
        with suppress(psutil.NoSuchProcess):
            times = member.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def resident(pid: int) -> float:
    """Return the resident memory of a process and its descendants in MiB."""
    total = 0.0
    for member in _family(pid):
        with suppress(psutil.NoSuchProcess):
            total += member.memory_info().rss / 2**20
    return total


def _family(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def machine_cpu_seconds() -> float:
    """Return the CPU seconds that all cores were busy so far; waiting for a disk does not count."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq)


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
        return Used({name: seconds - self._before[name] for name, seconds in self._now().items()})

    def _now(self) -> dict[str, float]:
        by_name = {name: sum(map(cpu_seconds, pids)) for name, pids in self._pids.items()}
        return {**by_name, "harness": time.process_time()}


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

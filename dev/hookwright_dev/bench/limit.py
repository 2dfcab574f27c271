"""A share of the processor for a process, as a pod's CPU limit: a control group with a quota (Linux)."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hookwright_dev.errors import BenchError

_ROOT: Final = Path("/sys/fs/cgroup")
_PERIOD_US: Final = 100_000


@contextmanager
def limited(pids: Sequence[int], cores: float) -> Iterator[None]:
    """Limit each of these processes to so many cores during a block, with all its threads and new children.

    Raises:
        BenchError: control groups cannot be created here.
    """
    parent, settings = _controller(cores)
    groups = [parent / f"hookwright-bench-{os.getpid()}-{number}" for number in range(len(pids))]
    try:
        for group, pid in zip(groups, pids, strict=True):
            _confine(group, pid, settings)
        yield
    finally:
        for group in groups:
            if group.exists():
                for member in (group / "cgroup.procs").read_text().split():
                    (parent / "cgroup.procs").write_text(member)
                group.rmdir()


def _confine(group: Path, pid: int, settings: Mapping[str, str]) -> None:
    try:
        group.mkdir()
        for name, value in settings.items():
            (group / name).write_text(value)
        (group / "cgroup.procs").write_text(str(pid))
    except OSError as error:
        raise BenchError(f"cannot limit the CPU of a process: {error}; run as root") from None


def _controller(cores: float) -> tuple[Path, dict[str, str]]:
    """Return the folder for new groups, and the files to write in each; of control groups version 2 or 1."""
    quota = int(cores * _PERIOD_US)
    if (_ROOT / "cgroup.controllers").exists():
        (_ROOT / "cgroup.subtree_control").write_text("+cpu")
        return _ROOT, {"cpu.max": f"{quota} {_PERIOD_US}"}
    if (_ROOT / "cpu" / "cgroup.procs").exists():
        return _ROOT / "cpu", {"cpu.cfs_period_us": str(_PERIOD_US), "cpu.cfs_quota_us": str(quota)}
    raise BenchError("cannot limit the CPU of a process: there are no control groups under /sys/fs/cgroup")

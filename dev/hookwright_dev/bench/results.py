"""Results of a benchmark run with its machine and time; kept as JSON under ``bench-results/``."""

import json
import os
import platform
import sqlite3
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

from hookwright_dev.bench.marks import MARKS, verdict
from hookwright_dev.bench.measures import Measure
from hookwright_dev.cluster.assets import kubernetes

_LIBRARIES: Final = ("hookwright", "aiohttp", "kopf", "sqlalchemy", "uvicorn", "uvloop")


@dataclass(frozen=True, slots=True)
class Results:
    """One run.

    Attributes:
        machine: its machine, by plain names.
        faults: by case, why it has no figures.
        noise: by case, how many cores other processes used meanwhile.
    """

    began: datetime
    seconds: float
    command: str
    machine: Mapping[str, str]
    measures: Sequence[Measure]
    faults: Mapping[str, str]
    noise: Mapping[str, float]

    def to_json(self) -> str:
        """Return all figures as JSON, with their marks and whether they are met."""
        figures = [
            {**asdict(measure), "mark": str(MARKS.get(measure.key, "")), "verdict": verdict(measure)}
            for measure in self.measures
        ]
        content = {
            "began": self.began.isoformat(),
            "seconds": round(self.seconds),
            "command": self.command,
            "machine": dict(self.machine),
            "noise_cores": dict(self.noise),
            "faults": dict(self.faults),
            "measures": figures,
        }
        return json.dumps(content, indent=2, ensure_ascii=False) + "\n"

    def write(self, folder: Path) -> Path:
        """Write the JSON file, named by its time, and return its path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.began:%Y%m%dT%H%M%SZ}.json"
        path.write_text(self.to_json())
        return path


def machine() -> dict[str, str]:
    """Return the facts of this machine, and the versions of the measured programs."""
    return {
        "CPU": f"{os.cpu_count()} cores, {_field('/proc/cpuinfo', 'model name') or platform.machine()}",
        "memory": f"{int(_field('/proc/meminfo', 'MemTotal').split()[0] or 0) // 1_048_576} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "Python": f"{platform.python_version()}, {'' if _built_by_profile() else 'not '}built by profile",
        "SQLite": sqlite3.sqlite_version,
        "Kubernetes": f"{kubernetes().version}, etcd {kubernetes().etcd}",
        **{name: version(name) for name in _LIBRARIES},
    }


def _built_by_profile() -> bool:
    """Return whether this Python was built by profile; the flag is empty in a build of Debian."""
    arguments, flag = sysconfig.get_config_vars("CONFIG_ARGS", "PGO_PROF_USE_FLAG")
    return "--enable-optimizations" in (arguments or "") or flag == ""


def _field(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        if line.startswith(name):
            return line.partition(":")[2].strip()
    return ""

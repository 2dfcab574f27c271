"""Results of a run, shown in the terminal and in ``docs/``."""

import os
import platform
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from string import Template
from typing import Final

from rich.table import Table

from hookwright_dev.bench.figures import MARKS, Measure, case_of, shown, verdict
from hookwright_dev.cluster.assets import kubernetes

_LIBRARIES: Final = ("hookwright", "aiohttp", "kopf", "sqlalchemy", "uvicorn", "uvloop")

_COLOURS = {"met": "green", "missed": "red", "": "default"}


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


def machine() -> dict[str, str]:
    """Return the facts of this machine, and the versions of the measured programs."""
    return {
        "CPU": f"{os.cpu_count()} cores, {_field('/proc/cpuinfo', 'model name') or platform.machine()}",
        "memory": f"{int(_field('/proc/meminfo', 'MemTotal').split()[0] or 0) // 1_048_576} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "SQLite": sqlite3.sqlite_version,
        "Kubernetes": f"{kubernetes().version}, etcd {kubernetes().etcd}",
        **{name: version(name) for name in _LIBRARIES},
    }


def table(measures: Sequence[Measure]) -> Table:
    """Return the figures for a terminal."""
    figures = Table("what", "value", "unit", "mark", "", title="make bench", title_justify="left")
    figures.columns[1].justify = "right"
    for _, same in groupby(measures, case_of):
        for measure in same:
            word = verdict(measure)
            mark = str(MARKS.get(measure.key, ""))
            figures.add_row(measure.title, shown(measure), measure.unit, mark, f"[{_COLOURS[word]}]{word}[/]")
        figures.add_section()
    return figures


def document(template: str, results: Results, cases: Iterable[str]) -> str:
    """Return a page of the documentation with the results in the places of its template."""
    verdicts = [verdict(measure) for measure in results.measures if measure.key in MARKS]
    misses = [measure.title for measure in results.measures if verdict(measure) == "missed"]
    summary = f"{verdicts.count('met')} of {len(verdicts)} marks are met in this run."
    if misses:
        summary += f" Missed: {'; '.join(misses)}."
    return Template(template).substitute(
        summary=summary,
        machine="\n".join(f"- {name}: {value}" for name, value in results.machine.items()),
        figures=_results(results.measures),
        noise=", ".join(f"{case} {cores:.2f}" for case, cores in results.noise.items()),
        cases=", ".join(cases),
        command=results.command,
        date=f"{results.began:%Y-%m-%d %H:%M} UTC",
        minutes=round(results.seconds / 60),
    )


def _results(measures: Sequence[Measure]) -> str:
    rows = [
        (measure.title, shown(measure), measure.unit, str(MARKS.get(measure.key, "")), verdict(measure))
        for measure in measures
    ]
    return _markdown(("What", "Value", "Unit", "Mark", ""), rows)


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _field(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        if line.startswith(name):
            return line.partition(":")[2].strip()
    return ""

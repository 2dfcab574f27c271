"""Pure: the figures as tables, for the terminal and for ``docs/performance.md``."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from string import Template

from rich.table import Table

from hookwright_dev.bench import peers
from hookwright_dev.bench.marks import MARKS, verdict
from hookwright_dev.bench.measures import Measure, case_of, shown
from hookwright_dev.bench.results import Results

_COLOURS = {"met": "green", "missed": "red", "": "default"}


def table(measures: Sequence[Measure]) -> Table:
    """Return the figures for a terminal."""
    drawn = Table("what", "value", "unit", "mark", "", title="make bench", title_justify="left")
    drawn.columns[1].justify = "right"
    for _, same in groupby(measures, case_of):
        for measure in same:
            word = verdict(measure)
            mark = str(MARKS.get(measure.key, ""))
            drawn.add_row(measure.title, shown(measure), measure.unit, mark, f"[{_COLOURS[word]}]{word}[/]")
        drawn.add_section()
    return drawn


def document(template: str, results: Results, cases: Iterable[str]) -> str:
    """Return docs/performance.md."""
    judged = [verdict(measure) for measure in results.measures if measure.key in MARKS]
    missed = [measure.title for measure in results.measures if verdict(measure) == "missed"]
    summary = f"{judged.count('met')} of {len(judged)} marks are met in this run."
    if missed:
        summary += f" Missed: {'; '.join(missed)}."
    return Template(template).substitute(
        summary=summary,
        machine="\n".join(f"- {name}: {value}" for name, value in results.machine.items()),
        results=_results(results.measures),
        noise=", ".join(f"{case} {cores:.2f}" for case, cores in results.noise.items()),
        peers=_peers({measure.key: measure for measure in results.measures}),
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


def _peers(ours: Mapping[str, Measure]) -> str:
    rows = []
    for key, title, theirs in peers.FIGURES:
        found = [ours.get(name) for name in (key, *_on_postgres(key))]
        rows.append((title, *(f"**{shown(one)}**" if one else "" for one in found), *theirs))
    head = ("Hookwright (SQLite)", "Hookwright (PostgreSQL)", "Hookwright (PostgreSQL, 2 replicas)")
    return _markdown(("", *head, *peers.NAMES), rows)


def _on_postgres(key: str) -> list[str]:
    """Return the keys of the same figure on PostgreSQL, with one replica and with two."""
    case, _, rest = key.partition(".")
    return [f"postgres.{count}.{rest if case == 'throughput' else key}" for count in (1, 2)]


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)

"""Command line ``python -m hookwright_dev.bench [CASE ...] [--full]``; ``make bench`` calls it."""

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.resources import files
from subprocess import SubprocessError
from typing import Final

import httpx
from rich.console import Console

from hookwright_dev.bench import page
from hookwright_dev.bench.cases import CASES, REPEATED, Options
from hookwright_dev.bench.figures import Measure, comparisons, medians
from hookwright_dev.bench.page import Results, machine
from hookwright_dev.bench.usage import Noise, wait_calm
from hookwright_dev.cluster.stack import ROOT
from hookwright_dev.errors import DevError
from hookwright_dev.progress import progress

DOCUMENTS: Final = {
    "page.md": ROOT / "docs" / "performance.md",
    "figures.md": ROOT / "docs" / "measurements" / "bench.md",
}
"""The pages of the documentation by their templates."""
_FULL_RUNS: Final = 3


def main() -> int:
    """Measure and print the table; write the pages if all cases gave figures, otherwise return 1."""
    parser = _parser()
    options = parser.parse_args()
    if unknown := set(options.cases) - set(CASES):
        parser.error(f"no case is called {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console = Console()
    try:
        results = _measured(options)
    except DevError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped")
        return 130
    console.print(page.table(results.measures))
    for case, cores in results.noise.items():
        console.print(f"{case}: other processes kept {cores:.2f} cores busy")
    for case, fault in results.faults.items():
        console.print(f"[red]{case} failed:[/] {fault}", markup=True, highlight=False)
    if not results.faults and set(options.cases) >= set(CASES):
        for template, path in DOCUMENTS.items():
            text = (files("hookwright_dev.bench") / template).read_text()
            path.write_text(page.document(text, results, CASES))
            console.print(f"written: {path.relative_to(ROOT)}")
    return 1 if results.faults else 0


def _measured(arguments: argparse.Namespace) -> Results:
    began, clock = datetime.now(UTC), time.monotonic()
    options = Options(full=arguments.full, seconds=arguments.seconds)
    measures: list[Measure] = []
    faults: dict[str, str] = {}
    noise: dict[str, float] = {}
    for case in arguments.cases:
        runs = arguments.runs or (_FULL_RUNS if options.full and case in REPEATED else 1)
        with progress(f"measuring {case}"):
            wait_calm(arguments.patience)
            noise_meter = Noise()
            try:
                measures += _case(case, options, runs)
            except (DevError, httpx.HTTPError, SubprocessError) as fault:
                faults[case] = str(fault) or type(fault).__name__
            noise[case] = noise_meter.cores()
    measures += comparisons(measures)
    command = " ".join(["make bench", *(["ARGS=" + repr(" ".join(sys.argv[1:]))] if sys.argv[1:] else [])])
    return Results(began, time.monotonic() - clock, command, machine(), measures, faults, noise)


def _case(case: str, options: Options, runs: int) -> Sequence[Measure]:
    return medians([CASES[case](options) for _ in range(runs)])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench", description="Measure Hookwright on this machine.")
    parser.add_argument(
        "cases", nargs="*", default=list(CASES), metavar="CASE", help=f"everything by default: {', '.join(CASES)}"
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="10,000,000 deliveries, minutes of load, medians of three; takes 30 minutes",
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="of load where throughput is measured (10)")
    parser.add_argument("--runs", type=int, default=0, help="of each case, of which the median counts")
    parser.add_argument("--patience", type=float, default=20.0, help="seconds to wait for a quiet machine before each")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())

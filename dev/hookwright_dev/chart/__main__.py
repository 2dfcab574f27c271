"""Command line ``python -m hookwright_dev.chart [--check]``: write the chart's generated files, or check them."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from hookwright_crds import generated_files
from hookwright_dev.chart.generate import CHART, files
from hookwright_dev.cluster.stack import ROOT


def surplus(root: Path, expected: Mapping[Path, str]) -> list[Path]:
    """Return the CRDs that the chart has and ``crds/`` has not."""
    present = (root / CHART / "files" / "crds").glob("*.yaml")
    return sorted(path for path in present if path.relative_to(root) not in expected)


def check(root: Path, expected: Mapping[Path, str]) -> int:
    """Return 0 if every file is current, else 1 and print the differences."""
    return generated_files.check(_below(root, expected), "make docs", surplus(root, expected))


def write(root: Path, expected: Mapping[Path, str]) -> int:
    """Write every generated file, remove files that are no longer generated, and return 0."""
    for path in surplus(root, expected):
        path.unlink()
    return generated_files.write(_below(root, expected))


def _below(root: Path, expected: Mapping[Path, str]) -> dict[Path, str]:
    return {root / path: text for path, text in expected.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m hookwright_dev.chart", description="Generate the chart's files.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is stale")
    options = parser.parse_args(arguments)
    act = check if options.check else write
    return act(ROOT, files(ROOT))


if __name__ == "__main__":
    sys.exit(main())

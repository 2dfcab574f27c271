"""Command line ``python -m hookwright_dev.chart [--check]``: write the chart's generated files, or check them."""

import argparse
import difflib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from hookwright_dev.chart.generate import CHART, files
from hookwright_dev.cluster.stack import ROOT


def difference(root: Path, path: Path, text: str) -> str:
    """Return the difference between a file and its generated text as a unified diff; empty if there is none."""
    before = (root / path).read_text() if (root / path).exists() else ""
    old, new = before.splitlines(keepends=True), text.splitlines(keepends=True)
    return "".join(difflib.unified_diff(old, new, str(path), f"{path} (generated)"))


def surplus(root: Path, expected: Mapping[Path, str]) -> list[Path]:
    """Return the CRDs that the chart has and ``crds/`` has not."""
    present = {path.relative_to(root) for path in (root / CHART / "files" / "crds").glob("*.yaml")}
    return sorted(present - set(expected))


def check(root: Path, expected: Mapping[Path, str]) -> int:
    """Return 0 if every file is current, else 1 and print the differences."""
    differences = "".join(difference(root, path, text) for path, text in expected.items())
    strays = surplus(root, expected)
    sys.stderr.write(differences + "".join(f"{path}: nothing generates this file; delete it\n" for path in strays))
    if differences or strays:
        sys.stderr.write("The chart is stale; run `.venv/bin/python -m hookwright_dev.chart`.\n")
        return 1
    return 0


def write(root: Path, expected: Mapping[Path, str]) -> int:
    """Write every generated file, remove files that are no longer generated, and return 0."""
    for path in surplus(root, expected):
        (root / path).unlink()
    for path, text in expected.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m hookwright_dev.chart", description="Generate the chart's files.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is stale")
    options = parser.parse_args(arguments)
    act = check if options.check else write
    return act(ROOT, files(ROOT))


if __name__ == "__main__":
    sys.exit(main())

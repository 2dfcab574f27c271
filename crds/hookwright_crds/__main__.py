"""``python -m hookwright_crds [--check] [folder]``: write the CRDs, or check whether they are current."""

import argparse
import difflib
import sys
from collections.abc import Sequence
from pathlib import Path

from hookwright_crds.generate import files


def _difference(folder: Path, name: str, text: str) -> str:
    path = folder / name
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), text.splitlines(keepends=True), str(path), f"{path} (generated)"
    )
    return "".join(lines)


def check(folder: Path) -> int:
    """Return 0 if the files in ``folder`` equal the generated files, else print the differences and return 1."""
    expected = files()
    differences = "".join(_difference(folder, name, text) for name, text in expected.items())
    surplus = sorted(path for path in folder.glob("*.yaml") if path.name not in expected)
    sys.stderr.write(differences + "".join(f"{path}: no model generates this file; delete it\n" for path in surplus))
    if differences or surplus:
        sys.stderr.write(f"The CRDs in {folder} are stale; run `make crds`.\n")
        return 1
    return 0


def write(folder: Path) -> int:
    """Write every generated file into ``folder`` and return 0."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (folder / name).write_text(text, encoding="utf-8")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m hookwright_crds", description="Generate the CRDs from the models.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("crds"), help="folder of the files")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the files are stale")
    chosen = parser.parse_args(arguments)
    return check(chosen.folder) if chosen.check else write(chosen.folder)


if __name__ == "__main__":
    sys.exit(main())

"""``python -m hookwright_crds [--check] [folder]``: write the files that are made from the models, or check them."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from hookwright_crds import command_line_data, generated_files
from hookwright_crds.generate import files


def _texts(folder: Path) -> dict[Path, str]:
    """Return each generated file: the CRDs, and beside their folder the file of the command line."""
    command_line = folder.parent / "cli" / "hookwright_cli" / "contract.json"
    return {**{folder / name: text for name, text in files().items()}, command_line: command_line_data.text()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m hookwright_crds", description="Generate files from the models.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("crds"), help="folder of the CRDs")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the files are stale")
    options = parser.parse_args(arguments)
    texts = _texts(options.folder)
    surplus = sorted(path for path in options.folder.glob("*.yaml") if path not in texts)
    return generated_files.check(texts, "make crds", surplus) if options.check else generated_files.write(texts)


if __name__ == "__main__":
    sys.exit(main())

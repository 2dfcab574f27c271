"""The files that are made from code: write them, or compare them with what the code makes."""

import difflib
import sys
from collections.abc import Collection, Mapping
from pathlib import Path


def check(texts: Mapping[Path, str], command: str, surplus: Collection[Path] = ()) -> int:
    """Return 0 if each file has its text and no file is surplus, else print the differences and return 1.

    Args:
        texts: the text of each file.
        command: writes the files.
        surplus: files that the code made earlier.
    """
    differences = "".join(_difference(path, text) for path, text in texts.items())
    sys.stderr.write(differences + "".join(f"{path}: nothing generates this file; delete it\n" for path in surplus))
    if differences or surplus:
        sys.stderr.write(f"Generated files are stale; run `{command}`.\n")
        return 1
    return 0


def write(texts: Mapping[Path, str]) -> int:
    """Write each file and return 0."""
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


def _difference(path: Path, text: str) -> str:
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    old, new = before.splitlines(keepends=True), text.splitlines(keepends=True)
    return "".join(difflib.unified_diff(old, new, str(path), f"{path} (generated)"))

"""Read files of JSON lines that another process is still writing."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def complete_lines(file: Path) -> list[str]:
    """Return the lines of a file, oldest first, without a last line that has no end yet."""
    text, _, _ = file.read_text(errors="replace").rpartition("\n")
    return text.splitlines()


def entries(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the object of every complete line, oldest first."""
    yield from map(json.loads, complete_lines(file))

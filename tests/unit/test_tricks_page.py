"""docs/tricks.md names only files, names and tests that exist."""

import re
from pathlib import Path

from unit.test_architecture_page import PATH, defined, file_of, named

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "tricks.md").read_text()
ROW = re.compile(r"^\| `.*\|$", re.MULTILINE)


def test_every_file_and_name_on_the_page_exists() -> None:
    """A trick that was removed leaves the page."""
    paths = set(PATH.findall(PAGE))
    assert len(paths) > 40
    assert sorted(path for path in paths if not file_of(path).exists()) == []
    assert [(path, name) for path, name in named(PAGE) if name not in defined(file_of(path))] == []


def test_every_row_has_all_its_columns() -> None:
    """Each trick has its purpose, its gain, its test and the way to remove it."""
    rows = ROW.findall(PAGE)
    assert len(rows) > 25
    assert [row for row in rows if len(re.split(r" \| ", row)) != 5 or "|  |" in row] == []

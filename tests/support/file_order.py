"""The order of the test files when several processes share them."""

from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).resolve().parents[1]
FIRST: Final = (
    "unit",
    "docs/test_commands.py",
    "integration/api/test_schema.py",
    "chart/test_release.py",
    "cluster/test_rights_used.py",
    "cluster/test_apiserver_use.py",
    "cluster/test_writers.py",
    "observability/test_alerts.py",
)
"""Tests that need no program, so that they run while programs are built; then files that take minutes, the longest
first, because otherwise one process works alone at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put these folders and files first; every other file keeps its place."""
    firsts = [TESTS / name for name in FIRST]
    places = {
        path: next((place for place, first in enumerate(firsts) if path.is_relative_to(first)), len(firsts))
        for path in {item.path for item in items}
    }
    items.sort(key=lambda item: places[item.path])

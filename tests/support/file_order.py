"""The order of the test files when several processes share them."""

from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).resolve().parents[1]
LONGEST: Final = (
    "docs/test_commands.py",
    "integration/api/test_schema.py",
    "console/test_accessibility.py",
    "observability/test_alerts.py",
    "cli/test_verbs.py",
    "integration/api/test_generated_clients.py",
)
"""Files that take minutes, the longest first. They begin first: otherwise one process works alone at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first; every other file keeps its place."""
    order = {TESTS / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path, len(LONGEST)))

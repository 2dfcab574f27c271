"""The layout of the sources: one name for one thing, few modules at a root, and checked promises of purity."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = {
    "crds": "hookwright_crds",
    "runtime": "hookwright_runtime",
    "operator": "hookwright_operator",
    "api": "hookwright_api",
    "cli": "hookwright_cli",
}

IMPURE = {
    "aiohttp", "alembic", "asyncpg", "httpx", "kopf", "redis", "sqlalchemy", "uvicorn",
    "asyncio", "socket", "sqlite3", "subprocess", "time", "random", "secrets",
    "hookwright_runtime.kubernetes", "hookwright_operator.delivery.http.sender",
    "hookwright_operator.reconcile.applier", "hookwright_operator.reconcile.observer",
    "hookwright_operator.reconcile.reconciler",
}  # fmt: skip
"""Packages and modules that do I/O, or have a clock or randomness."""
SHARED_MODULE_NAMES = {"__main__", "app", "health", "metrics", "settings"}
"""Each process has one of these modules."""


def modules() -> Iterator[Path]:
    """Return every module of the product, without the migrations."""
    for folder, package in PRODUCT.items():
        for path in sorted((ROOT / folder / package).rglob("*.py")):
            if "versions" not in path.parts:
                yield path


def repeated(names: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the names that have more than one place."""
    return {name: places for name, places in names.items() if len(places) > 1}


def test_no_public_class_name_stands_for_two_classes() -> None:
    """A reader finds a class by its name alone."""
    matches = defaultdict(list)
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                matches[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert len(matches) > 100
    assert repeated(matches) == {}


def test_no_module_name_stands_for_two_modules() -> None:
    """Only routes, which have the name of their resource, exist in the intake and in the API."""
    matches = defaultdict(list)
    for path in modules():
        routes = path.parent.name == "routes"
        if not routes and path.name != "__init__.py" and path.stem not in SHARED_MODULE_NAMES:
            matches[path.stem].append(str(path.relative_to(ROOT)))
    twice = repeated(matches)
    # The contract's events and the service behind them are layers of one thing.
    twice.pop("events", None)
    assert twice == {}


def test_files_and_functions_are_short() -> None:
    """A file of more than 400 lines, or a function of more than 60, has two ideas."""
    long = []
    for path in modules():
        text = path.read_text()
        if len(text.splitlines()) > 400:
            long.append(str(path.relative_to(ROOT)))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                if node.end_lineno - node.lineno >= 60:
                    long.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}")
    assert long == []


@pytest.mark.parametrize(("package", "most"), [("operator/hookwright_operator", 10), ("api/hookwright_api", 16)])
def test_few_modules_are_at_the_root_of_a_package(package: str, most: int) -> None:
    """A reader who opens the folder sees its parts at once."""
    matches = [path.stem for path in (ROOT / package).glob("*.py") if path.name != "__init__.py"]
    assert "__main__" in matches
    assert len(matches) <= most, sorted(matches)


def test_no_pure_module_imports_io_a_clock_or_randomness() -> None:
    """A module whose docstring begins with "Pure:" is tested fast and exactly. Libraries below do their own things."""
    pure = [path for path in modules() if (ast.get_docstring(ast.parse(path.read_text())) or "").startswith("Pure:")]
    assert len(pure) > 30
    matches = {
        str(path.relative_to(ROOT)): impure
        for path in pure
        if (impure := [name for name in imported(path) if any(f"{name}.".startswith(f"{item}.") for item in IMPURE)])
    }
    assert matches == {}


def imported(path: Path) -> Iterator[str]:
    """Yield the names that a module imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)

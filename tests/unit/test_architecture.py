"""The layout of the sources: one name for one thing, few modules at a root, and checked promises of purity."""

import ast
import tomllib
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
    found = defaultdict(list)
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert len(found) > 100
    assert repeated(found) == {}


def test_no_module_name_stands_for_two_modules() -> None:
    """Only routes, which have the name of their resource, exist in the intake and in the API."""
    found = defaultdict(list)
    for path in modules():
        routes = path.parent.name == "routes"
        if not routes and path.name != "__init__.py" and path.stem not in SHARED_MODULE_NAMES:
            found[path.stem].append(str(path.relative_to(ROOT)))
    twice = repeated(found)
    # The contract's events and the services behind them are layers of one thing.
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
    found = [path.stem for path in (ROOT / package).glob("*.py") if path.name != "__init__.py"]
    assert "__main__" in found
    assert len(found) <= most, sorted(found)


def test_the_contract_of_purity_lists_exactly_the_pure_modules() -> None:
    """import-linter checks each module whose docstring begins with "Pure:"."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [one for one in contracts if one["name"].startswith("what is pure")]
    promised = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts[1:]).removesuffix(".__init__")
        for path in modules()
        if (ast.get_docstring(ast.parse(path.read_text())) or "").startswith("Pure:")
    }
    assert len(promised) > 30
    assert set(contract["source_modules"]) == promised


def test_every_package_has_a_contract_of_layers_for_all_its_modules() -> None:
    """A new module needs a place in the layers of its package."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    covered = {container for one in contracts if one.get("exhaustive") for container in one["containers"]}
    packages = {
        ".".join(path.parent.relative_to(ROOT).parts[1:])
        for path in modules()
        if path.name == "__init__.py" and "migrations" not in path.parts
    }
    assert len(packages) > 10
    assert packages <= covered, packages - covered

"""docs/architecture.md names only files and functions that exist, so that a reader can go to each definition."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
OPERATOR = ROOT / "operator" / "hookwright_operator"
PRODUCT = ("crds", "runtime", "operator", "api")

SUFFIXES = ("py", "yaml", "json", "md", "toml")
PATH = re.compile(rf"`([\w./-]+(?:\.(?:{'|'.join(SUFFIXES)})|/))`")
NAME = r"`(?![\w./-]+\.py`)[A-Za-z_]\w*(?:\.\w+)?`"
NAMED = re.compile(rf"`([\w./-]+\.py)`((?:(?: |, ){NAME})+)")
"""A module and the names directly behind it."""
METHOD = re.compile(r"`(_?[A-Z]\w*\.\w+)`")
STEP = re.compile(r"^\d+\. .*$", re.MULTILINE)


def file_of(path: str) -> Path:
    """Return the place of a path on the page: below the root, else below the operator's package."""
    return ROOT / path if (ROOT / path).exists() else OPERATOR / path


def named(page: str) -> list[tuple[str, str]]:
    """Return each module on the page with each name beside it."""
    return [(path, name) for path, names in NAMED.findall(page) for name in re.findall(r"`([\w.]+)`", names)]


@cache
def defined(file: Path) -> frozenset[str]:
    """Return what a module defines: its functions, classes and constants, and the members of its classes."""
    return frozenset(_names(ast.parse(file.read_text()).body))


def _names(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name
            case ast.ClassDef():
                yield node.name
                yield from (f"{node.name}.{member}" for member in _names(node.body))
            case ast.Assign():
                yield from (target.id for target in node.targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name


def missing(page: str) -> list[tuple[str, str]]:
    """Return the names on the page that the file beside them does not define."""
    return [(path, name) for path, name in named(page) if name not in defined(file_of(path))]


def test_every_file_on_the_page_exists() -> None:
    """A reader opens a path from the root or from the operator's package."""
    paths = set(PATH.findall(PAGE))
    assert len(paths) > 60
    assert sorted(path for path in paths if not file_of(path).exists()) == []


def test_every_name_beside_a_file_is_defined_in_it() -> None:
    """A reader searches a function in the file that the page names."""
    assert len(named(PAGE)) > 80
    assert missing(PAGE) == []


def test_every_method_on_the_page_is_defined_in_the_product() -> None:
    """A method without a file beside it is found by its class."""
    modules = [path for folder in PRODUCT for path in (ROOT / folder).rglob("*.py")]
    record = frozenset[str]().union(*(defined(path) for path in modules))
    methods = set(METHOD.findall(PAGE))
    assert len(methods) > 60
    assert methods - record == set()


@pytest.mark.parametrize(
    "walk", ["From a request to the stored result", "From `kubectl apply` to Ready"], ids=["event", "yaml"]
)
def test_every_step_of_a_walk_names_its_file_and_function(walk: str) -> None:
    """No step leaves the reader to search."""
    _, _, section = PAGE.partition(f"\n## {walk}\n")
    steps = STEP.findall(section.partition("\n## ")[0])
    assert len(steps) >= 20
    assert [step for step in steps if not NAMED.match(step.partition(". ")[2])] == []

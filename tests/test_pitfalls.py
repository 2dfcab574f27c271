"""Every rule of docs/pitfalls.md has tests that exist, and the rules about the structure of the code are kept."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hookwright_dev import reference
from hookwright_operator.watch import kopf_informer

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "pitfalls.md"
ROWS = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")][1:]
SKIP = re.compile(r"pytest\.(mark\.)?(skip|skipif|importorskip|xfail)\b")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def parsed(folder: str) -> Iterator[tuple[Path, ast.Module]]:
    """Yield the modules below a folder of the repository."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        yield path, ast.parse(path.read_text(), str(path))


@pytest.mark.parametrize("row", ROWS, ids=[row.split("|")[2].strip()[:60] for row in ROWS])
def test_every_rule_has_tests_that_exist(row: str) -> None:
    """A rule whose test was renamed or removed is not checked any more."""
    names = TEST.findall(row)
    assert names, f"no test is named for: {row}"
    for path, name in names:
        tree = ast.parse((ROOT / path).read_text())
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert name in functions, f"{path} has no {name}"


def test_the_table_is_whole() -> None:
    """The table has 40 rules, so an edit cannot remove one unnoticed."""
    assert len(ROWS) == 40


def test_the_references_are_what_the_code_says() -> None:
    """The descriptions of settings and metrics come from the code, and the pages are current."""
    assert reference.main(["--check"]) == 0


def test_handlers_are_thin_and_return_nothing() -> None:
    """Kopf stores a handler's return value in the object's status, and a long handler cannot be tested."""
    tree = ast.parse(Path(kopf_informer.__file__).read_text())
    nodes = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.AsyncFunctionDef)
        and any(ast.unparse(decorator).startswith("kopf.on.event") for decorator in node.decorator_list)
    ]
    assert nodes
    for handler in nodes:
        assert len(handler.body) <= 3, handler.name
        assert not any(isinstance(node, ast.Return) and node.value for node in ast.walk(handler)), handler.name


def test_kopf_keeps_no_progress_in_any_object() -> None:
    """Only watches are registered, because kopf stores progress for creation, update and deletion handlers."""
    allowed = {"kopf.on.event", "kopf.on.login", "kopf.on.startup", "kopf.on.cleanup"}
    uses = set()
    for _, tree in parsed("operator/hookwright_operator"):
        uses |= {
            ast.unparse(node)
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("kopf.on.") and "." in ast.unparse(node)
        }
    assert uses
    assert uses <= allowed
    assert not kopf_informer.kopf_settings().posting.enabled


def test_no_test_is_skipped() -> None:
    """Everything that a test needs is always present, because a skipped test looks like a passed one."""
    for path in (ROOT / "tests").rglob("*.py"):
        assert not SKIP.search(path.read_text()), path

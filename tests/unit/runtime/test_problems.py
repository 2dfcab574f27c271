"""Problem documents have a code of the documented list."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hookwright_dev.cluster.stack import ROOT
from hookwright_runtime.problems import TYPE_BASE, Code, ProblemError, code_of, known_code

PRODUCT = ("runtime", "operator", "api")


def raised() -> Iterator[tuple[Path, ast.Call]]:
    """Yield every call of ProblemError in the product."""
    for folder in PRODUCT:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ProblemError":
                    yield path.relative_to(ROOT), node


def test_every_refusal_of_the_product_has_a_status_of_the_list() -> None:
    """A literal status has a code, and a special code has the status of the list."""
    calls = list(raised())
    assert len(calls) > 30
    for path, call in calls:
        place = f"{path}:{call.lineno}"
        status = call.args[0].value if isinstance(call.args[0], ast.Constant) else None
        assert not isinstance(status, int) or code_of(status).status == status, place
        for keyword in call.keywords:
            if keyword.arg == "code" and isinstance(keyword.value, ast.Attribute):
                assert Code[keyword.value.attr].status == status, place


@pytest.mark.parametrize("status", {code.status for code in Code})
def test_a_problem_without_a_special_code_has_that_of_its_status(status: int) -> None:
    """The document names the code and the page that describes it."""
    document = json.loads(ProblemError(status, "because").body())
    assert (document["code"], code_of(status).status) == (code_of(status), status)
    assert document["type"] == TYPE_BASE + document["code"]


def test_an_unusual_status_of_the_framework_has_a_code() -> None:
    """The kind follows from the class of the status."""
    assert (code_of(406), code_of(502)) == (Code.BAD_REQUEST, Code.INTERNAL_ERROR)


@pytest.mark.parametrize(
    ("written", "code"),
    [("event_id_reused", Code.EVENT_ID_REUSED), ("of_a_later_version", None), (None, None), (["a"], None)],
)
def test_only_a_known_code_of_the_operator_is_passed_on(written: object, code: Code | None) -> None:
    """An operator of another version may have other codes, or none."""
    assert known_code(written) is code

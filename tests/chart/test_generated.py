"""The generated files are current, and what they are made from is complete."""

import pytest
from support.chart_rendering import CHART, GOLDEN, GOLDEN_FOLDER, Chart, golden_text

from hookwright_dev.chart.rbac import RbacError, roles
from hookwright_dev.chart.readme import UndocumentedError, documented
from hookwright_dev.reference import main


def test_the_generated_files_are_current() -> None:
    """References, the OpenAPI description and the chart's files equal the generator's output."""
    assert main(["--check"]) == 0


def test_the_golden_files_are_what_the_chart_renders(chart: Chart) -> None:
    """Tests of the chart read current files; `make chart` writes them."""
    assert {path.stem: path.read_text() for path in GOLDEN_FOLDER.iterdir()} == {
        name: golden_text(chart, name) for name in GOLDEN
    }


def test_every_value_is_documented() -> None:
    """Each line of values.yaml that sets something has a comment above it, and so a row in the README."""
    readme = (CHART / "README.md").read_text()
    for value in documented((CHART / "values.yaml").read_text()):
        assert value.section or f"| `{value.path}` |" in readme, value.path


def test_a_value_without_a_comment_is_refused() -> None:
    """The generator's error names the value."""
    with pytest.raises(UndocumentedError, match=r"image\.tag"):
        list(documented("# The image.\nimage:\n  # Where.\n  repository: a\n  tag: b\n"))


def test_a_rule_that_mixes_scopes_is_refused() -> None:
    """Such a rule could not be granted in a single namespace, and the generator's error says so."""
    rule = {"apiGroups": [""], "resources": ["secrets", "namespaces"], "verbs": ["list"]}
    with pytest.raises(RbacError, match="secrets, namespaces"):
        roles([{"kind": "ClusterRole", "metadata": {"name": "hookwright-api"}, "rules": [rule]}])

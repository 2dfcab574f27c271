"""The generated files of the chart are current, and the check fails if they are not."""

from pathlib import Path

import pytest
from support.chart_rendering import CHART, GOLDEN, GOLDEN_FOLDER, Chart, golden_text

from hookwright_dev.chart.__main__ import check, write
from hookwright_dev.chart.generate import CHART as CHART_PATH
from hookwright_dev.chart.generate import files
from hookwright_dev.chart.rbac import RbacError, roles
from hookwright_dev.chart.readme import UndocumentedError, documented
from hookwright_dev.cluster.stack import ROOT


def test_the_generated_files_are_current() -> None:
    """CRDs, RBAC rules, settings, schema and README in the chart equal the generator's output."""
    assert check(ROOT, files(ROOT)) == 0


def test_the_golden_files_are_what_the_chart_renders(chart: Chart) -> None:
    """Tests of the chart read current files; `make chart` writes them."""
    assert {path.stem: path.read_text() for path in GOLDEN_FOLDER.iterdir()} == {
        name: golden_text(chart, name) for name in GOLDEN
    }


def test_a_stale_file_and_a_stray_one_are_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The check fails with the difference; writing corrects the file and removes the stray one."""
    expected = files(ROOT)
    write(tmp_path, expected)
    stale, stray = tmp_path / CHART_PATH / "values.yaml", tmp_path / CHART_PATH / "files" / "crds" / "stray.yaml"
    stale.write_text(stale.read_text().replace("  window: 64\n", "  window: 65\n"))
    stray.write_text("")
    assert check(tmp_path, expected) == 1
    output = capsys.readouterr().err
    assert "+  window: 64" in output
    assert "stray.yaml" in output
    write(tmp_path, expected)
    assert check(tmp_path, expected) == 0


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

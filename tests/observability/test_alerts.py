"""Alerts: each fires when it should and only then, uses existing metrics, and has a runbook section."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import Metric
from prometheus_client.metrics import MetricWrapperBase
from support.promql import faults, matched, series

from hookwright_api import metrics as api_metrics
from hookwright_operator import metrics

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "charts/hookwright/files/alerts.yaml"
CASES = Path(__file__).parent / "alerts.yaml"
RUNBOOK = ROOT / "docs/runbook.md"
BASE = "https://hookwright.dev/docs/runbook.md#"
PARTS = ("**Means:**", "**Look first:**", "**Do:**", "**Sleep on:**")


def _alerts() -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


ALERTS = {alert["alert"]: alert for alert in _alerts()}


def test_the_rules_are_sound(promtool: Path) -> None:
    """Prometheus' own check accepts the rules."""
    result = subprocess.run([promtool, "check", "rules", RULES], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_each_alert_fires_when_it_should_and_only_then(promtool: Path) -> None:
    """The cases of alerts.yaml, evaluated by Prometheus' own engine."""
    result = subprocess.run(
        [promtool, "test", "rules", CASES.name], cwd=CASES.parent, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_cases_catch_a_wrong_threshold(promtool: Path, tmp_path: Path) -> None:
    """If no alert's threshold can be reached, the cases fail."""
    (tmp_path / "rules.yaml").write_text(re.sub(r"> [\d.]+", "> 1e12", RULES.read_text()))
    cases = CASES.read_text().replace("../../charts/hookwright/files/alerts.yaml", "rules.yaml")
    (tmp_path / "cases.yaml").write_text(cases)
    result = subprocess.run(
        [promtool, "test", "rules", "cases.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert result.returncode != 0


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_has_a_case_that_fires_and_one_that_does_not(name: str) -> None:
    """Each alert has a case on both sides of its threshold."""
    tried = [
        bool(one["exp_samples"])
        for case in yaml.safe_load(CASES.read_text())["tests"]
        for one in case.get("promql_expr_test", [])
        if f'alertname="{name}"' in one["expr"]
    ]
    assert True in tried
    assert False in tried


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_speaks_of_metrics_and_labels_that_are_there(name: str) -> None:
    """A renamed metric would make its alert silent forever."""
    assert not faults(ALERTS[name]["expr"], series(metrics, api_metrics))


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_matches_values_that_its_metric_takes(name: str) -> None:
    """Each alternative of a pattern is a value that the code sets from the start."""
    known: dict[tuple[str, str], set[str]] = {}
    for family in _families():
        for sample in family.samples:
            for label, text in sample.labels.items():
                known.setdefault((sample.name, label), set()).add(text)
    for metric, label, pattern in matched(ALERTS[name]["expr"]):
        if label in {"operation", "status"}:
            continue  # created on first use
        assert set(pattern.split("|")) <= known[metric, label], (metric, label, pattern)


def _families() -> list[Metric]:
    own = [metric for metric in vars(metrics).values() if isinstance(metric, MetricWrapperBase)]
    return [family for metric in own for family in metric.collect()]


def test_a_renamed_metric_or_label_is_noticed() -> None:
    """The comparison itself can fail."""
    known = series(metrics, api_metrics)
    assert faults("sum by (kind) (hookwright_reconciles_total)", known)
    assert faults('hookwright_reconcile_total{outcome="ok"}', known)
    assert faults("sum by (outcome) (hookwright_reconcile_total)", known)


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_who_is_woken_and_what_to_read(name: str) -> None:
    """An alert has one of two severities, a summary, a description, and a link to its own section."""
    alert = ALERTS[name]
    assert alert["labels"]["severity"] in {"critical", "warning"}
    assert set(alert["annotations"]) == {"summary", "description", "runbook_url"}
    assert alert["annotations"]["summary"].endswith(".")
    assert alert["annotations"]["runbook_url"] == BASE + name.lower()


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_has_its_runbook_section(name: str) -> None:
    """A section has the meaning, a first command, the action, and the condition under which it can wait."""
    section = _sections().get(name)
    assert section, f"docs/runbook.md has no section {name}"
    assert [part for part in PARTS if part not in section] == []
    assert "```sh" in section


def test_the_runbook_has_no_section_of_an_alert_that_is_gone() -> None:
    """The runbook describes only existing alerts."""
    assert {name for name in _sections() if name.startswith("Hookwright")} == set(ALERTS)


def _sections() -> dict[str, str]:
    parts = re.split(r"^## (.+)$", RUNBOOK.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))

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
from hookwright_api import rate_limits
from hookwright_dev.chart.deploy import render
from hookwright_dev.cluster.stack import ROOT
from hookwright_operator import metrics

RULES = ROOT / "charts/hookwright/files/alerts.yaml"
CASES = [Path(__file__).parent / name for name in ("alerts.yaml", "budget_alerts.yaml")]
RUNBOOK = ROOT / "docs/runbook.md"
BASE = "https://hookwright.dev/docs/runbook/#"
PARTS = ("**Means:**", "**Look first:**", "**Do:**", "**Can wait:**")


def _alerts() -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


ALERTS = {alert["alert"]: alert for alert in _alerts()}


def rendered(namespace: str, *arguments: str) -> str:
    """Return the rules of an installation as a rule file of Prometheus."""
    chosen = ("--show-only", "templates/monitoring/prometheusrule.yaml", "--set", "metrics.prometheusRule.enabled=true")
    return yaml.safe_dump(yaml.safe_load(render(ROOT, *chosen, *arguments, namespace=namespace))["spec"])


@pytest.fixture(scope="module")
def rules() -> str:
    """Return the rules of the installation in namespace hw."""
    return rendered("hw")


def _run(promtool: Path, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([promtool, *arguments], cwd=folder, capture_output=True, text=True, check=False)


def test_the_rules_are_sound(promtool: Path, rules: str, tmp_path: Path) -> None:
    """Prometheus' own check accepts the rules, and no placeholder is left."""
    assert set(re.findall(r"[$]\w+", rules)) == {"$labels", "$value"}
    (tmp_path / "rules.yaml").write_text(rules)
    result = _run(promtool, "check", "rules", "rules.yaml", folder=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("cases", CASES, ids=lambda path: path.stem)
def test_each_alert_fires_when_it_should_and_only_then(promtool: Path, rules: str, tmp_path: Path, cases: Path) -> None:
    """The cases of a file, evaluated by Prometheus' own engine."""
    (tmp_path / "rules.yaml").write_text(rules)
    (tmp_path / cases.name).write_text(cases.read_text())
    result = _run(promtool, "test", "rules", cases.name, folder=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("cases", CASES, ids=lambda path: path.stem)
def test_the_cases_catch_a_wrong_threshold(promtool: Path, rules: str, tmp_path: Path, cases: Path) -> None:
    """If no alert's threshold can be reached, the cases fail."""
    (tmp_path / "rules.yaml").write_text(re.sub(r"> [\d.]+", "> 1e12", rules))
    (tmp_path / cases.name).write_text(cases.read_text())
    result = _run(promtool, "test", "rules", cases.name, folder=tmp_path)
    assert result.returncode != 0


def test_a_second_installation_hides_no_alert_of_the_first(promtool: Path, rules: str, tmp_path: Path) -> None:
    """Each installation alerts about itself, with its namespace, and two rule files have no alert in common."""
    (tmp_path / "rules.yaml").write_text(rules)
    (tmp_path / "second.yaml").write_text(rendered("other"))
    series = [
        {"series": f'{name}{{namespace="hw"}}', "values": "1 1 stale"}
        for name in ("hookwright_build_info", "hookwright_rate_limit_storage_available")
    ] + [
        {"series": f'{name}{{namespace="other"}}', "values": "1x20"}
        for name in ("hookwright_build_info", "hookwright_rate_limit_storage_available")
    ]
    fired = [
        {"labels": f'{{alertname="{name}", namespace="hw"}}', "value": 1}
        for name in ("HookwrightApiDown", "HookwrightOperatorDown")
    ]
    case = {
        "interval": "1m",
        "input_series": series,
        "promql_expr_test": [
            {
                "expr": 'count by (alertname, namespace) (ALERTS{alertstate="firing"})',
                "eval_time": "15m",
                "exp_samples": fired,
            }
        ],
    }
    files = {"rule_files": ["rules.yaml", "second.yaml"], "evaluation_interval": "1m", "tests": [case]}
    (tmp_path / "cases.yaml").write_text(yaml.safe_dump(files))
    result = _run(promtool, "test", "rules", "cases.yaml", folder=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


def test_thresholds_labels_and_the_runbook_are_values() -> None:
    """A company changes them without a copy of the rules."""
    chosen = {
        "thresholds.lateSeconds": "90",
        "runbookUrl": "https://wiki.example.com/hooks",
        "alertLabels.team": "messaging",
        "overrides.HookwrightBacklogOld.for": "15m",
        "overrides.HookwrightBacklogOld.labels.severity": "warning",
        "disabled[0]": "HookwrightStoreSlow",
    }
    arguments = [part for name, text in chosen.items() for part in ("--set", f"metrics.prometheusRule.{name}={text}")]
    groups = yaml.safe_load(rendered("hw", *arguments))["groups"]
    alerts = {rule["alert"]: rule for group in groups for rule in group["rules"]}
    late = alerts["HookwrightBacklogOld"]
    assert late["expr"].endswith(" > 90")
    assert late["for"] == "15m"
    assert late["labels"] == {"severity": "warning", "team": "messaging"}
    assert late["annotations"]["runbook_url"] == "https://wiki.example.com/hooks#hookwrightbacklogold"
    assert alerts["HookwrightApiDown"]["labels"] == {"severity": "critical", "team": "messaging"}
    assert ALERTS.keys() - alerts.keys() == {"HookwrightStoreSlow"}


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_is_about_one_installation(name: str) -> None:
    """Each selector names the namespace, and no aggregation removes it from the alert."""
    expression = ALERTS[name]["expr"]
    selectors = re.findall(r"hookwright_\w+(?:\{[^}]*\})?", expression)
    assert selectors
    assert all('{namespace="$namespace"' in one for one in selectors), expression
    assert all("namespace" in labels for labels in re.findall(r"\bby \(([^)]*)\)", expression)), expression


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_has_a_case_that_fires_and_one_that_does_not(name: str) -> None:
    """Each alert has a case on both sides of its threshold."""
    tried = [
        bool(one["exp_samples"])
        for cases in CASES
        for case in yaml.safe_load(cases.read_text())["tests"]
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
        if label in {"namespace", "operation", "status"}:
            continue  # added by Prometheus, or created on first use
        assert set(pattern.split("|")) <= known[metric, label], (metric, label, pattern)


def _families() -> list[Metric]:
    both = (*vars(metrics).values(), *vars(rate_limits).values())
    own = [metric for metric in both if isinstance(metric, MetricWrapperBase)]
    return [family for metric in own for family in metric.collect()]


def test_a_renamed_metric_or_label_is_noticed() -> None:
    """The comparison itself can fail."""
    known = series(metrics, api_metrics)
    assert faults("sum by (kind) (hookwright_reconciles_total)", known)
    assert faults('hookwright_reconcile_total{outcome="ok"}', known)
    assert faults("sum by (outcome) (hookwright_reconcile_total)", known)


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_who_is_woken_and_what_to_read(name: str) -> None:
    """An alert has one of two severities, a summary and a description."""
    alert = ALERTS[name]
    assert alert["labels"]["severity"] in {"critical", "warning"}
    assert set(alert["annotations"]) == {"summary", "description"}
    assert alert["annotations"]["summary"].endswith(".")


def test_the_link_of_an_alert_leads_to_its_own_section(rules: str) -> None:
    """The chart adds the link."""
    for group in yaml.safe_load(rules)["groups"]:
        for rule in group["rules"]:
            assert rule["annotations"]["runbook_url"] == BASE + rule["alert"].lower()


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

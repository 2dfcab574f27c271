"""Alerts: each fires when it should and only then, uses existing metrics, and has a runbook section."""

import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.metrics import MetricWrapperBase
from support.chart_rendering import Chart
from support.promql import faults, matched, series

from hookwright_api import metrics as api_metrics
from hookwright_api import rate_limits
from hookwright_dev.cluster.stack import ROOT
from hookwright_dev.tools import HELM, acquire_tool
from hookwright_operator import metrics

RULES = ROOT / "charts/hookwright/files/alerts.yaml"
CASES = [Path(__file__).parent / name for name in ("alerts.yaml", "budget_alerts.yaml")]
RUNBOOK = ROOT / "docs/runbook.md"
BASE = "https://hookwright.dev/docs/runbook/#"
PARTS = ("**Means:**", "**Look first:**", "**Do:**")


def _alerts() -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


ALERTS = {alert["alert"]: alert for alert in _alerts()}


def substituted(namespace: str, cluster: str = "") -> str:
    """Return the rules with the chart's thresholds as a rule file of Prometheus, as the chart renders them."""
    values = yaml.safe_load((ROOT / "charts/hookwright/values.yaml").read_text())["metrics"]["prometheusRule"]
    texts = {"namespace": namespace, **values["thresholds"]}
    text = re.sub(r"[$](\w+)", lambda match: str(texts.get(match[1], match[0])), RULES.read_text())
    if cluster:
        selector = f'namespace="{namespace}"'
        text = text.replace(selector, f'{selector}, cluster="{cluster}"')
        text = text.replace("by (namespace", "by (namespace, cluster")
    groups: list[dict[str, Any]] = yaml.safe_load(text)["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        rule["annotations"]["runbook_url"] = f"{values['runbookUrl']}#{rule['alert'].lower()}"
    return yaml.safe_dump({"groups": groups}, width=10**9)


def rendered(namespace: str, *arguments: str) -> str:
    """Return the rules that helm renders for an installation, as a rule file of Prometheus."""
    choice = ("--show-only", "templates/monitoring/prometheusrule.yaml", "--set", "metrics.prometheusRule.enabled=true")
    text = Chart(acquire_tool(HELM)).text(None, *choice, *arguments, namespace=namespace)
    return yaml.safe_dump(yaml.safe_load(text)["spec"])


@pytest.fixture(scope="module")
def rules() -> str:
    """Return the rules of the installation in namespace hw."""
    return substituted("hw")


def _run(promtool: Path, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([promtool, *arguments], cwd=folder, capture_output=True, text=True, check=False)


def test_the_rules_are_sound(promtool: Path, rules: str, tmp_path: Path) -> None:
    """Prometheus' own check accepts the rules, and no placeholder is left."""
    assert set(re.findall(r"[$]\w+", rules)) == {"$labels", "$value"}
    (tmp_path / "rules.yaml").write_text(rules)
    result = _run(promtool, "check", "rules", "rules.yaml", folder=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


def _write_cases(cases: Path, rules: str, folder: Path) -> list[str]:
    """Write a file of cases for each set of alerts, each with only their rules, and return the names of the files.

    A case names the alerts that it is about. With all rules beside them the evaluation takes minutes.
    """
    document = yaml.safe_load(cases.read_text())
    by_alerts: dict[frozenset[str], list[dict[str, Any]]] = {}
    for case in document["tests"]:
        by_alerts.setdefault(
            frozenset(re.findall(r'alertname(?:="|: )(\w+)', yaml.safe_dump(case, width=10**9))), []
        ).append(case)
    groups = yaml.safe_load(rules)["groups"]
    for number, (names, tests) in enumerate(by_alerts.items()):
        choice = [{**group, "rules": [rule for rule in group["rules"] if rule["alert"] in names]} for group in groups]
        (folder / f"rules-{number}.yaml").write_text(yaml.safe_dump({"groups": choice}))
        text = yaml.safe_dump({**document, "rule_files": [f"rules-{number}.yaml"], "tests": tests}, width=10**9)
        (folder / f"cases-{number}.yaml").write_text(text)
    return [f"cases-{number}.yaml" for number in range(len(by_alerts))]


@pytest.mark.parametrize("cases", CASES, ids=lambda path: path.stem)
def test_each_alert_fires_when_it_should_and_only_then(promtool: Path, rules: str, tmp_path: Path, cases: Path) -> None:
    """The cases of a file, evaluated by Prometheus' own engine."""
    result = _run(promtool, "test", "rules", *_write_cases(cases, rules, tmp_path), folder=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("cases", CASES, ids=lambda path: path.stem)
def test_the_cases_catch_a_wrong_threshold(promtool: Path, rules: str, tmp_path: Path, cases: Path) -> None:
    """If the threshold of an alert cannot be reached, its cases fail; the first ones of each file show it."""
    wrong = re.sub(r"> [\d.]+", "> 1e12", rules)
    result = _run(promtool, "test", "rules", *_write_cases(cases, wrong, tmp_path)[:2], folder=tmp_path)
    assert result.returncode != 0


def test_a_second_installation_hides_no_alert_of_the_first(promtool: Path, rules: str, tmp_path: Path) -> None:
    """Each installation alerts about itself, with its namespace, and two rule files have no alert in common."""
    (tmp_path / "rules.yaml").write_text(rules)
    (tmp_path / "second.yaml").write_text(substituted("other"))
    series = [
        {"series": f'{name}{{namespace="hw"}}', "values": "1 1 stale"}
        for name in ("hookwright_build_info", "hookwright_rate_limit_storage_available")
    ] + [
        {"series": f'{name}{{namespace="other"}}', "values": "1x20"}
        for name in ("hookwright_build_info", "hookwright_rate_limit_storage_available")
    ]
    alerts = [
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
                "exp_samples": alerts,
            }
        ],
    }
    files = {"rule_files": ["rules.yaml", "second.yaml"], "evaluation_interval": "1m", "tests": [case]}
    (tmp_path / "cases.yaml").write_text(yaml.safe_dump(files))
    result = _run(promtool, "test", "rules", "cases.yaml", folder=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_living_cluster_hides_no_alert_of_a_dead_one(promtool: Path, tmp_path: Path) -> None:
    """A ruler that reads both clusters alerts about the dead one, although both have the same namespace."""
    for cluster in ("eu-1", "eu-2"):
        copy = substituted("hw", cluster).replace("name: hookwright-", f"name: {cluster}-hookwright-")
        (tmp_path / f"{cluster}.yaml").write_text(copy)
    values = {"hookwright_build_info": ("1 1 stale", "1x20"), "hookwright_shards_owned": ("64x20", "128x20")}
    series = [
        {"series": f'{name}{{namespace="hw", cluster="{cluster}", pod="a"}}', "values": text}
        for name, texts in values.items()
        for cluster, text in zip(("eu-1", "eu-2"), texts, strict=True)
    ]
    alerts = 'ALERTS{alertstate="firing", alertname=~"HookwrightOperatorDown|HookwrightShardsUnowned"}'
    fired = [
        {"labels": f'{{alertname="{name}", cluster="eu-1"}}', "value": 1}
        for name in ("HookwrightOperatorDown", "HookwrightShardsUnowned")
    ]
    expectation = {"expr": f"count by (alertname, cluster) ({alerts})", "eval_time": "15m", "exp_samples": fired}
    case = {"interval": "1m", "input_series": series, "promql_expr_test": [expectation]}
    files = {"rule_files": ["eu-1.yaml", "eu-2.yaml"], "evaluation_interval": "1m", "tests": [case]}
    (tmp_path / "cases.yaml").write_text(yaml.safe_dump(files))
    result = _run(promtool, "test", "rules", "cases.yaml", folder=tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.slow
def test_the_chart_renders_these_rules_each_with_a_link_to_its_own_section() -> None:
    """The chart sets namespace and thresholds, and adds the link."""
    groups = yaml.safe_load(rendered("hw"))["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        assert rule["annotations"]["runbook_url"] == BASE + rule["alert"].lower()
    assert groups == yaml.safe_load(substituted("hw"))["groups"]


@pytest.mark.slow
def test_the_rules_of_a_central_ruler_name_their_cluster_everywhere() -> None:
    """The chart adds a matcher to each selector, and its label to each grouping."""
    groups = yaml.safe_load(rendered("hw", "--set", "metrics.prometheusRule.matchers.cluster=eu-1"))["groups"]
    assert groups == yaml.safe_load(substituted("hw", "eu-1"))["groups"]


@pytest.mark.slow
def test_thresholds_labels_and_the_runbook_are_values() -> None:
    """A company changes them without a copy of the rules."""
    choice = {
        "thresholds.lateSeconds": "90",
        "runbookUrl": "https://wiki.example.com/hooks",
        "alertLabels.team": "messaging",
        "overrides.HookwrightBacklogOld.for": "15m",
        "overrides.HookwrightBacklogOld.labels.severity": "warning",
        "disabled[0]": "HookwrightStoreSlow",
    }
    arguments = [part for name, text in choice.items() for part in ("--set", f"metrics.prometheusRule.{name}={text}")]
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
    assert all('{namespace="$namespace"' in selector for selector in selectors), expression
    assert all("namespace" in labels for labels in re.findall(r"\bby \(([^)]*)\)", expression)), expression


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_has_a_case_that_fires_and_one_that_does_not(name: str) -> None:
    """Each alert has a case on both sides of its threshold."""
    outcomes = {
        bool(evaluation["exp_samples"]) for evaluation in _evaluations() if f'alertname="{name}"' in evaluation["expr"]
    }
    assert outcomes == {True, False}


@cache
def _evaluations() -> list[dict[str, Any]]:
    tests = [case for cases in CASES for case in yaml.safe_load(cases.read_text())["tests"]]
    return [evaluation for case in tests for evaluation in case.get("promql_expr_test", [])]


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_speaks_of_metrics_and_labels_that_are_there(name: str) -> None:
    """A renamed metric would make its alert silent forever."""
    assert not faults(ALERTS[name]["expr"], series(metrics, api_metrics))


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_matches_values_that_its_metric_takes(name: str) -> None:
    """Each alternative of a pattern is a value that the code sets from the start."""
    values = _values()
    for metric, label, pattern in matched(ALERTS[name]["expr"]):
        if label in {"namespace", "operation", "route", "status"}:
            continue  # added by Prometheus, or created on first use
        assert set(pattern.split("|")) <= values[metric, label], (metric, label, pattern)


@cache
def _values() -> dict[tuple[str, str], set[str]]:
    """Return the values of each label of each metric."""
    replicas = (*vars(metrics).values(), *vars(rate_limits).values())
    families = [family for metric in replicas if isinstance(metric, MetricWrapperBase) for family in metric.collect()]
    values: dict[tuple[str, str], set[str]] = {}
    for family in families:
        for sample in family.samples:
            for label, text in sample.labels.items():
                values.setdefault((sample.name, label), set()).add(text)
    return values


def test_a_renamed_metric_or_label_is_noticed() -> None:
    """The comparison itself can fail."""
    record = series(metrics, api_metrics)
    assert faults("sum by (kind) (hookwright_reconciles_total)", record)
    assert faults('hookwright_reconcile_total{outcome="ok"}', record)
    assert faults("sum by (outcome) (hookwright_reconcile_total)", record)


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_who_is_woken_and_what_to_read(name: str) -> None:
    """An alert has one of two severities, a summary and a description."""
    alert = ALERTS[name]
    assert alert["labels"]["severity"] in {"critical", "warning"}
    assert set(alert["annotations"]) == {"summary", "description"}
    assert alert["annotations"]["summary"].endswith(".")


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_has_its_runbook_section(name: str) -> None:
    """A section has the meaning, what to look at, and the action."""
    section = _sections().get(name)
    assert section, f"docs/runbook.md has no section {name}"
    assert [part for part in PARTS if part not in section] == []


def test_the_runbook_has_no_section_of_an_alert_that_is_gone() -> None:
    """The runbook describes only existing alerts."""
    assert {name for name in _sections() if name.startswith("Hookwright")} == set(ALERTS)


@cache
def _sections() -> dict[str, str]:
    parts = re.split(r"^## (.+)$", RUNBOOK.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))

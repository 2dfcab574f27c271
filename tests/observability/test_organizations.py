"""The configuration of kube-state-metrics and its dashboard agree with the CRDs and with each other."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from observability.test_dashboard import DASHBOARDS, expressions

from hookwright_dev.cluster.stack import ROOT

FILES = ROOT / "charts/hookwright/files"
CONFIG: dict[str, Any] = yaml.safe_load((FILES / "kube-state-metrics.yaml").read_text())
DASHBOARD = DASHBOARDS["dashboard-organizations"]
RESOURCES: list[dict[str, Any]] = CONFIG["spec"]["resources"]
EXPRESSIONS = expressions(DASHBOARD)


def _schema(kind: str) -> dict[str, Any]:
    for path in (FILES / "crds").glob("*.yaml"):
        crd = yaml.safe_load(path.read_text())
        if crd["spec"]["names"]["kind"] == kind:
            schema: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            return schema
    raise AssertionError(f"no CRD of {kind}")


def _at(schema: dict[str, Any], path: list[str]) -> dict[str, Any]:
    """Return the schema of a field; an array's is that of its items."""
    for name in path:
        schema = schema["properties"][name]
        schema = schema.get("items", schema)
    return schema


def _labels_of(resource: dict[str, Any]) -> Iterator[tuple[str, set[str]]]:
    """Yield each metric of a resource with its labels."""
    for metric in resource["metrics"]:
        ((kind, form),) = [(name, form) for name, form in metric["each"].items() if name != "type"]
        assert kind.lower() == metric["each"]["type"].lower()
        labels = {*resource["labelsFromPath"], *form.get("labelsFromPath", {})}
        yield (
            f"{resource['metricNamePrefix']}_{metric['name']}",
            labels | ({form["labelName"]} if kind == "stateSet" else set()),
        )


METRICS = {name: labels for resource in RESOURCES for name, labels in _labels_of(resource)}


@pytest.mark.parametrize("resource", RESOURCES, ids=[item["groupVersionKind"]["kind"] for item in RESOURCES])
def test_every_field_of_the_configuration_is_in_the_crd(resource: dict[str, Any]) -> None:
    """A renamed field would leave its metric missing, or 0 for ever."""
    schema = _schema(resource["groupVersionKind"]["kind"])
    for path in resource["labelsFromPath"].values():
        assert path[0] == "metadata" or _at(schema, path)["type"] == "string"
    for metric in resource["metrics"]:
        entry = metric["each"]
        if entry["type"] == "StateSet":
            condition = _at(schema, entry["stateSet"]["path"])
            assert set(_at(condition, entry["stateSet"]["valueFrom"])["enum"]) == set(entry["stateSet"]["list"])
            assert all(_at(condition, path) for path in entry["stateSet"]["labelsFromPath"].values())
        else:
            field = _at(schema, entry["gauge"]["path"])
            assert field["type"] in {"integer", "boolean"} or field["format"] == "date-time"
            # A missing time is no time; a missing count is 0.
            assert entry["gauge"].get("nilIsZero", False) is (field["type"] != "string")


def test_every_kind_has_metrics() -> None:
    """Each object has its namespace as the label organization."""
    assert {item["groupVersionKind"]["kind"] for item in RESOURCES} == {"Project", "ApiKey", "WebhookEndpoint"}
    assert all({"organization", "project"} <= labels for labels in METRICS.values())


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_panel_uses_metrics_and_labels_of_the_configuration(expression: str) -> None:
    """A renamed metric or label would leave an empty panel."""
    names = set(re.findall(r"\bkube_hookwright_\w+", expression))
    assert names
    assert names <= METRICS.keys()
    record = set.intersection(*(METRICS[name] for name in names))
    request = set(re.findall(r"[{,](\w+)=", expression))
    for groups in re.findall(r"\bby \(([^)]*)\)", expression):
        request |= {label.strip() for label in groups.split(",")}
    assert request <= record


def test_every_metric_is_somewhere_on_the_dashboard() -> None:
    """Every metric of the configuration has a panel."""
    assert [name for name in METRICS if name not in " ".join(EXPRESSIONS)] == []


def test_the_dashboard_can_be_imported_beside_the_first_one() -> None:
    """It has a uid of its own, and the user chooses data source, organization and project."""
    assert DASHBOARD["id"] is None
    assert DASHBOARD["uid"] == "hookwright-organizations"
    assert [variable["name"] for variable in DASHBOARD["templating"]["list"]] == [
        "datasource",
        "organization",
        "project",
    ]

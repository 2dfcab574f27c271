"""The Grafana dashboards can be imported, and the one of the installation uses existing metrics."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.promql import faults, series

from hookwright_api import metrics as api_metrics
from hookwright_dev.reference import metric_names
from hookwright_operator import metrics

FOLDER = Path(__file__).resolve().parents[2] / "charts/hookwright/files"
DASHBOARDS: dict[str, dict[str, Any]] = {
    name: json.loads((FOLDER / f"{name}.json").read_text()) for name in ("dashboard", "dashboard-organizations")
}
DASHBOARD = DASHBOARDS["dashboard"]
PANELS: list[dict[str, Any]] = DASHBOARD["panels"]


def expressions(dashboard: dict[str, Any]) -> list[str]:
    """Return the expressions of a dashboard's panels."""
    return [target["expr"] for panel in drawn(dashboard) for target in panel["targets"]]


def drawn(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the panels that are no rows."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def test_it_can_be_imported_anywhere() -> None:
    """The dashboard has no id of an installation, has its own uid, and lets the user choose the data source."""
    assert DASHBOARD["id"] is None
    assert DASHBOARD["uid"] == "hookwright"
    assert DASHBOARD["schemaVersion"] >= 36
    source, installation = DASHBOARD["templating"]["list"]
    assert (source["name"], source["type"], source["query"]) == ("datasource", "datasource", "prometheus")
    assert installation["query"]["query"] == "label_values(hookwright_build_info, namespace)"
    for panel in drawn(DASHBOARD):
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert all(target["datasource"] == panel["datasource"] for target in panel["targets"])


def test_its_rows_are_in_the_order_in_which_one_asks() -> None:
    """The first row shows whether the installation is healthy."""
    rows = [panel["title"] for panel in PANELS if panel["type"] == "row"]
    assert rows == ["Is it well?", "Deliveries", "Endpoints", "Store", "API", "Reconcile"]


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_have_ids_titles_units_and_do_not_overlap(name: str) -> None:
    """Grafana draws panels at the given positions."""
    panels: list[dict[str, Any]] = DASHBOARDS[name]["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    slots: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & slots, panel["title"]
        slots |= cells
        if panel["type"] == "row":
            continue
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"]


@pytest.mark.parametrize("expression", expressions(DASHBOARD))
def test_a_panel_speaks_of_metrics_and_labels_that_are_there(expression: str) -> None:
    """A renamed metric would leave an empty panel."""
    assert not faults(expression, series(metrics, api_metrics))


def test_every_metric_is_somewhere_on_the_dashboard() -> None:
    """Every metric has a panel."""
    drawn = " ".join(expressions(DASHBOARD))
    assert [name for name in (*metric_names(metrics), *metric_names(api_metrics)) if name not in drawn] == []


def test_prometheus_takes_every_expression(promtool: Path, tmp_path: Path) -> None:
    """Expressions are checked as recording rules, because promtool parses only expressions in rules."""
    texts = [expression for dashboard in DASHBOARDS.values() for expression in expressions(dashboard)]
    rules = [
        {"record": f"panel:{number}", "expr": text.replace("$__rate_interval", "1m")}
        for number, text in enumerate(texts)
    ]
    (tmp_path / "rules.yaml").write_text(json.dumps({"groups": [{"name": "dashboards", "rules": rules}]}))
    result = subprocess.run(
        [promtool, "check", "rules", tmp_path / "rules.yaml"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr

"""An upgrade from the previous chart under load: nothing is lost, and the CRDs are the new ones."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from e2e.installing import CHART, Installation
from e2e.previous import LACKING, previous_chart
from support.pod_actions import Organization

MAX_IN_FLIGHT = 8
REFUSED_SECONDS = 30.0
"""How many seconds a producer may have to retry an event while one pod replaces another."""


@pytest.fixture
def old(bare: Installation, tmp_path: Path) -> Organization:
    """Return an organization that the previous chart serves."""
    bare.install(chart=previous_chart(tmp_path))
    return Organization(bare).create()


def _spec_fields(installation: Installation) -> set[str]:
    crd = json.loads(installation.kubectl("get", "crd", "webhookendpoints.hookwright.dev", "-o", "json"))
    return set(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"])


def _chart_fields() -> set[str]:
    crd: Any = yaml.safe_load((CHART / "files" / "crds" / "webhookendpoints.yaml").read_text())
    return set(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"])


def test_an_upgrade_under_load_loses_nothing_and_brings_the_kinds_up_to_date(old: Organization) -> None:
    """Every accepted event arrives; resources stay unchanged; the CRDs, labels and pods are the present chart's."""
    installation = old.installation
    old.with_endpoint(maxInFlight=MAX_IN_FLIGHT)
    before, secret = old.get("hwep", "orders"), old.secret("orders-signing")
    pod, fields = installation.pod("operator"), _spec_fields(installation)
    with old.load(seconds=20) as load:
        installation.upgrade()
        installation.wait_ready()
    assert load.duplicates <= MAX_IN_FLIGHT
    assert load.tally["longest"] < REFUSED_SECONDS
    assert installation.pod("operator") != pod
    after = old.get("hwep", "orders")
    assert (after["metadata"]["uid"], after["spec"]) == (before["metadata"]["uid"], before["spec"])
    assert old.secret("orders-signing") == secret

    present = yaml.safe_load((CHART / "Chart.yaml").read_text())["version"]
    (deployment,) = installation.objects("deployments", "-l", "app.kubernetes.io/component=operator")
    assert deployment["metadata"]["labels"]["helm.sh/chart"] == f"hookwright-{present}"
    assert _spec_fields(installation) == _chart_fields()
    if LACKING not in fields:
        old.kubectl("patch", "hwep", "orders", "--type=merge", "-p", '{"spec": {"rateLimit": {"perMinute": 60000}}}')
        assert old.get("hwep", "orders")["spec"][LACKING] == {"perMinute": 60000}
    old.kubectl("wait", "--for=condition=Ready", "hwep/orders", "--timeout=30s")
    assert old.post({"type": "delivered", "messageId": "after"}).status == 202
    old.arrived("orders", ["after"])

"""A real kube-state-metrics, with the chart's configuration and rights, shows the objects as metrics."""

import json
import operator
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import httpx
import pytest
from observability.test_organizations import FILES, METRICS
from support.busy_operator import Samples, Session, scrape, value
from support.chart_rendering import Chart, of_kind
from support.polling import eventually

from hookwright_dev.cluster.installation import service_account_kubeconfig
from hookwright_dev.cluster.kubectl import Cluster
from hookwright_dev.processes import ChildProcess, free_port
from hookwright_dev.tools import HELM, acquire_tool

pytestmark = pytest.mark.slow

_ACCOUNT: Final = "kube-state-metrics"
_EXPIRY: Final = "2031-05-01T00:00:00Z"
_LAST_USE: Final = "2030-05-01T12:00:00Z"


@dataclass(frozen=True, slots=True)
class Exporter:
    """A running kube-state-metrics."""

    url: str
    log: Path


@pytest.fixture(scope="module")
def unserved(session: Session) -> Iterator[str]:
    """Yield a namespace that no operator serves, with a key that expires and was used."""
    cluster, namespace = session.cluster, f"unserved-{uuid4().hex[:6]}"
    key = {
        "apiVersion": "hookwright.dev/v1alpha1",
        "kind": "ApiKey",
        "metadata": {"name": "short", "namespace": namespace},
        "spec": {"projectRef": {"name": "billing"}, "expiresAt": _EXPIRY, "handover": {"secretName": "short"}},
    }
    cluster.objects.create("Namespace", namespace)
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(key))
    uses = json.dumps({"status": {"lastUsedAt": _LAST_USE}})
    cluster.kubectl("patch", "apikey", "short", "-n", namespace, "--subresource=status", "--type=merge", "-p", uses)
    yield namespace
    cluster.objects.delete("Namespace", namespace, wait=False)


def _bound_kubeconfig(cluster: Cluster, namespace: str, folder: Path) -> Path:
    """Bind the chart's ClusterRole to a ServiceAccount, and return its kubeconfig."""
    values = {"metrics": {"kubeStateMetrics": {"enabled": True, "namespace": namespace}}}
    [role] = [
        document
        for document in of_kind(Chart(acquire_tool(HELM)).objects(values), "ClusterRole")
        if document["metadata"]["name"].endswith(_ACCOUNT)
    ]
    # Other tests may install the chart in this cluster.
    role["metadata"]["name"] += f"-{namespace}"
    name = role["metadata"]["name"]
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(role))
    cluster.kubectl("create", "serviceaccount", _ACCOUNT, "-n", namespace)
    subject = f"--serviceaccount={namespace}:{_ACCOUNT}"
    cluster.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", subject)
    return service_account_kubeconfig(cluster, _ACCOUNT, folder, namespace=namespace)


@pytest.fixture(scope="module")
def exported(
    session: Session, unserved: str, kube_state_metrics: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator["Exporter"]:
    """Yield a running kube-state-metrics, which reads with the rights of the chart's ClusterRole."""
    folder = tmp_path_factory.mktemp("kube-state-metrics")
    port, telemetry = free_port(), free_port()
    options = (
        "--custom-resource-state-only=true",
        f"--custom-resource-state-config-file={FILES / 'kube-state-metrics.yaml'}",
        *("--host=127.0.0.1", f"--port={port}", "--telemetry-host=127.0.0.1", f"--telemetry-port={telemetry}"),
    )
    url = f"http://127.0.0.1:{port}"
    try:
        kubeconfig = f"--kubeconfig={_bound_kubeconfig(session.cluster, unserved, folder)}"
        command = [str(kube_state_metrics), kubeconfig, *options]
        with ChildProcess.start("kube-state-metrics", command, log=folder / "log") as process:
            process.wait_ready(lambda: httpx.get(f"{url}/healthz", trust_env=False).is_success, 60.0)
            yield Exporter(url, folder / "log")
    finally:
        name = f"hookwright-{_ACCOUNT}-{unserved}"
        session.cluster.kubectl("delete", "clusterrole,clusterrolebinding", name, "--ignore-not-found")


def _counts(cluster: Cluster, namespace: str, endpoint: str) -> dict[str, float]:
    """Return what the status of an endpoint counts, in the names of the metrics."""
    document = json.loads(cluster.kubectl("get", "hwep", endpoint, "-n", namespace, "-o", "json").stdout)
    deliveries: dict[str, Any] = document["status"].get("deliveries", {})
    moment = datetime.fromisoformat(deliveries.get("lastAttemptTime", "1970-01-01T00:00:00+00:00"))
    numbers = {name: float(deliveries.get(name, 0)) for name in ("pending", "delivered", "failed")}
    return {
        **{f"kube_hookwright_endpoint_deliveries_{name}": number for name, number in numbers.items()},
        "kube_hookwright_endpoint_last_attempt_timestamp_seconds": moment.timestamp(),
    }


@pytest.fixture
def samples(exported: Exporter, session: Session) -> Samples:
    """Return all samples, as soon as there is one of every metric, and the conditions that the tests read."""
    container = {"organization": session.namespace}
    awaited = (
        ("kube_hookwright_endpoint_deliveries_delivered", {"endpoint": "good"}),
        ("kube_hookwright_endpoint_condition", {"endpoint": "dead", "type": "Reachable", "status": "False"}),
        ("kube_hookwright_endpoint_condition", {"endpoint": "orphan", "type": "Ready", "status": "False"}),
        ("kube_hookwright_api_key_condition", {"api_key": "sender", "type": "Ready", "status": "True"}),
    )

    def ready() -> Samples:
        matches = scrape(exported.url)
        count = all(value(matches, name, **container, **labels) for name, labels in awaited)
        return matches if count and {name for name, _ in matches} >= METRICS.keys() else {}

    return eventually(ready, "every metric of the configuration has a sample")


@pytest.mark.parametrize("endpoint", ["good", "dead"])
@pytest.mark.usefixtures("samples")
def test_an_endpoint_has_the_counts_of_its_status(exported: Exporter, session: Session, endpoint: str) -> None:
    """Counts and times are those of the status; a missing count is 0."""
    labels = {"organization": session.namespace, "project": "billing", "endpoint": endpoint}

    def compared() -> tuple[dict[str, float], dict[str, float]]:
        expected = _counts(session.cluster, session.namespace, endpoint)
        matches = scrape(exported.url)
        return {name: value(matches, name, **labels) for name in expected}, expected

    with suppress(AssertionError):
        eventually(lambda: operator.eq(*compared()), "the counts of the status")
    view, expected = compared()
    assert view == expected
    assert view["kube_hookwright_endpoint_last_attempt_timestamp_seconds"] > 0


def test_projects_and_keys_have_their_numbers_and_times(samples: Samples, session: Session, unserved: str) -> None:
    """Numbers and booleans are those of status and spec."""
    container = {"organization": session.namespace, "project": "billing"}
    assert value(samples, "kube_hookwright_endpoint_suspended", **container, endpoint="good") == 0
    assert value(samples, "kube_hookwright_project_endpoints", **container) >= 2
    assert value(samples, "kube_hookwright_project_api_keys", **container) >= 1
    expiry = value(samples, "kube_hookwright_api_key_expires_timestamp_seconds", organization=unserved)
    assert expiry == datetime.fromisoformat(_EXPIRY).timestamp()
    count = value(samples, "kube_hookwright_api_key_last_used_timestamp_seconds", organization=unserved)
    assert count == datetime.fromisoformat(_LAST_USE).timestamp()


def test_a_condition_has_one_of_its_statuses(samples: Samples, session: Session) -> None:
    """Of the statuses True, False and Unknown of a condition, one is 1; it has the reason of the condition."""
    name = "kube_hookwright_endpoint_condition"
    ready = {"organization": session.namespace, "endpoint": "good", "type": "Ready"}
    assert [value(samples, name, **ready, status=status) for status in ("True", "False", "Unknown")] == [1, 0, 0]
    losses = {"organization": session.namespace, "endpoint": "orphan", "type": "Ready", "reason": "ProjectNotFound"}
    assert value(samples, name, **losses, status="False") == 1
    dead = {"organization": session.namespace, "endpoint": "dead", "type": "Reachable"}
    assert value(samples, name, **dead, status="False") == 1
    key = {"organization": session.namespace, "api_key": "sender", "type": "Ready"}
    assert value(samples, "kube_hookwright_api_key_condition", **key, status="True") == 1
    project = {"organization": session.namespace, "project": "billing", "type": "Ready"}
    assert value(samples, "kube_hookwright_project_condition", **project, status="True") == 1


@pytest.mark.usefixtures("samples")
def test_the_rights_of_the_chart_suffice(exported: Exporter) -> None:
    """The log of kube-state-metrics has no refused request."""
    assert not re.search(r"(?i)failed to (list|watch)|forbidden", exported.log.read_text())

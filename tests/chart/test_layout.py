"""Layouts: one process on SQLite; on PostgreSQL several that do everything, or a separate Deployment for delivery."""

import json
import subprocess
from pathlib import Path

import pytest
from support.chart_rendering import CHART, POSTGRES, Chart, Object, container, environment, golden, named, of_kind

ALL = "reconcile,deliver,intake"
COMPONENT = "app.kubernetes.io/component"


def _postgres(**delivery: object) -> Object:
    return {**POSTGRES, "delivery": delivery}


def _deployments(objects: list[Object]) -> dict[str, int | None]:
    return {
        document["metadata"]["name"].removeprefix("hookwright-"): document["spec"].get("replicas")
        for document in of_kind(objects, "Deployment")
    }


def _names(objects: list[Object], kind: str) -> set[str]:
    return {document["metadata"]["name"].removeprefix("hookwright-") for document in of_kind(objects, kind)}


@pytest.mark.parametrize(
    ("values", "pods"),
    [
        ("default", {"operator": 1}),
        ("replicas", {"operator": 3}),
        ("separate", {"operator": 2, "delivery": 1}),
        ({**_postgres(replicas=2), "operator": {"replicas": 3}}, {"operator": 3}),
        ({**_postgres(separate=True, replicas=4), "operator": {"replicas": 1}}, {"operator": 1, "delivery": 4}),
        (_postgres(autoscaling={"enabled": True}), {"operator": None}),
        (_postgres(separate=True, autoscaling={"enabled": True}), {"operator": 2, "delivery": None}),
    ],
)
def test_the_values_say_how_many_pods_there_are(
    chart: Chart, values: Object | str, pods: dict[str, int | None]
) -> None:
    """An autoscaled Deployment has no replica count, because each upgrade would reset it."""
    objects = golden(values) if isinstance(values, str) else chart.objects(values)
    assert _deployments(objects) == {**pods, "api": 1}


@pytest.mark.parametrize(
    ("layout", "roles"),
    [
        ("default", {"operator": ALL}),
        ("replicas", {"operator": ALL}),
        ("separate", {"operator": "reconcile", "delivery": "deliver,intake"}),
    ],
)
def test_every_role_is_with_somebody_and_every_process_has_a_name(layout: str, roles: dict[str, str]) -> None:
    """The roles follow from the layout, and the pod's unique name is the replica's name."""
    objects = golden(layout)
    for component, expected in roles.items():
        assert environment(objects, component)["HOOKWRIGHT_ROLES"] == expected
        (instance,) = [item for item in container(objects, component)["env"] if item["name"] == "HOOKWRIGHT_INSTANCE"]
        assert instance["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    assert not {"HOOKWRIGHT_ROLES", "HOOKWRIGHT_INSTANCE"} & {item["name"] for item in container(objects, "api")["env"]}


@pytest.mark.parametrize(("layout", "component"), [("replicas", "operator"), ("separate", "delivery")])
def test_one_address_takes_events_in_whatever_the_layout(layout: str, component: str) -> None:
    """Producers and the API call hookwright-operator, which selects the pods that listen, and a policy allows it."""
    objects = golden(layout)
    service = named(objects, "Service", "hookwright-operator")
    assert service["spec"]["selector"][COMPONENT] == component
    listening = {
        name: "intake" in {port["name"] for port in container(objects, name)["ports"]}
        for name in _deployments(objects)
        if name != "api"
    }
    assert listening == {name: name == component for name in listening}
    let_in = {
        policy["metadata"]["name"].removeprefix("hookwright-")
        for policy in of_kind(objects, "NetworkPolicy")
        for rule in policy["spec"]["ingress"]
        if rule["ports"][0]["port"] == "intake"
    }
    assert let_in == {component}
    assert environment(objects, "api")["HOOKWRIGHT_OPERATOR_URL"] == "http://hookwright-operator:8080"


def test_every_pod_is_scraped_once() -> None:
    """Each ServiceMonitor selects one Service with metrics, and the Service selects the pods of one Deployment.

    This Service has only the metrics, so a Service that a load balancer publishes has none.
    """
    objects = golden("separate")
    targets = []
    for monitor in of_kind(objects, "ServiceMonitor"):
        assert monitor["metadata"]["namespace"] == "monitoring"
        assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["hookwright-system"]}
        selection = monitor["spec"]["selector"]["matchLabels"].items()
        (service,) = [
            document
            for document in of_kind(objects, "Service")
            if selection <= document["metadata"]["labels"].items()
            and "metrics" in {port["name"] for port in document["spec"]["ports"]}
        ]
        assert len(service["spec"]["ports"]) == 1
        targets.append(service["spec"]["selector"][COMPONENT])
    assert sorted(targets) == sorted(_deployments(objects))


@pytest.mark.parametrize(
    ("layout", "budgets"), [("default", set()), ("replicas", {"operator"}), ("separate", {"operator"})]
)
def test_several_pods_are_evicted_one_at_a_time(layout: str, budgets: set[str]) -> None:
    """A single pod has no budget, because it would only block a drain."""
    assert _names(golden(layout), "PodDisruptionBudget") == budgets


@pytest.mark.parametrize(
    ("values", "budgets"),
    [
        (_postgres(separate=True, replicas=4, podDisruptionBudget={"minAvailable": "75%"}), {"delivery": "75%"}),
        (
            _postgres(separate=True, autoscaling={"enabled": True}, podDisruptionBudget={"minAvailable": 1}),
            {"delivery": 1},
        ),
    ],
)
def test_the_number_of_pods_decides_about_a_budget(chart: Chart, values: Object, budgets: dict[str, object]) -> None:
    """The number comes from the replicas, or from the least number of the autoscaler."""
    expected: Object = {name: {"minAvailable": available} for name, available in budgets.items()}
    expected["operator"] = {"maxUnavailable": 1}
    assert {
        budget["metadata"]["name"].removeprefix("hookwright-"): {
            name: value for name, value in budget["spec"].items() if "vailable" in name
        }
        for budget in of_kind(chart.objects(values), "PodDisruptionBudget")
    } == expected


def test_an_end_is_told_to_the_network_before_the_intake_closes() -> None:
    """On PostgreSQL a pod with the intake waits until no traffic is routed to it; a pod without it does not wait."""
    separate = golden("separate")
    assert container(separate, "delivery")["lifecycle"] == {"preStop": {"sleep": {"seconds": 5}}}
    assert "lifecycle" in container(golden("replicas"), "operator")
    assert "lifecycle" not in container(separate, "operator")
    assert "lifecycle" not in container(golden("default"), "operator")


def test_delivery_is_as_the_operator_where_nothing_else_is_said(chart: Chart) -> None:
    """Each value is either inherited or replaced, and never merged."""
    values = {
        **_postgres(separate=True, nodeSelector={"network": "fast"}, startupSeconds=7, envFrom=[]),
        "operator": {
            "envFrom": [{"configMapRef": {"name": "proxy"}}],
            "nodeSelector": {"disk": "fast"},
            "tolerations": [{"key": "dedicated", "operator": "Exists"}],
            "extraEnv": [{"name": "SSL_CERT_DIR", "value": "/certs"}],
            "topologySpreadConstraints": [{"topologyKey": "zone"}, {"topologyKey": "host", "labelSelector": {}}],
        },
    }
    objects = chart.objects(values)
    pod = named(objects, "Deployment", "hookwright-delivery")["spec"]["template"]["spec"]
    operator = named(objects, "Deployment", "hookwright-operator")["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"network": "fast"}
    assert pod["tolerations"] == operator["tolerations"]
    assert pod["securityContext"] == operator["securityContext"]
    assert environment(objects, "delivery")["SSL_CERT_DIR"] == "/certs"
    assert "envFrom" not in container(objects, "delivery")
    assert container(objects, "delivery")["startupProbe"]["failureThreshold"] == 7
    by_zone, by_host = pod["topologySpreadConstraints"]
    assert by_zone["labelSelector"]["matchLabels"][COMPONENT] == "delivery"
    assert by_host == {"topologyKey": "host", "labelSelector": {}}


@pytest.mark.parametrize(("separate", "target"), [(False, "hookwright-operator"), (True, "hookwright-delivery")])
@pytest.mark.parametrize("keda", [False, True])
def test_the_autoscaler_moves_who_delivers(chart: Chart, *, separate: bool, keda: bool, target: str) -> None:
    """The Deployment that delivers gets one autoscaler, with the configured bounds."""
    autoscaling: Object = {"enabled": True, "minReplicas": 3, "maxReplicas": 9}
    if keda:
        autoscaling["keda"] = {"enabled": True, "prometheusAddress": "http://prometheus:9090"}
    objects = chart.objects(_postgres(separate=separate, autoscaling=autoscaling))
    (scaler,) = of_kind(objects, "HorizontalPodAutoscaler", "ScaledObject")
    assert scaler["kind"] == ("ScaledObject" if keda else "HorizontalPodAutoscaler")
    spec = scaler["spec"]
    assert spec["scaleTargetRef"]["name"] == target
    bounds = ("minReplicaCount", "maxReplicaCount") if keda else ("minReplicas", "maxReplicas")
    assert tuple(spec[bound] for bound in bounds) == (3, 9)


def test_only_what_more_pods_would_send_sooner_scales(chart: Chart, promtool: str, tmp_path: Path) -> None:
    """The leader's gauge counts once, while a deliverable delivery is late; endpoints that are down scale nothing."""
    autoscaling = {"enabled": True, "keda": {"enabled": True, "prometheusAddress": "http://prometheus:9090"}}
    (scaler,) = of_kind(chart.objects(_postgres(autoscaling=autoscaling)), "ScaledObject")
    (query,) = [
        trigger["metadata"]["query"] for trigger in scaler["spec"]["triggers"] if trigger["type"] == "prometheus"
    ]
    cases = ((40_000, 90, 40_000), (40_000, 0, None), (0, 0, None), (7, 11, 7))
    (tmp_path / "case.yaml").write_text(json.dumps({"tests": [_scaling(query, *case) for case in cases]}))
    result = subprocess.run(
        [promtool, "test", "rules", tmp_path / "case.yaml"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


def _scaling(query: str, pending: int, late: int, count: int | None) -> Object:
    """Return promtool's test that the query gives a count, or nothing for None."""
    series = [
        (f'hookwright_deliveries_{name}{{namespace="{namespace}", pod="{pod}"}}', value)
        for name, leaders in (("pending", pending), ("oldest_late_age_seconds", late))
        for namespace, pod, value in (
            ("hookwright-system", "leader", leaders),
            ("hookwright-system", "standby", 0),
            ("elsewhere", "leader", 99_999),
        )
    ]
    expected = [] if count is None else [{"labels": "{}", "value": count}]
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": str(value)} for name, value in series],
        "promql_expr_test": [{"expr": query, "eval_time": "0m", "exp_samples": expected}],
    }


def test_the_hint_at_the_end_names_every_deployment(chart: Chart) -> None:
    """NOTES.txt waits for all Deployments, and names the one address for producers."""
    result = chart.run(
        "install", "hookwright", str(CHART), "--dry-run=client", values=_postgres(separate=True, replicas=2)
    )
    assert result.returncode == 0, result.stderr
    for name in ("operator", "delivery", "api"):
        assert f"deployment/hookwright-{name}" in result.stdout
    assert "http://hookwright-operator." in result.stdout

"""A real API server accepts everything that the chart renders: strictly, unknown fields refused, no warning.

The tests use an API server and not kubeconform, whose schemas have to be downloaded. The API server knows
Hookwright's kinds and their rules, its admission checks the pods, and it needs no network.
"""

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from support.chart_rendering import CHART, POSTGRES, Chart, Object, container, golden, named, of_kind

from hookwright_dev.cluster.kubectl import Cluster

REDIS = {"rateLimits": {"existingSecret": {"name": "counters"}}}
PENDING: Object = {
    "type": "External",
    "external": {
        "metric": {"name": "hookwright_deliveries_pending"},
        "target": {"type": "AverageValue", "averageValue": "5k"},
    },
}
_RESTRICTED: Object = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
EXTRAS: Object = {
    "envFrom": [{"configMapRef": {"name": "proxy"}}],
    "extraVolumes": [{"name": "socket", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "socket", "mountPath": "/var/run/sql"}],
    "extraContainers": [{"name": "sql-proxy", "image": "sql-proxy:1", "securityContext": _RESTRICTED}],
    "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
    "hostAliases": [{"ip": "192.0.2.7", "hostnames": ["db.example.com"]}],
    "runtimeClassName": "gvisor",
    "revisionHistoryLimit": 2,
    "deploymentAnnotations": {"reloader": "auto"},
    "initContainers": [{"name": "migration", "image": "tools:1", "securityContext": _RESTRICTED}],
    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": 0}},
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    ],
}
SCRAPES: Object = {
    "scrapeTimeout": "30s",
    "relabelings": [{"targetLabel": "cluster", "replacement": "eu-1"}],
    "metricRelabelings": [{"sourceLabels": ["__name__"], "regex": "python_.*", "action": "drop"}],
}
EVERYTHING: Object = {
    **POSTGRES,
    **REDIS,
    "commonLabels": {"team": "messaging"},
    "imagePullSecrets": [{"name": "registry"}],
    "image": {"tag": "sha256:" + "0" * 64},
    "caBundle": {"configMap": "authorities"},
    "extraObjects": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "more-{{ .Release.Name }}"}, "data": {}},
    ],
    "operator": {
        **EXTRAS,
        "replicas": 3,
        "podAnnotations": {"a": "b"},
        "podLabels": {"c": "d"},
        "service": {"type": "LoadBalancer", "ipFamilyPolicy": "PreferDualStack", "annotations": {"e": "f"}},
        "podDisruptionBudget": {"minAvailable": 2},
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
        "priorityClassName": "important",
        "extraEnv": [{"name": "SSL_CERT_DIR", "value": "/certs"}],
        "serviceAccount": {"annotations": {"g": "h"}},
    },
    "delivery": {
        "separate": True,
        "autoscaling": {"enabled": True, "keda": {"enabled": True, "prometheusAddress": "http://prometheus:9090"}},
        "serviceAccount": {"annotations": {"k": "l"}},
        "nodeSelector": {"network": "fast"},
    },
    "api": {
        **EXTRAS,
        "autoscaling": {"enabled": True},
        "podDisruptionBudget": {"minAvailable": "50%"},
        "service": {"type": "NodePort"},
        "topologySpreadConstraints": [],
    },
    "ingress": {
        "enabled": True,
        "className": "nginx",
        "annotations": {"i": "j"},
        "hosts": ["hooks.example.com", "hooks.example.org"],
        "tls": [{"secretName": "tls", "hosts": ["hooks.example.com"]}],
    },
    "gateway": {"enabled": True, "parentRefs": [{"name": "public"}], "hostnames": ["hooks.example.com"]},
    "networkPolicy": {
        "apiFrom": [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}],
        "egress": {"enabled": True, "apiTo": [{"ports": [{"port": 6379}]}]},
    },
    "metrics": {
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}, **SCRAPES},
        "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
        "dashboard": {"enabled": True, "annotations": {"grafana_folder": "Hookwright"}},
        "kubeStateMetrics": {"enabled": True, "labels": {"a": "b"}},
    },
    "firstOrganization": {
        "name": "acme",
        "user": {"email": "Ada@Example.com", "passwordHash": "$argon2id$v=19$m=65536,t=3,p=4$c2FsdA$aGFzaA"},
    },
}
MATRIX: dict[str, Object] = {
    "as it is": {},
    "everything": EVERYTHING,
    "production": yaml.safe_load((CHART / "values-production.yaml").read_text()),
    "OpenShift": {"openshift": True},
    "pods that are scraped themselves": {"metrics": {"podMonitor": {"enabled": True, "labels": {"a": "b"}, **SCRAPES}}},
    "certificates of the database": {
        "database": {"existingSecret": {"name": "store"}, "certificates": {"secret": "store-tls"}},
    },
    "PostgreSQL": POSTGRES,
    "PostgreSQL, three pods that do everything": {**POSTGRES, "delivery": {"replicas": 3}},
    "PostgreSQL, delivery apart, a long name": {
        **POSTGRES,
        "delivery": {"separate": True, "replicas": 3},
        "fullnameOverride": "hookwright-" * 6,
    },
    "PostgreSQL, delivery by its load": {
        **POSTGRES,
        "delivery": {"separate": True, "autoscaling": {"enabled": True, "metrics": [PENDING]}},
    },
    "PostgreSQL, everything by its load": {**POSTGRES, "delivery": {"autoscaling": {"enabled": True}}},
    "PostgreSQL, delivery by its backlog alone": {
        **POSTGRES,
        "delivery": {
            "autoscaling": {
                "enabled": True,
                "targetCPUUtilizationPercentage": None,
                "behavior": {},
                "keda": {
                    "enabled": True,
                    "prometheusAddress": "https://prometheus:9090",
                    "query": "max(hookwright_deliveries_pending)",
                    "authenticationRef": {"name": "prometheus"},
                },
            },
        },
    },
    "three APIs with Redis": {"api": {"replicas": 3}, "settings": {"rateLimitUrl": "redis://redis:6379/0"}},
    "no API": {"api": {"enabled": False}, "metrics": {"serviceMonitor": {"enabled": True}}},
    "no volume": {"persistence": {"enabled": False}},
    "a volume of one's own": {"persistence": {"existingClaim": "mine"}},
    "a chosen storage class": {"persistence": {"storageClassName": "fast", "keep": False, "annotations": {"a": "b"}}},
    "accounts of one's own": {
        "operator": {"serviceAccount": {"create": False, "name": "mine"}},
        "api": {"serviceAccount": {"create": False, "name": "mine"}},
        "rbac": {"create": False},
    },
    "no policies, no hooks, no CRDs": {
        "networkPolicy": {"enabled": False},
        "uninstall": {"releaseFinalizers": False},
        "crds": {"enabled": False},
        "rbac": {"aggregate": False},
        "deletionProtection": {"enabled": False},
    },
    "egress to named servers": {
        **POSTGRES,
        "networkPolicy": {
            "egress": {
                "enabled": True,
                "dnsTo": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}],
                "apiServerTo": [{"ipBlock": {"cidr": "10.96.0.1/32"}}, {"ipBlock": {"cidr": "10.0.0.0/24"}}],
                "databasePorts": [5432, 6432],
                "databaseTo": [{"podSelector": {"matchLabels": {"app": "postgres"}}}],
                "operatorTo": [{"to": [{"ipBlock": {"cidr": "10.9.0.0/16"}}]}],
            }
        },
        "settings": {"deniedNetworks": ["203.0.114.7", "2a00::/16"], "traces": "http://otel-collector:4318"},
    },
    "receivers in private networks": {"settings": {"allowedNetworks": ["10.0.0.0/8", "fd00::7"]}},
    "settings left to the processes": {"settings": dict.fromkeys(("window", "apiPort", "intakePort", "lease"))},
    "an organization in a namespace that is there": {"firstOrganization": {"name": "acme", "createNamespace": False}},
    "users in a namespace that is there": {"usersNamespace": {"create": False}},
}


_ACCEPTED: set[str] = set()
"""The documents that the API server has accepted; most of them are the same in every combination of values."""


def _accepted(cluster: Cluster, text: str) -> None:
    documents = set(re.split(r"^---\n", text, flags=re.MULTILINE)) - _ACCEPTED - {""}
    arguments = ("--server-side", "--force-conflicts", "--field-manager=helm", "--dry-run=server", "--validate=strict")
    if documents:
        result = cluster.kubectl("apply", *arguments, "-f", "-", stdin="---\n".join(sorted(documents)), check=False)
        assert result.returncode == 0, result.stderr
        assert "Warning" not in result.stderr, result.stderr
    _ACCEPTED.update(documents)


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_what_the_chart_renders_is_taken_by_the_api_server(
    chart: Chart, served: Cluster, restricted: str, values: Object
) -> None:
    """Every combination passes strict validation and the restricted Pod Security level without a warning."""
    _accepted(served, chart.text(values, namespace=restricted))


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["as it is", "everything"])
def test_lint_has_nothing_to_say(chart: Chart, values: Object) -> None:
    """`helm lint --strict` passes without values, and with all parts."""
    result = chart.run("lint", str(CHART), "--strict", values=values)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_api_server_would_refuse_a_mistake(chart: Chart, served: Cluster, restricted: str) -> None:
    """The check above finds a misspelt field, and a pod that is not restricted."""
    text = chart.text(namespace=restricted)
    with pytest.raises(AssertionError, match="field not declared in schema"):
        _accepted(served, text.replace("terminationGracePeriodSeconds", "terminationGraceSeconds"))
    with pytest.raises(AssertionError, match="would violate PodSecurity"):
        _accepted(served, text.replace("runAsNonRoot: true", "runAsNonRoot: false"))


def test_the_operator_on_sqlite_is_replaced_and_never_doubled() -> None:
    """Two processes must not use the SQLite file: Recreate on SQLite, a rolling update on PostgreSQL."""
    strategies = [
        named(golden(layout), "Deployment", "hookwright-operator")["spec"]["strategy"]["type"]
        for layout in ("default", "replicas")
    ]
    assert strategies == ["Recreate", "RollingUpdate"]


@pytest.mark.parametrize(
    ("component", "layout", "least"),
    [
        ("operator", "default", 35),
        ("operator", "replicas", 35 + 5),
        ("delivery", "separate", 35 + 5),
        ("api", "default", 40 + 5),
    ],
)
def test_the_kubelet_kills_no_earlier_than_a_pod_is_done(component: str, layout: str, least: int) -> None:
    """The grace period covers preStop and the drain, with seconds to spare for storing results."""
    assert _grace_seconds(golden(layout), component) >= least + 10


def test_the_grace_period_follows_the_settings(chart: Chart) -> None:
    """A longer drain of the operator or the API gets a longer grace period."""
    settings = {"shutdownGrace": 100.5, "apiShutdownGrace": 10}
    objects = chart.objects({"api": {"drainSeconds": 60}, "settings": settings})
    assert _grace_seconds(objects, "operator") >= 101 + 10
    assert _grace_seconds(objects, "api") >= 70 + 10


def _grace_seconds(objects: list[Object], component: str) -> int:
    pod = named(objects, "Deployment", f"hookwright-{component}")["spec"]["template"]["spec"]
    return int(pod["terminationGracePeriodSeconds"])


def test_uninstalling_keeps_resources_and_deliveries(chart: Chart) -> None:
    """CRDs, the database, users and an organization are kept, unless a value says that CRDs or database are not."""
    organization = {"firstOrganization": {"name": "acme"}}
    namespaces = {("Namespace", "acme"), ("Namespace", "hookwright-system-users")}
    crds = {f"{plural}.hookwright.dev" for plural in ("apikeys", "eventtypes", "projects", "webhookendpoints")}
    assert _kept(chart.objects(organization)) == namespaces | {
        *(("CustomResourceDefinition", name) for name in crds),
        ("PersistentVolumeClaim", "hookwright-operator"),
    }
    assert _kept(chart.objects({**organization, "crds": {"keep": False}, "persistence": {"keep": False}})) == namespaces


def _kept(objects: list[Object]) -> set[tuple[str, str]]:
    return {
        (document["kind"], document["metadata"]["name"])
        for document in objects
        if document["metadata"].get("annotations", {}).get("helm.sh/resource-policy") == "keep"
    }


def test_the_password_of_the_database_stays_in_its_secret() -> None:
    """Each URL comes from a Secret reference, and only the process that needs it gets it."""
    objects = golden("replicas")
    references = {
        (component, item["name"], item["valueFrom"]["secretKeyRef"]["name"])
        for component in ("operator", "api")
        for item in container(objects, component)["env"]
        if "secretKeyRef" in item.get("valueFrom", {})
    }
    assert references == {
        ("operator", "HOOKWRIGHT_DATABASE_URL", "store"),
        ("api", "HOOKWRIGHT_RATE_LIMIT_URL", "counters"),
    }


def test_every_object_says_whose_it_is(chart: Chart) -> None:
    """Every object has the standard labels, and objects of one component have its label.

    An extra object is as in the values; only templates in it are evaluated.
    """
    objects = chart.objects(EVERYTHING)
    for document in objects:
        if document["metadata"]["name"] == "more-hookwright":
            assert "labels" not in document["metadata"]
            continue
        labels = document["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == "hookwright", document["metadata"]["name"]
        assert labels["app.kubernetes.io/instance"] == "hookwright"
        assert labels["team"] == "messaging"
    assert named(objects, "ConfigMap", "more-hookwright")
    for deployment in of_kind(objects, "Deployment"):
        component = deployment["metadata"]["name"].removeprefix("hookwright-")
        assert deployment["spec"]["selector"]["matchLabels"]["app.kubernetes.io/component"] == component


def test_the_rule_for_prometheus_is_sound(chart: Chart, promtool: str, tmp_path: Path) -> None:
    """Prometheus accepts the groups as rendered; without an API, no alert about it exists."""
    rules = tmp_path / "rules.yaml"
    for enabled in (True, False):
        values = {"api": {"enabled": enabled}, "metrics": {"prometheusRule": {"enabled": True}}}
        (rule,) = of_kind(chart.objects(values), "PrometheusRule")
        rules.write_text(yaml.safe_dump(rule["spec"]))
        result = subprocess.run([promtool, "check", "rules", rules], capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
        assert ("hookwright-api" in {group["name"] for group in rule["spec"]["groups"]}) is enabled


def test_services_do_not_leak_into_the_settings() -> None:
    """For a Service hookwright-api Kubernetes would set HOOKWRIGHT_API_PORT=tcp://…, which is also a setting."""
    for deployment in of_kind(golden("default"), "Deployment"):
        assert deployment["spec"]["template"]["spec"]["enableServiceLinks"] is False

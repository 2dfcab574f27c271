"""Impossible combinations of values are refused before the installation, with a message that names the correct form."""

import json

import jsonschema_rs
import pytest
from support.chart_rendering import CHART, POSTGRES, Chart, Object

REFUSED: dict[str, tuple[Object, tuple[str, ...]]] = {
    "SQLite": (
        {
            "image": {"repository": ""},
            "operator": {
                "replicas": 2,
                "strategy": {"type": "RollingUpdate"},
                "serviceAccount": {"create": False},
                "resources": {"limits": {"memory": 10}},
                "extraEnv": [{"name": "HOOKWRIGHT_ROLES", "value": "reconcile"}],
            },
            "delivery": {"replicas": 2, "separate": True, "autoscaling": {"enabled": True, "minReplicas": 11}},
            "api": {"replicas": 2},
            "ingress": {"enabled": True},
            "gateway": {"enabled": True},
            "persistence": {"enabled": False, "existingClaim": "mine"},
            "crds": {"keep": False},
            "uninstall": {"releaseFinalizers": False},
            "metrics": {
                "serviceMonitor": {"enabled": True},
                "podMonitor": {"enabled": True, "scrapeTimeout": "1m"},
                "prometheusRule": {"overrides": {"HookwrightLate": {"for": "1h"}}, "disabled": ["HookwrightLate"]},
            },
            "firstOrganization": {"user": {"email": "a@b.c", "passwordHash": "$argon2id$x"}},
            "settings": {
                "databaseUrl": "sqlite:////data/hookwright.db",
                "intakePort": 9090,
                "lease": 36,
                "namespace": "hooks",
                "usersNamespace": "hooks",
            },
        },
        (
            "image.repository is empty: name an image that the cluster can pull",
            "operator.replicas is 2, but SQLite serves one process",
            "operator.strategy.type is RollingUpdate, but SQLite serves one process",
            "operator.serviceAccount.create is false and its name empty",
            "operator.resources.limits.memory is 10, but the process needs at least 64Mi",
            "operator.extraEnv sets HOOKWRIGHT_ROLES",
            "delivery.replicas is 2, but SQLite serves one process",
            "delivery.separate is true, but SQLite",
            "delivery.autoscaling.enabled is true, but SQLite",
            "delivery.autoscaling.minReplicas is 11 and maxReplicas 10",
            "each of several API pods would count rate limits separately",
            "ingress.hosts is empty",
            "gateway.parentRefs is empty",
            "persistence.enabled is false",
            "the deletion of the CRDs would never end",
            "each pod is scraped twice",
            "metrics.podMonitor.scrapeTimeout is 1m and its interval 30s",
            "metrics.prometheusRule.overrides names HookwrightLate, but no alert has this name",
            "metrics.prometheusRule.disabled names HookwrightLate",
            "a user needs an organization",
            "only below /var/lib/hookwright",
            "two servers of one pod need two ports",
            "longer than the longest attempt, settings.maxTimeout of 30 s",
            "name a namespace for users alone, such as hooks-users",
        ),
    ),
    "PostgreSQL": (
        {
            **POSTGRES,
            "image": {"repository": "registry.example.com:5000/hookwright:0.1.0"},
            "delivery": {
                "separate": True,
                "replicas": 3,
                "serviceAccount": {"create": False},
                "resources": {"limits": {"memory": "10Mi"}},
                "podDisruptionBudget": {"minAvailable": "67%"},
                "autoscaling": {"keda": {"enabled": True}, "metrics": [{"type": "External"}]},
            },
            "api": {"enabled": False},
            "ingress": {"enabled": True, "hosts": ["hooks.example.com"]},
            "firstOrganization": {"name": "acme", "user": {"email": "a@b.c", "passwordHash": "hunter2"}},
            "settings": {
                "databaseUrl": "postgresql://u:hunter2@host/db",
                "rateLimitUrl": "redis://:hunter2@host:6379",
                "proxyUrl": "http://u:hunter2@proxy:3128",
                "lease": 6,
                "maxTimeout": 5,
                "watchNamespaces": ["other"],
                "usersNamespace": "other",
            },
        },
        (
            "its tag or digest has a value of its own: set image.tag",
            "delivery.serviceAccount.create is false and its name empty",
            "delivery.resources.limits.memory is 10Mi",
            "delivery.podDisruptionBudget.minAvailable is 67%, but there may be only 3 pods",
            "delivery.autoscaling.enabled is false",
            "prometheusAddress is empty",
            "write the metric as keda.query",
            "ingress and gateway lead to the API, but api.enabled is false",
            "firstOrganization.user.passwordHash must be an argon2id hash",
            "name that in database.existingSecret.name",
            "name that in egressProxy.existingSecret.name",
            "name that in rateLimits.existingSecret.name",
            "longer than the longest attempt, settings.maxTimeout of 5 s",
            "the operator does not serve it",
            "whose other Secrets the API could read",
        ),
    ),
    "numbers of pods": (
        {
            **POSTGRES,
            "delivery": {"autoscaling": {"enabled": True, "targetCPUUtilizationPercentage": None}},
            "api": {"autoscaling": {"enabled": True, "minReplicas": 9}, "podDisruptionBudget": {"minAvailable": 9}},
            "settings": {"databaseUrl": "mysql://u:hunter2@host/db", "namespace": "n" * 63},
        },
        (
            "it has no metric",
            "api.autoscaling.minReplicas is 9 and maxReplicas 6: minReplicas must not exceed maxReplicas",
            "api.podDisruptionBudget.minAvailable is 9, but there may be only 9 pods",
            "each of several API pods would count rate limits separately",
            "settings.databaseUrl contains a password",
            "has at most 63 characters",
        ),
    ),
}
MISTYPED: dict[str, tuple[Object, str]] = {
    "a network with too long a prefix": (
        {"settings": {"allowedNetworks": ["10.0.0.0/40"]}},
        "/settings/allowedNetworks/0",
    ),
    "a misspelt value": ({"operator": {"replica": 1}}, "replica"),
    "a misspelt setting": ({"settings": {"retrySchedul": "30s"}}, "retrySchedul"),
    "roles as a setting, which the layout decides": ({"settings": {"roles": "deliver"}}, "roles"),
    "scaling to nothing, which would take nothing in": (
        {"delivery": {"autoscaling": {"minReplicas": 0}}},
        "minReplicas",
    ),
    "a number as a word": ({"settings": {"window": "many"}}, "window"),
    "a number out of bounds": ({"settings": {"window": 0}}, "window"),
    "a port that no Service can have": ({"settings": {"apiPort": 0}}, "apiPort"),
    "an unknown log format": ({"settings": {"logFormat": "xml"}}, "logFormat"),
    "a strategy without its type": ({"api": {"strategy": {"rollingUpdate": {}}}}, "strategy"),
    "a pattern of namespaces": ({"settings": {"watchNamespaces": ["acme-*"]}}, "/settings/watchNamespaces/0"),
    "a list as text": ({"settings": {"allowedNetworks": "10.0.0.0/8"}}, "allowedNetworks"),
    "no network": ({"settings": {"allowedNetworks": ["ten dot"]}}, "allowedNetworks"),
    "no schedule": ({"settings": {"retrySchedule": "soon"}}, "retrySchedule"),
    "an unknown pull policy": ({"image": {"pullPolicy": "Sometimes"}}, "pullPolicy"),
    "a digest that is none": ({"image": {"digest": "1.2.3"}}, "/image/digest"),
    "a name that no namespace can have": ({"firstOrganization": {"name": "Acme Inc"}}, "firstOrganization"),
}


@pytest.mark.parametrize(("values", "sentences"), REFUSED.values(), ids=REFUSED)
def test_impossible_values_are_refused_with_a_sentence_for_each(
    chart: Chart, values: Object, sentences: tuple[str, ...]
) -> None:
    """Each sentence names the value and the correct form, and none repeats a password."""
    message = chart.refusal(values)
    assert [sentence for sentence in sentences if sentence not in message] == []
    title, *lines = message.partition("\n\n")[0].splitlines()
    assert len(lines) == len(sentences), title
    assert "hunter2" not in message


def test_helm_refuses_mistyped_values(chart: Chart) -> None:
    """Helm checks the values by values.schema.json before it renders them, and names each wrong one."""
    message = chart.refusal({"opperator": {}, "settings": {"allowedNetworks": ["10.0.0.0/40"]}})
    assert "opperator" in message
    assert "/settings/allowedNetworks/0" in message


@pytest.mark.parametrize(("values", "name"), MISTYPED.values(), ids=MISTYPED)
def test_a_mistyped_value_is_refused_by_its_name(values: Object, name: str) -> None:
    """values.schema.json lists every value, so that a misspelt one is an error."""
    validator = jsonschema_rs.validator_for(json.loads((CHART / "values.schema.json").read_text()))
    (error,) = validator.iter_errors(values)
    assert name in f"/{'/'.join(map(str, error.instance_path))}: {error.message}"

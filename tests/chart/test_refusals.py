"""Impossible combinations of values are refused before the installation, with a message that names the correct form."""

import pytest
from support.chart_rendering import Chart, Object

POSTGRES = {"database": {"existingSecret": {"name": "store"}}}
REFUSED: dict[str, tuple[Object, str]] = {
    "no image": ({"image": {"repository": ""}}, "image.repository is empty: name an image that the cluster can pull"),
    "an image with its tag": (
        {"image": {"repository": "registry.example.com:5000/hookwright:0.1.0"}},
        "its tag or digest has a value of its own: set image.tag",
    ),
    "two operators on SQLite": ({"operator": {"replicas": 2}}, "operator.replicas is 2, but SQLite serves one process"),
    "two that deliver on SQLite": (
        {"delivery": {"replicas": 2}},
        "delivery.replicas is 2, but SQLite serves one process",
    ),
    "delivery apart on SQLite": ({"delivery": {"separate": True}}, "delivery.separate is true, but SQLite"),
    "delivery by its load on SQLite": (
        {"delivery": {"autoscaling": {"enabled": True}}},
        "delivery.autoscaling.enabled is true, but SQLite",
    ),
    "two pods for a moment on SQLite": (
        {"operator": {"strategy": {"type": "RollingUpdate"}}},
        "operator.strategy.type is RollingUpdate, but SQLite serves one process",
    ),
    "a budget that no drain keeps": (
        {**POSTGRES, "delivery": {"separate": True, "replicas": 3, "podDisruptionBudget": {"minAvailable": "67%"}}},
        "delivery.podDisruptionBudget.minAvailable is 67%, but there may be only 3 pods",
    ),
    "a budget of the least number of pods": (
        {
            "api": {"autoscaling": {"enabled": True}, "podDisruptionBudget": {"minAvailable": 2}},
            "settings": {"rateLimitUrl": "redis://redis:6379/0"},
        },
        "api.podDisruptionBudget.minAvailable is 2, but there may be only 2 pods",
    ),
    "a scrape that is longer than its interval": (
        {"metrics": {"podMonitor": {"scrapeTimeout": "1m"}}},
        "metrics.podMonitor.scrapeTimeout is 1m and its interval 30s",
    ),
    "CRDs that would never be deleted": (
        {"crds": {"keep": False}, "uninstall": {"releaseFinalizers": False}},
        "the deletion of the CRDs would never end",
    ),
    "more that deliver at least than at most": (
        {**POSTGRES, "delivery": {"autoscaling": {"enabled": True, "minReplicas": 11}}},
        "delivery.autoscaling.minReplicas is 11 and maxReplicas 10",
    ),
    "autoscaling by nothing": (
        {**POSTGRES, "delivery": {"autoscaling": {"enabled": True, "targetCPUUtilizationPercentage": None}}},
        "it has no metric",
    ),
    "KEDA without autoscaling": (
        {**POSTGRES, "delivery": {"autoscaling": {"keda": {"enabled": True}}}},
        "delivery.autoscaling.enabled is false",
    ),
    "KEDA without Prometheus": (
        {**POSTGRES, "delivery": {"autoscaling": {"enabled": True, "keda": {"enabled": True}}}},
        "prometheusAddress is empty",
    ),
    "two autoscalers' metrics": (
        {
            **POSTGRES,
            "delivery": {
                "autoscaling": {
                    "enabled": True,
                    "metrics": [{"type": "External"}],
                    "keda": {"enabled": True, "prometheusAddress": "http://prometheus:9090"},
                }
            },
        },
        "write the metric as keda.query",
    ),
    "roles that contradict the layout": (
        {"operator": {"extraEnv": [{"name": "HOOKWRIGHT_ROLES", "value": "reconcile"}]}},
        "operator.extraEnv sets HOOKWRIGHT_ROLES",
    ),
    "no ServiceAccount of delivery": (
        {**POSTGRES, "delivery": {"separate": True, "serviceAccount": {"create": False}}},
        "delivery.serviceAccount.create",
    ),
    "two APIs without Redis": ({"api": {"replicas": 2}}, "count rate limits separately"),
    "autoscaling without Redis": ({"api": {"autoscaling": {"enabled": True}}}, "count rate limits separately"),
    "more pods at least than at most": (
        {
            "api": {"autoscaling": {"enabled": True, "minReplicas": 9}},
            "settings": {"rateLimitUrl": "redis://redis:6379/0"},
        },
        "must not exceed maxReplicas",
    ),
    "a password in the database's URL": (
        {"settings": {"databaseUrl": "postgresql://u:secret@host/db"}},
        "database.existingSecret.name",
    ),
    "a password in the counters' URL": (
        {"settings": {"rateLimitUrl": "redis://:secret@host:6379"}},
        "rateLimits.existingSecret.name",
    ),
    "a database where nothing can be written": (
        {"settings": {"databaseUrl": "sqlite:////data/hookwright.db"}},
        "only below /var/lib/hookwright",
    ),
    "an Ingress to no API": ({"api": {"enabled": False}, "ingress": {"enabled": True}}, "api.enabled is false"),
    "an Ingress for no host": ({"ingress": {"enabled": True}}, "ingress.hosts is empty"),
    "a route at no Gateway": ({"gateway": {"enabled": True}}, "gateway.parentRefs is empty"),
    "no ServiceAccount": ({"operator": {"serviceAccount": {"create": False}}}, "operator.serviceAccount.create"),
    "a memory limit without its unit": (
        {"operator": {"resources": {"limits": {"memory": 10}}}},
        "operator.resources.limits.memory is 10, but the process needs at least 64Mi",
    ),
    "a memory limit that is too small": (
        {**POSTGRES, "delivery": {"separate": True, "resources": {"limits": {"memory": "10Mi"}}}},
        "delivery.resources.limits.memory is 10Mi",
    ),
    "a claim without persistence": (
        {"persistence": {"enabled": False, "existingClaim": "mine"}},
        "persistence.enabled is false",
    ),
    "a lease shorter than an attempt": ({"settings": {"lease": 36}}, "longer than the longest attempt"),
    "a lease shorter than an attempt of this installation": (
        {"settings": {"lease": 6, "maxTimeout": 5}},
        "longer than the longest attempt, settings.maxTimeout of 5 s",
    ),
    "two servers on one port": ({"settings": {"intakePort": 9090}}, "two servers of one pod need two ports"),
    "every pod scraped twice": (
        {"metrics": {"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}}},
        "each pod is scraped twice",
    ),
    "a change of no alert": (
        {"metrics": {"prometheusRule": {"overrides": {"HookwrightLate": {"for": "1h"}}}}},
        "metrics.prometheusRule.overrides names HookwrightLate, but no alert has this name",
    ),
    "no alert to leave out": (
        {"metrics": {"prometheusRule": {"disabled": ["HookwrightLate"]}}},
        "metrics.prometheusRule.disabled names HookwrightLate",
    ),
    "a user of no organization": ({"firstOrganization": {"user": {"email": "a@b.c"}}}, "needs an organization"),
    "a password for its hash": (
        {"firstOrganization": {"name": "acme", "user": {"email": "a@b.c", "passwordHash": "hunter2"}}},
        "not the password",
    ),
    "an organization that is not served": (
        {"firstOrganization": {"name": "acme"}, "settings": {"watchNamespaces": ["other"]}},
        "the operator does not serve it",
    ),
    "users beside the Secrets of an organization": (
        {"settings": {"usersNamespace": "acme", "watchNamespaces": ["acme"]}},
        "whose other Secrets the API could read",
    ),
    "users beside the Secrets of the installation": (
        {"settings": {"namespace": "hooks", "usersNamespace": "hooks"}},
        "name a namespace for users alone, such as hooks-users",
    ),
    "a namespace of users whose name is too long": (
        {"settings": {"namespace": "n" * 63}},
        "has at most 63 characters",
    ),
}
MISTYPED: dict[str, tuple[Object, str]] = {
    "a network with too long a prefix": (
        {"settings": {"allowedNetworks": ["10.0.0.0/40"]}},
        "/settings/allowedNetworks/0",
    ),
    "a misspelt section": ({"opperator": {}}, "opperator"),
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
    "a name that no namespace can have": ({"firstOrganization": {"name": "Acme Inc"}}, "firstOrganization"),
}


@pytest.mark.parametrize(("values", "sentence"), REFUSED.values(), ids=REFUSED)
def test_an_impossible_combination_is_refused_with_a_sentence(chart: Chart, values: Object, sentence: str) -> None:
    """The message names the value and the correct form."""
    assert sentence in chart.refusal(values)


@pytest.mark.parametrize(("values", "name"), MISTYPED.values(), ids=MISTYPED)
def test_a_mistyped_value_is_refused_by_its_name(chart: Chart, values: Object, name: str) -> None:
    """values.schema.json lists every value, so that a misspelt one is an error."""
    assert name in chart.refusal(values)


def test_a_refusal_keeps_the_password_to_itself(chart: Chart) -> None:
    """The message does not repeat a URL with a password."""
    assert "hunter2" not in chart.refusal({"settings": {"databaseUrl": "postgresql://u:hunter2@host/db"}})

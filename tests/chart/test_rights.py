"""The chart grants the same rights as development and its tests use: no more, no less."""

from collections.abc import Iterable

import pytest
import yaml
from support.chart_rendering import Chart, Object, of_kind

from hookwright_dev.chart.rbac import CLUSTER_SCOPED, REVIEWS
from hookwright_dev.cluster.installation import MANIFESTS

Grant = tuple[str, str, str, str]
SUBJECTS = ("hookwright-operator", "hookwright-delivery", "hookwright-api")
POSTGRES: Object = {"database": {"existingSecret": {"name": "store"}}}
SEPARATE: Object = {**POSTGRES, "delivery": {"separate": True}}


def _rules(roles: Iterable[Object]) -> set[Grant]:
    """Return what roles grant: namespace ("" for all), group and resource, verb."""
    return {
        (role["metadata"].get("namespace", ""), group, resource, verb)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def _granted(objects: list[Object], account: str) -> set[Grant]:
    """Return what a ServiceAccount is granted through its bindings."""
    roles = []
    for binding in of_kind(objects, "RoleBinding", "ClusterRoleBinding"):
        if any(subject["name"] == account for subject in binding["subjects"]):
            roles += [
                role
                for role in of_kind(objects, binding["roleRef"]["kind"])
                if role["metadata"]["name"] == binding["roleRef"]["name"]
                and role["metadata"].get("namespace") == binding["metadata"].get("namespace")
            ]
    return _rules(roles)


def _development() -> list[Object]:
    paths = sorted(MANIFESTS.glob("*.yaml"))
    return [document for path in paths for document in yaml.safe_load_all(path.read_text()) if document]


@pytest.mark.parametrize(
    ("account", "values", "without"),
    [
        ("hookwright-api", {}, set()),
        ("hookwright-operator", POSTGRES, set()),
        ("hookwright-operator", {}, {"leases"}),
        ("hookwright-operator", SEPARATE, REVIEWS),
        ("hookwright-delivery", SEPARATE, set()),
    ],
)
def test_the_chart_grants_what_development_runs_with(
    chart: Chart, account: str, values: Object, without: set[str]
) -> None:
    """A ServiceAccount has exactly the rules of the manifests, except those that this layout does not need."""
    granted = _granted(chart.objects(values), account)
    assert granted
    assert granted == {grant for grant in _granted(_development(), account) if grant[2] not in without}


def test_producers_get_what_development_gives_them(chart: Chart) -> None:
    """The roles to be bound in an organization's namespace have the rules of the manifests."""
    shipped, used = chart.objects(), _development()
    for name in ("hookwright-producer", "hookwright-consumer", "hookwright-intake-admin", "hookwright-project-manager"):
        of_name = [
            [role for role in of_kind(all_, "ClusterRole") if role["metadata"]["name"] == name]
            for all_ in (shipped, used)
        ]
        assert _rules(of_name[0]) == _rules(of_name[1]) != set()


def test_a_pod_that_delivers_alone_writes_nothing(chart: Chart) -> None:
    """A pod that sends to the internet can review tokens and read; it can change nothing in the cluster."""
    granted = _granted(chart.objects(SEPARATE), "hookwright-delivery")
    assert {resource for _, _, resource, verb in granted if verb not in ("get", "list", "watch")} == REVIEWS


def test_with_namespaces_to_serve_nothing_is_granted_elsewhere(chart: Chart) -> None:
    """Roles in the served namespaces and the installation's own replace the ClusterRole, which keeps only reviews."""
    objects = chart.objects({**SEPARATE, "settings": {"watchNamespaces": ["acme", "globex"]}})
    everywhere = {account: _granted(chart.objects(SEPARATE), account) for account in SUBJECTS}
    for account in SUBJECTS:
        own = set() if account == "hookwright-api" else {"hookwright-system"}
        granted = _granted(objects, account)
        assert {resource for namespace, _, resource, _ in granted if not namespace} <= CLUSTER_SCOPED
        wanted = {grant for grant in everywhere[account] if not grant[0] and grant[2] not in CLUSTER_SCOPED}
        for namespace in {"acme", "globex", *own}:
            assert {(namespace, *grant[1:]) for grant in wanted} <= granted
        places = {grant[0] for grant in granted}
        assert places - {""} == {"acme", "globex", "hookwright-system"}


def test_the_api_reads_no_secret_outside_its_own_namespace(chart: Chart) -> None:
    """The API is open to the internet. It can read only users and session keys, for any number of served namespaces."""
    for served in ([], ["acme", "globex"]):
        granted = _granted(chart.objects({"settings": {"watchNamespaces": served}}), "hookwright-api")
        assert {namespace for namespace, _, resource, _ in granted if resource == "secrets"} == {"hookwright-system"}


def test_the_api_writes_projects_only_if_a_value_allows_it(chart: Chart) -> None:
    """Without the value, an organization allows it by a RoleBinding."""
    writes = {("", "hookwright.dev", "projects", verb) for verb in ("create", "delete")}
    before = _granted(chart.objects(), "hookwright-api")
    assert _granted(chart.objects({"rbac": {"manageProjects": True}}), "hookwright-api") - before == writes
    values: Object = {"rbac": {"manageProjects": True}, "settings": {"watchNamespaces": ["acme"]}}
    places = {
        grant[0]
        for grant in _granted(chart.objects(values), "hookwright-api")
        if grant[1:] == ("hookwright.dev", "projects", "delete")
    }
    assert places == {"acme"}


def test_the_api_writes_users_only_if_a_setting_lets_them_change_passwords(chart: Chart) -> None:
    """RBAC cannot select Secrets by type, so the right comes with a policy, and is off by default."""
    before = _granted(chart.objects(), "hookwright-api")
    values: Object = {"settings": {"passwordChange": True}}
    assert _granted(chart.objects(values), "hookwright-api") == before, "the same verb, by name before"
    unnamed = [
        rule
        for role in of_kind(chart.objects(values), "Role")
        for rule in role["rules"]
        if "patch" in rule["verbs"] and "secrets" in rule["resources"] and not rule.get("resourceNames")
    ]
    assert len(unnamed) == 1
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    names = {one["metadata"]["name"] for one in of_kind(chart.objects(values), *kinds)}
    assert "hookwright-api-secrets" in names
    assert "hookwright-api-secrets" not in {one["metadata"]["name"] for one in of_kind(chart.objects(), *kinds)}


def test_tenants_view_and_edit_by_the_clusters_own_roles(chart: Chart) -> None:
    """The aggregated roles do not allow reading signing secrets or the delivery log, which are subresources."""
    aggregated = _aggregated(chart, {"rbac": {"aggregate": True}})
    assert {resource for _, _, resource, _ in _rules(aggregated)} == {"projects", "apikeys", "webhookendpoints"}
    assert len(aggregated) == 2


def test_the_clusters_own_roles_are_not_extended_without_a_decision(chart: Chart) -> None:
    """Everyone with edit in a namespace would decide by URLs where its events are sent."""
    assert _aggregated(chart, {}) == []


def _aggregated(chart: Chart, values: Object) -> list[Object]:
    roles = of_kind(chart.objects(values), "ClusterRole")
    return [role for role in roles if any("aggregate-to" in label for label in role["metadata"]["labels"])]

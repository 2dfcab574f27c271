"""The chart grants what development and its tests run with: no more, no less."""

from collections.abc import Iterable

import pytest
import yaml
from chart.charting import Chart, Object, of_kind

from hookwright_dev.chart.rbac import CLUSTER_SCOPED, REVIEWS
from hookwright_dev.installation import MANIFESTS

Grant = tuple[str, str, str, str]
SUBJECTS = ("hookwright-operator", "hookwright-delivery", "hookwright-api")
POSTGRES: Object = {"database": {"existingSecret": {"name": "store"}}}
SEPARATE: Object = {**POSTGRES, "delivery": {"separate": True}}


def _rules(roles: Iterable[Object]) -> set[Grant]:
    """Return what roles grant: in which namespace ("" everywhere), on which group and resource, which verb."""
    return {
        (role["metadata"].get("namespace", ""), group, resource, verb)
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def _granted(objects: list[Object], account: str) -> set[Grant]:
    """Return what a ServiceAccount is granted, following the bindings."""
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
    """A ServiceAccount has the rules of the manifests, to the verb, but for what it does not do in this layout."""
    granted = _granted(chart.objects(values), account)
    assert granted
    assert granted == {grant for grant in _granted(_development(), account) if grant[2] not in without}


def test_producers_get_what_development_gives_them(chart: Chart) -> None:
    """The roles to be bound in an organization's namespace have the rules of the manifests."""
    shipped, used = chart.objects(), _development()
    for name in ("hookwright-producer", "hookwright-intake-admin"):
        of_name = [
            [role for role in of_kind(all_, "ClusterRole") if role["metadata"]["name"] == name]
            for all_ in (shipped, used)
        ]
        assert _rules(of_name[0]) == _rules(of_name[1]) != set()


def test_a_pod_that_delivers_alone_writes_nothing(chart: Chart) -> None:
    """What sends to the internet can ask who calls, and read; it can change nothing in the cluster."""
    granted = _granted(chart.objects(SEPARATE), "hookwright-delivery")
    assert {resource for _, _, resource, verb in granted if verb not in ("get", "list", "watch")} == REVIEWS


def test_with_namespaces_to_serve_nothing_is_granted_elsewhere(chart: Chart) -> None:
    """Roles in the served namespaces and the installation's own replace the ClusterRole; reviews are left in it."""
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
    """What faces the internet can see users and session keys alone, however many namespaces are served."""
    for served in ([], ["acme", "globex"]):
        granted = _granted(chart.objects({"settings": {"watchNamespaces": served}}), "hookwright-api")
        assert {namespace for namespace, _, resource, _ in granted if resource == "secrets"} == {"hookwright-system"}


def test_tenants_view_and_edit_by_the_clusters_own_roles(chart: Chart) -> None:
    """The aggregated roles let nobody read signing secrets or the delivery log, which is said by a subresource."""
    aggregated = [
        role
        for role in of_kind(chart.objects(), "ClusterRole")
        if any("aggregate-to" in label for label in role["metadata"]["labels"])
    ]
    assert {resource for _, _, resource, _ in _rules(aggregated)} == {"projects", "apikeys", "webhookendpoints"}
    assert len(aggregated) == 2

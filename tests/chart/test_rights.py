"""The chart grants the same rights as development and its tests use: no more, no less."""

from collections.abc import Iterable

import pytest
import yaml
from support.chart_rendering import Chart, Object, environment, golden, named, of_kind

from hookwright_dev.chart.rbac import CLUSTER_SCOPED, REVIEWS
from hookwright_dev.cluster.installation import MANIFESTS, SYSTEM_NAMESPACE, USERS_NAMESPACE

Grant = tuple[str, str, str, str]
SUBJECTS = ("hookwright-operator", "hookwright-delivery", "hookwright-api")


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
    ("account", "layout", "without"),
    [
        ("hookwright-api", "default", set()),
        ("hookwright-operator", "replicas", set()),
        ("hookwright-operator", "default", {"leases"}),
        ("hookwright-operator", "separate", REVIEWS),
        ("hookwright-delivery", "separate", set()),
    ],
)
def test_the_chart_grants_what_development_runs_with(account: str, layout: str, without: set[str]) -> None:
    """A ServiceAccount has exactly the rules of the manifests, except those that this layout does not need."""
    grants = _granted(golden(layout), account)
    assert grants
    assert grants == {grant for grant in _granted(_development(), account) if grant[2] not in without}


def test_producers_get_what_development_gives_them() -> None:
    """The roles to be bound in an organization's namespace have the rules of the manifests."""
    shipped, dev_grants = golden("default"), _development()
    for name in ("hookwright-producer", "hookwright-consumer", "hookwright-intake-admin", "hookwright-project-manager"):
        of_name = [
            [role for role in of_kind(value, "ClusterRole") if role["metadata"]["name"] == name]
            for value in (shipped, dev_grants)
        ]
        assert _rules(of_name[0]) == _rules(of_name[1]) != set()


def test_a_pod_that_delivers_alone_writes_nothing() -> None:
    """A pod that sends to the internet can review tokens and read; it can change nothing in the cluster."""
    grants = _granted(golden("separate"), "hookwright-delivery")
    assert {resource for _, _, resource, verb in grants if verb not in ("get", "list", "watch")} == REVIEWS


def test_with_namespaces_to_serve_nothing_is_granted_elsewhere() -> None:
    """Roles in the served namespaces and the users' replace the ClusterRole, which keeps only reviews."""
    objects = golden("namespaces")
    everywhere = {account: _granted(golden("separate"), account) for account in SUBJECTS}
    for account in SUBJECTS:
        entries = {USERS_NAMESPACE} if account == "hookwright-operator" else set()
        grants = _granted(objects, account)
        assert {resource for namespace, _, resource, _ in grants if not namespace} <= CLUSTER_SCOPED
        expected = {grant for grant in everywhere[account] if not grant[0] and grant[2] not in CLUSTER_SCOPED}
        for namespace in {"acme", "globex", *entries}:
            assert {(namespace, *grant[1:]) for grant in expected} <= grants
        places = {grant[0] for grant in grants if grant[0]}
        assert places - {SYSTEM_NAMESPACE, USERS_NAMESPACE} == {"acme", "globex"}
        assert {resource for namespace, _, resource, _ in grants if namespace == SYSTEM_NAMESPACE} <= {"leases"}


def test_the_api_reads_no_secret_outside_the_namespace_of_users() -> None:
    """The API is open to the internet. It can read only users and session keys, for any number of served namespaces."""
    for layout in ("default", "namespaces"):
        grants = _granted(golden(layout), "hookwright-api")
        assert {namespace for namespace, _, resource, _ in grants if resource == "secrets"} == {USERS_NAMESPACE}


def test_the_namespace_of_users_has_the_name_of_the_setting_everywhere(chart: Chart) -> None:
    """The namespace, the API's right, the first user and both processes agree."""
    user = {"email": "ada@example.com", "passwordHash": "$argon2id$x"}
    objects = chart.objects(
        {"settings": {"usersNamespace": "people"}, "firstOrganization": {"name": "acme", "user": user}}
    )
    assert named(objects, "Namespace", "people")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    grants = _granted(objects, "hookwright-api")
    assert {namespace for namespace, _, resource, _ in grants if resource == "secrets"} == {"people"}
    assert {secret["metadata"]["namespace"] for secret in of_kind(objects, "Secret")} == {"people"}
    for component in ("operator", "api"):
        assert environment(objects, component)["HOOKWRIGHT_USERS_NAMESPACE"] == "people"


def test_the_api_writes_projects_only_if_a_value_allows_it() -> None:
    """Without the value, an organization allows it by a RoleBinding."""
    writes = {("", "hookwright.dev", "projects", verb) for verb in ("create", "delete")}
    without = _granted(golden("default"), "hookwright-api")
    assert _granted(golden("replicas"), "hookwright-api") - without == writes
    places = {
        grant[0]
        for grant in _granted(golden("namespaces"), "hookwright-api")
        if grant[1:] == ("hookwright.dev", "projects", "delete")
    }
    assert places == {"acme", "globex"}


def test_the_api_writes_users_only_if_a_setting_lets_them_change_passwords() -> None:
    """RBAC cannot select Secrets by type, so the right comes with a policy, and is off by default."""
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    for layout, is_allowed in (("default", False), ("replicas", True)):
        unnamed_rules = [
            rule
            for role in of_kind(golden(layout), "Role")
            for rule in role["rules"]
            if "patch" in rule["verbs"] and "secrets" in rule["resources"] and not rule.get("resourceNames")
        ]
        assert len(unnamed_rules) == is_allowed
        policies = [policy["kind"] for policy in of_kind(golden(layout), *kinds) if _restricts_secrets(policy)]
        assert policies == [*kinds] * is_allowed


def test_tenants_view_and_edit_by_the_clusters_own_roles() -> None:
    """The aggregated roles do not allow reading signing secrets or the delivery log, which are subresources."""
    aggregation = _aggregated("replicas")
    assert {resource for _, _, resource, _ in _rules(aggregation)} == {
        "projects", "apikeys", "webhookendpoints", "eventtypes"
    }  # fmt: skip
    assert len(aggregation) == 2


def test_the_clusters_own_roles_are_not_extended_without_a_decision() -> None:
    """Everyone with edit in a namespace would decide by URLs where its events are sent."""
    assert _aggregated("default") == []


def _restricts_secrets(policy: Object) -> bool:
    return bool(policy["metadata"]["name"] == "hookwright-api-secrets")


def _aggregated(layout: str) -> list[Object]:
    roles = of_kind(golden(layout), "ClusterRole")
    return [role for role in roles if any("aggregate-to" in label for label in role["metadata"]["labels"])]

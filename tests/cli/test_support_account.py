"""The ServiceAccount of the people who use the intake through a kubeconfig."""

import json
from collections.abc import Iterator

import pytest
from support.api_processes import Organization
from support.command_transcripts import Transcript
from support.polling import eventually

from hookwright_dev.cluster.installation import SYSTEM_NAMESPACE
from hookwright_dev.cluster.kubectl import Cluster


@pytest.fixture
def second(control_plane: Cluster, acme: Organization) -> Iterator[str]:
    """Yield the namespace of a second installation: a Deployment and a ClusterRole, named by their release."""
    name = f"{acme.name}-eu"
    labels = {"app.kubernetes.io/instance": name, "app.kubernetes.io/component": "operator"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "operator", "image": "none"}]}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "operator", "namespace": name, "labels": labels},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": pod},
    }
    rule = {"apiGroups": ["hookwright.dev"], "resources": ["projects/events"], "verbs": ["create"]}
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"{name}-intake-admin", "labels": {"app.kubernetes.io/instance": name}},
        "rules": [rule],
    }
    control_plane.objects.create("Namespace", name)
    control_plane.kubectl(
        "apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [deployment, role]})
    )
    yield name
    control_plane.objects.delete("ClusterRole", f"{name}-intake-admin")
    control_plane.objects.delete("Namespace", name, wait=False)


def test_each_installation_has_its_own_account_and_role(
    by_kubeconfig: Transcript, control_plane: Cluster, acme: Organization, second: str
) -> None:
    """The accounts of two installations have one name; both may send events, and a repetition changes nothing."""
    for installation in (SYSTEM_NAMESPACE, second, second):
        result = by_kubeconfig.quiet("support-account", "--yes", "-n", acme.name, "--installation", installation)
        assert result.exit_code == 0, result.output
        right = (f"system:serviceaccount:{installation}:hookwright-support", "create", "projects/events", acme.name)
        eventually(
            lambda right=right: control_plane.objects.may(*right, group="hookwright.dev"),  # type: ignore[misc]
            "the rights count",
        )
    roles = {binding["roleRef"]["name"] for binding in control_plane.objects.list("RoleBinding", acme.name)}
    assert {"hookwright-intake-admin", f"{second}-intake-admin"} <= roles


def test_an_installation_without_a_role_is_an_error(
    by_kubeconfig: Transcript, control_plane: Cluster, acme: Organization, second: str
) -> None:
    """Nothing is bound, and the error names the namespace."""
    unlabelled = {"metadata": {"labels": {"app.kubernetes.io/instance": None}}}
    control_plane.objects.patch("ClusterRole", f"{second}-intake-admin", "", unlabelled)
    result = by_kubeconfig.quiet("support-account", "--yes", "-n", acme.name, "--installation", second)
    assert result.exit_code == 3
    assert f"the installation in namespace {second} has no ClusterRole *-intake-admin" in result.output
    assert control_plane.objects.list("RoleBinding", acme.name) == []

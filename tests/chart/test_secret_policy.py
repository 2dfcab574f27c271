"""With settings.passwordChange, the API may change the password of a user, and nothing else in a Secret."""

import json
from collections.abc import Iterator

import pytest
import yaml
from support.api_processes import password_changes_allowed
from support.chart_rendering import Object, golden, of_kind
from support.polling import eventually

from hookwright_crds.sessions import ENDED_SESSIONS_NAME
from hookwright_crds.users import user_secret
from hookwright_dev.cluster.installation import SYSTEM_NAMESPACE, USERS_NAMESPACE
from hookwright_dev.cluster.kubectl import Cluster

API = f"--as=system:serviceaccount:{SYSTEM_NAMESPACE}:hookwright-api"
USER = user_secret(USERS_NAMESPACE, email="a@example.com", organization="acme", password_hash="old")
OTHER: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "store"}, "stringData": {"url": "x"}}
ENDED: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": ENDED_SESSIONS_NAME}}
_RBAC = "rbac.authorization.k8s.io"
READER: tuple[Object, ...] = (
    {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "Role",
        "metadata": {"name": "reader"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
    },
    {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "hookwright-api", "namespace": SYSTEM_NAMESPACE}],
    },
)
"""The right to read Secrets, because kubectl reads an object before it patches it."""


@pytest.fixture(scope="module")
def cluster(control_plane: Cluster) -> Iterator[Cluster]:
    """Yield a cluster with the chart's policy, the right to patch, and three Secrets."""
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    policies = [
        policy for policy in of_kind(golden("replicas"), *kinds) if policy["metadata"]["name"].endswith("api-secrets")
    ]
    text = yaml.safe_dump_all(policies)
    control_plane.kubectl("apply", "-f", "-", stdin=text)
    objects = control_plane.objects
    objects.apply(*READER, USER, OTHER, ENDED, namespace=USERS_NAMESPACE)
    with password_changes_allowed(control_plane):
        eventually(lambda: "may change only" in patched(control_plane, OTHER, {"url": "y"}), "the policy is in force")
        yield control_plane
    for document in (*READER, USER, OTHER, ENDED):
        objects.delete(document["kind"], document["metadata"]["name"], namespace=USERS_NAMESPACE, wait=False)
    control_plane.kubectl("delete", "-f", "-", stdin=text)


def patched(cluster: Cluster, secret: Object, fields: Object) -> str:
    """Patch a Secret as the API without an effect, and return the error."""
    patch = json.dumps(
        {
            "stringData": {name: text for name, text in fields.items() if text is not None},
            "data": {name: None for name, text in fields.items() if text is None},
        }
    )
    arguments = (str(secret["metadata"]["name"]), "-n", USERS_NAMESPACE)
    options = ("--type=merge", "--dry-run=server", API, "-p", patch)
    result = cluster.kubectl("patch", "secret", *arguments, *options, check=False)
    assert bool(result.stderr) == bool(result.returncode)
    return result.stderr


REFUSED: dict[str, tuple[Object, Object]] = {
    "the role": (USER, {"role": "viewer"}),
    "the organization": (USER, {"organization": "rival", "passwordHash": "new"}),
    "a new field": (USER, {"note": "x"}),
    "a removed field": (USER, {"role": None}),
    "another Secret": (OTHER, {"url": "y"}),
    "a password in another Secret": (OTHER, {"passwordHash": "new"}),
}


@pytest.mark.parametrize(("secret", "fields"), REFUSED.values(), ids=REFUSED.keys())
def test_the_policy_refuses_every_other_change(cluster: Cluster, secret: Object, fields: Object) -> None:
    """A stolen token of the API's ServiceAccount gives no user another organization."""
    assert "may change only the field passwordHash" in patched(cluster, secret, fields)


@pytest.mark.parametrize("secret", [USER, ENDED], ids=["a user", "the ended sessions"])
@pytest.mark.parametrize(
    "change",
    [
        {"immutable": True},
        {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"annotations": {"a": "b"}}},
        {"metadata": {"finalizers": ["example.com/never"]}},
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "0"}]}},
    ],
    ids=["immutable", "labels", "annotations", "finalizers", "owners"],
)
def test_the_policy_guards_metadata_and_immutable(cluster: Cluster, secret: Object, change: Object) -> None:
    """An owner that does not exist lets a user be deleted, and an immutable Secret ends no session."""
    arguments = (str(secret["metadata"]["name"]), "-n", USERS_NAMESPACE, "--type=merge", "--dry-run=server", API)
    result = cluster.kubectl("patch", "secret", *arguments, "-p", json.dumps(change), check=False)
    assert "may not change the metadata of a Secret, or make it immutable" in result.stderr


def test_the_policy_permits_a_password_and_the_end_of_sessions(cluster: Cluster) -> None:
    """These are the two writes of the API; administrators are not restricted."""
    assert patched(cluster, USER, {"passwordHash": "new"}) == ""
    assert patched(cluster, ENDED, {"user-a": "1"}) == ""
    name = ("store", "-n", USERS_NAMESPACE, "--dry-run=server")
    cluster.kubectl("patch", "secret", *name, "--type=merge", "-p", json.dumps({"stringData": {"url": "y"}}))

"""With settings.passwordChange, the API may change the password of a user, and nothing else in a Secret."""

import json
from collections.abc import Iterator

import pytest
import yaml
from support.api_processes import password_changes_allowed
from support.chart_rendering import Chart, Object, of_kind
from support.polling import eventually

from hookwright_crds.sessions import ENDED_SESSIONS_NAME
from hookwright_crds.users import user_secret
from hookwright_dev.cluster.installation import SYSTEM_NAMESPACE, install
from hookwright_dev.cluster.kubectl import Cluster

API = f"--as=system:serviceaccount:{SYSTEM_NAMESPACE}:hookwright-api"
USER = user_secret(SYSTEM_NAMESPACE, email="a@example.com", organization="acme", password_hash="old")
OTHER: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "store"}, "stringData": {"url": "x"}}
ENDED: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": ENDED_SESSIONS_NAME}}


@pytest.fixture(scope="module")
def cluster(chart: Chart, control_plane: Cluster) -> Iterator[Cluster]:
    """Yield a cluster with the chart's policy, the right to patch, and three Secrets."""
    install(control_plane)
    values: Object = {"settings": {"passwordChange": True}}
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    policies = [
        one for one in of_kind(chart.objects(values), *kinds) if one["metadata"]["name"].endswith("api-secrets")
    ]
    text = yaml.safe_dump_all(policies)
    control_plane.kubectl("apply", "-f", "-", stdin=text)
    account = f"--serviceaccount={SYSTEM_NAMESPACE}:hookwright-api"
    here = ("-n", SYSTEM_NAMESPACE)
    # kubectl reads an object before it patches it.
    control_plane.kubectl("create", "role", "reader", "--verb=get", "--resource=secrets", *here)
    control_plane.kubectl("create", "rolebinding", "reader", "--role=reader", account, *here)
    for secret in (USER, OTHER, ENDED):
        control_plane.kubectl("apply", "-n", SYSTEM_NAMESPACE, "-f", "-", stdin=json.dumps(secret))
    with password_changes_allowed(control_plane):
        eventually(lambda: "may change only" in patched(control_plane, OTHER, {"url": "y"}), "the policy is in force")
        yield control_plane
    for secret in (USER, OTHER, ENDED):
        name = str(secret["metadata"]["name"])
        control_plane.kubectl("delete", "secret", name, "-n", SYSTEM_NAMESPACE, "--ignore-not-found")
    control_plane.kubectl("delete", "rolebinding/reader", "role/reader", *here)
    control_plane.kubectl("delete", "-f", "-", stdin=text)


def patched(cluster: Cluster, secret: Object, fields: Object) -> str:
    """Patch a Secret as the API without an effect, and return the error."""
    patch = json.dumps(
        {
            "stringData": {name: text for name, text in fields.items() if text is not None},
            "data": {name: None for name, text in fields.items() if text is None},
        }
    )
    where = (str(secret["metadata"]["name"]), "-n", SYSTEM_NAMESPACE)
    options = ("--type=merge", "--dry-run=server", API, "-p", patch)
    done = cluster.kubectl("patch", "secret", *where, *options, check=False)
    assert bool(done.stderr) == bool(done.returncode)
    return done.stderr


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


def test_the_policy_permits_a_password_and_the_end_of_sessions(cluster: Cluster) -> None:
    """These are the two writes of the API; administrators are not restricted."""
    assert patched(cluster, USER, {"passwordHash": "new"}) == ""
    assert patched(cluster, ENDED, {"user-a": "1"}) == ""
    name = ("store", "-n", SYSTEM_NAMESPACE, "--dry-run=server")
    cluster.kubectl("patch", "secret", *name, "--type=merge", "-p", json.dumps({"stringData": {"url": "y"}}))

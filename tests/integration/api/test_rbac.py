"""The permissions of the API's ServiceAccount, from the real API server."""

import pytest
from support.api_processes import Organization

from hookwright_dev.cluster.installation import SYSTEM_NAMESPACE, OperatorProcess
from hookwright_dev.cluster.kubectl import Cluster

ACCOUNT = f"system:serviceaccount:{SYSTEM_NAMESPACE}:hookwright-api"


def may(cluster: Cluster, verb: str, resource: str, *options: str) -> bool:
    """Return whether the API's ServiceAccount has a permission."""
    asked = cluster.kubectl("auth", "can-i", verb, resource, f"--as={ACCOUNT}", *options, check=False)
    answer = asked.stdout.strip().splitlines()[-1]
    assert answer in ("yes", "no"), asked.stdout + asked.stderr
    return answer == "yes"


@pytest.mark.parametrize("verb", ["get", "list", "watch", "create", "update", "patch", "delete"])
def test_it_reads_no_secret_outside_the_installations_namespace(
    acme: Organization, control_plane: Cluster, verb: str
) -> None:
    """The API may read no Secret in an organization's namespace or in all, and may write none anywhere."""
    assert not may(control_plane, verb, "secrets", "-n", acme.name)
    assert not may(control_plane, verb, "secrets", "--all-namespaces")
    assert may(control_plane, verb, "secrets", "-n", SYSTEM_NAMESPACE) == (verb in ("list", "watch"))


def test_a_webhooks_secret_is_refused_to_it_in_person(acme: Organization, control_plane: Cluster) -> None:
    """Impersonating the API, a read of the signing secret is forbidden, although the caller got the secret."""
    made = acme.webhook(acme.service_key())
    refused = control_plane.kubectl(
        "get", "secret", f"{made['id']}-signing", "-n", acme.name, f"--as={ACCOUNT}", check=False
    )
    assert refused.returncode != 0
    assert "forbidden" in refused.stderr.lower()


@pytest.mark.parametrize(
    ("verb", "resource", "allowed"),
    [
        ("list", "projects.hookwright.dev", True),
        ("create", "projects.hookwright.dev", False),
        ("delete", "projects.hookwright.dev", False),
        ("create", "apikeys.hookwright.dev", True),
        ("update", "apikeys.hookwright.dev", False),
        ("patch", "webhookendpoints.hookwright.dev", True),
        ("update", "webhookendpoints.hookwright.dev", False),
        ("patch", "apikeys.hookwright.dev", False),
        ("list", "namespaces", False),
        ("create", "tokenreviews.authentication.k8s.io", False),
        ("list", "customresourcedefinitions.apiextensions.k8s.io", False),
    ],
)
def test_it_may_do_what_it_does_and_no_more(
    operator: OperatorProcess, control_plane: Cluster, verb: str, resource: str, *, allowed: bool
) -> None:
    """The permissions are the least that work."""
    assert operator.running.running
    assert may(control_plane, verb, resource, "--all-namespaces") is allowed

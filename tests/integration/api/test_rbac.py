"""The permissions of the API's ServiceAccount, from the real API server."""

from hookwright_dev.cluster.installation import SYSTEM_NAMESPACE, USERS_NAMESPACE
from hookwright_dev.cluster.kubectl import Cluster

ACCOUNT = f"system:serviceaccount:{SYSTEM_NAMESPACE}:hookwright-api"


def test_it_reads_no_secret_outside_the_namespace_of_users(control_plane: Cluster, namespace: str) -> None:
    """The API may read no Secret of an organization, of the installation or of all, and may write none anywhere."""
    for verb in ("get", "list", "watch", "create", "update", "patch", "delete"):
        for place in (namespace, SYSTEM_NAMESPACE, ""):
            assert not control_plane.objects.may(ACCOUNT, verb, "secrets", place), (verb, place)
        allowed = control_plane.objects.may(ACCOUNT, verb, "secrets", USERS_NAMESPACE)
        assert allowed == (verb in ("list", "watch")), verb


def test_it_may_do_what_it_does_and_no_more(control_plane: Cluster) -> None:
    """The permissions are the least that work."""
    for verb, resource, allowed in (
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
    ):
        name, _, group = resource.partition(".")
        assert control_plane.objects.may(ACCOUNT, verb, name, group=group) is allowed, (verb, resource)

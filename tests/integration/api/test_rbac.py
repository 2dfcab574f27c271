"""The permissions of the API's ServiceAccount, from the real API server."""

from support.api_processes import Organization

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


def test_users_log_in_although_the_databases_url_is_refused(acme: Organization, control_plane: Cluster) -> None:
    """Impersonating the API, a list of the installation's Secrets is forbidden, and a user logs in."""
    refusal = control_plane.kubectl("get", "secrets", "-n", SYSTEM_NAMESPACE, f"--as={ACCOUNT}", check=False)
    assert refusal.returncode != 0
    assert "forbidden" in refusal.stderr.lower()
    assert acme.session()["Authorization"]


def test_a_webhooks_secret_is_refused_to_it_in_person(acme: Organization, control_plane: Cluster) -> None:
    """Impersonating the API, a read of the signing secret is forbidden, although the caller got the secret."""
    new_webhook = acme.webhook(acme.service_key())
    refusal = control_plane.kubectl(
        "get", "secret", f"{new_webhook['id']}-signing", "-n", acme.name, f"--as={ACCOUNT}", check=False
    )
    assert refusal.returncode != 0
    assert "forbidden" in refusal.stderr.lower()


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

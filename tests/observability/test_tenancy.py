"""The page docs/multi-tenancy.md: the API server accepts every manifest, and RBAC then decides as the page says."""

import re
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from hookwright_dev.cluster.kubectl import Cluster

PAGE = Path(__file__).resolve().parents[2] / "docs/multi-tenancy.md"
MANIFESTS = [block for block in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL) if "apiVersion:" in block]
DEVELOPER = ("ada", "acme-developers")
ON_CALL = ("bob", "acme-on-call")
MAILER = ("mailer",)

QUESTIONS = [
    (DEVELOPER, "create", "webhookendpoints.hookwright.dev", "", True),
    (DEVELOPER, "delete", "projects.hookwright.dev", "", True),
    (DEVELOPER, "create", "webhookendpoints.hookwright.dev/orders", "test", True),
    (DEVELOPER, "create", "webhookendpoints.hookwright.dev/orders", "retry", True),
    (DEVELOPER, "get", "webhookendpoints.hookwright.dev/orders", "deliveries", True),
    (DEVELOPER, "get", "webhookendpoints.hookwright.dev/orders", "secret", False),
    (DEVELOPER, "patch", "webhookendpoints.hookwright.dev/orders", "status", False),
    (DEVELOPER, "create", "projects.hookwright.dev/billing", "events", False),
    (DEVELOPER, "get", "secrets/orders-signing", "", True),
    (DEVELOPER, "get", "secrets/another", "", False),
    (DEVELOPER, "list", "secrets", "", False),
    (ON_CALL, "list", "webhookendpoints.hookwright.dev", "", True),
    (ON_CALL, "get", "webhookendpoints.hookwright.dev/orders", "deliveries", True),
    (ON_CALL, "create", "webhookendpoints.hookwright.dev/orders", "retry", True),
    (ON_CALL, "create", "webhookendpoints.hookwright.dev", "", False),
    (ON_CALL, "create", "webhookendpoints.hookwright.dev/orders", "test", False),
    (ON_CALL, "get", "secrets/orders-signing", "", False),
    (MAILER, "create", "projects.hookwright.dev/billing", "events", True),
    (MAILER, "create", "projects.hookwright.dev/marketing", "events", False),
    (MAILER, "list", "projects.hookwright.dev", "", False),
    (MAILER, "create", "webhookendpoints.hookwright.dev/orders", "retry", False),
]


@pytest.fixture(scope="module")
def tenants(shared_cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Yield two organizations, of which the first one has the objects of the page."""
    acme, globex = (f"{name}-{uuid4().hex[:6]}" for name in ("acme", "globex"))
    for name in (acme, globex):
        shared_cluster.objects.create("Namespace", name)
    page = "\n---\n".join(MANIFESTS).replace("namespace: acme", f"namespace: {acme}")
    shared_cluster.kubectl("apply", "-f", "-", stdin=page)
    yield acme, globex
    shared_cluster.kubectl("delete", "-f", "-", "--wait=false", "--ignore-not-found", stdin=page)
    for name in (acme, globex):
        shared_cluster.objects.delete("Namespace", name, wait=False)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: " ".join(map(str, question[0] + question[1:])))
def test_rbac_says_what_the_page_says(
    shared_cluster: Cluster, tenants: tuple[str, str], question: tuple[tuple[str, ...], str, str, str, bool]
) -> None:
    """A right applies in the organization in which it is granted, and in no other one."""
    account, verb, resource, subresource, allowed = question
    user, *groups = (f"system:serviceaccount:{tenants[0]}:mailer",) if account == MAILER else account
    kind, _, name = resource.partition("/")
    plural, _, group = kind.partition(".")
    path = "/".join(filter(None, (plural, subresource)))
    for namespace, expected in ((tenants[0], allowed), (tenants[1], False)):
        answer = shared_cluster.objects.may(user, verb, path, namespace, group=group, name=name, groups=groups)
        assert answer is expected, namespace


def test_a_quota_bounds_endpoints(shared_cluster: Cluster, tenants: tuple[str, str]) -> None:
    """The API server supports the resource names in the quota."""
    quota = shared_cluster.objects.get("ResourceQuota", "hookwright", tenants[0]) or {}
    assert quota["spec"]["hard"]["count/webhookendpoints.hookwright.dev"] == "50"

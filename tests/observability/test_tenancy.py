"""The page docs/multi-tenancy.md: the API server accepts every manifest, and RBAC then decides as the page says."""

import re
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from hookwright_dev.cluster.kubectl import Cluster

PAGE = Path(__file__).resolve().parents[2] / "docs/multi-tenancy.md"
MANIFESTS = [block for block in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL) if "apiVersion:" in block]
DEVELOPER = ("--as=ada", "--as-group=acme-developers")
ON_CALL = ("--as=bob", "--as-group=acme-on-call")
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
def tenants(control_plane: Cluster) -> Iterator[tuple[str, str]]:
    """Yield two organizations, of which the first one has the objects of the page."""
    acme, globex = (f"{name}-{uuid4().hex[:6]}" for name in ("acme", "globex"))
    for name in (acme, globex):
        control_plane.kubectl("create", "namespace", name)
    for manifest in MANIFESTS:
        control_plane.kubectl("apply", "-f", "-", stdin=_for(manifest, acme))
    yield acme, globex
    for manifest in MANIFESTS:
        control_plane.kubectl("delete", "-f", "-", "--wait=false", "--ignore-not-found", stdin=_for(manifest, acme))
    control_plane.kubectl("delete", "namespace", acme, globex, "--wait=false")


def _for(manifest: str, namespace: str) -> str:
    return manifest.replace("namespace: acme", f"namespace: {namespace}")


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda text: re.findall(r"name: (\S+)", text)[0])
def test_the_api_server_takes_it(control_plane: Cluster, namespace: str, manifest: str) -> None:
    """The manifest is applied unchanged except its namespace."""
    control_plane.kubectl("apply", "--dry-run=server", "-f", "-", stdin=_for(manifest, namespace))


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: " ".join(map(str, question[0] + question[1:])))
def test_rbac_says_what_the_page_says(
    control_plane: Cluster, tenants: tuple[str, str], question: tuple[tuple[str, ...], str, str, str, bool]
) -> None:
    """A right applies in the organization in which it is granted, and in no other one."""
    who, verb, resource, subresource, allowed = question
    account = (f"--as=system:serviceaccount:{tenants[0]}:mailer",) if who == MAILER else who
    options = (*account, f"--subresource={subresource}") if subresource else account
    for namespace, expected in ((tenants[0], allowed), (tenants[1], False)):
        assert _may(control_plane, verb, resource, "-n", namespace, *options) is expected, namespace


def test_view_and_edit_bring_the_rights_along(control_plane: Cluster, tenants: tuple[str, str]) -> None:
    """A controller aggregates the roles if one runs; the test checks the labels and rules that it reads."""
    for role, verb in (("view", "list"), ("edit", "create")):
        name = f"hookwright-aggregate-to-{role}"
        labels = control_plane.kubectl("get", "clusterrole", name, "-o", "jsonpath={.metadata.labels}").stdout
        rules = control_plane.kubectl("get", "clusterrole", name, "-o", "jsonpath={.rules}").stdout
        assert f'"rbac.authorization.k8s.io/aggregate-to-{role}":"true"' in labels
        assert f'"{verb}"' in rules
    assert not _may(control_plane, "list", "projects.hookwright.dev", "-n", tenants[0], "--as=vic")


def test_a_quota_bounds_endpoints(control_plane: Cluster, tenants: tuple[str, str]) -> None:
    """The API server supports the resource names in the quota."""
    hard = control_plane.kubectl("get", "quota", "hookwright", "-n", tenants[0], "-o", "jsonpath={.spec.hard}").stdout
    assert '"count/webhookendpoints.hookwright.dev":"50"' in hard


def _may(cluster: Cluster, verb: str, resource: str, *options: str) -> bool:
    asked = cluster.kubectl("auth", "can-i", verb, resource, *options, check=False)
    answer = asked.stdout.strip().splitlines()[-1]
    assert answer in {"yes", "no"}, asked.stdout + asked.stderr
    return answer == "yes"

"""With `settings.watchNamespaces`, Roles in the served namespaces are sufficient for all work."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from cluster.conftest import ACCELERATED
from support.api_processes import Organization as Customer
from support.audit_log import uses
from support.chart_rendering import Chart, of_kind
from support.cluster_actions import Organization
from support.demo_story import api_client, platform_team, session_keys_rotate, user_logs_in

from hookwright_dev.cluster.assets import Assets
from hookwright_dev.cluster.control_plane import ControlPlane
from hookwright_dev.cluster.installation import SYSTEM_NAMESPACE, USERS_NAMESPACE, ApiProcess, OperatorProcess
from hookwright_dev.cluster.postgres import PostgresServer
from hookwright_dev.cluster.stack import CRDS

SERVED = ("acme", "globex")
RBAC = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")


@pytest.fixture
def plane(assets: Assets, chart: Chart) -> Iterator[ControlPlane]:
    """Yield a control plane on which only the chart's rights for two namespaces exist."""
    values = {
        "database": {"existingSecret": {"name": "store"}},
        "delivery": {"separate": True},
        "settings": {"watchNamespaces": list(SERVED)},
    }
    rights = list(of_kind(chart.objects(values, namespace=SYSTEM_NAMESPACE), *RBAC))
    with ControlPlane.start(assets=assets, crds=CRDS, audit_level="RequestResponse") as plane:
        for name in (*SERVED, SYSTEM_NAMESPACE, USERS_NAMESPACE):
            plane.objects.create("Namespace", name)
        plane.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": rights}))
        plane.kubectl("create", "serviceaccount", "hookwright-producer", "-n", SYSTEM_NAMESPACE)
        producer = f"--serviceaccount={SYSTEM_NAMESPACE}:hookwright-producer"
        plane.kubectl("create", "clusterrolebinding", "producer", "--clusterrole=hookwright-intake-admin", producer)
        yield plane


def test_roles_are_enough(plane: ControlPlane, postgres: PostgresServer, tmp_path: Path) -> None:
    """The main scenario runs in two namespaces with separate delivery, and no request is denied."""
    settings = {
        **ACCELERATED,
        "HOOKWRIGHT_DATABASE_URL": postgres.new_database("namespaces"),
        "HOOKWRIGHT_WATCH_NAMESPACES": ",".join(SERVED),
        "HOOKWRIGHT_SESSION_KEY_ROTATION": "0.00005",
    }
    reconciling = OperatorProcess(plane, tmp_path / "reconciling", {**settings, "HOOKWRIGHT_ROLES": "reconcile"})
    delivering = OperatorProcess(
        plane,
        tmp_path / "delivering",
        {**settings, "HOOKWRIGHT_ROLES": "deliver,intake"},
        account="hookwright-delivery",
    )
    with ExitStack() as stack:
        for process in (reconciling, delivering):
            process.start()
            stack.callback(process.stop)
        api = ApiProcess(
            plane, tmp_path / "api", delivering.intake_url, {"HOOKWRIGHT_WATCH_NAMESPACES": ",".join(SERVED)}
        )
        stack.enter_context(api)
        client = stack.enter_context(httpx.Client(base_url=api.url, trust_env=False, timeout=30.0))
        platform_team(stack.enter_context(Organization(plane, delivering, "acme")))
        user_logs_in(plane, tmp_path, client)
        api_client(Customer(plane, client, "globex"), has_credentials=False)
        session_keys_rotate(plane)
    assert plane.audit_log is not None
    rights = uses(plane.audit_log)
    assert {"hookwright-operator", "hookwright-delivery", "hookwright-api"} <= {use.account for use in rights}
    assert sorted({f"{use.account}: {use.right}" for use in rights if not use.allowed}) == []

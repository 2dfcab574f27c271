"""Least privilege, measured: the ServiceAccounts use every right that they have, and no request is refused.

Real processes execute every use on PostgreSQL, with the rights of an installation. The API server's audit log shows the
used rights. A right without a use fails here, and so does a new request without a right.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import httpx
import pytest
from cluster.conftest import ACCELERATED
from support.api_processes import Organization as Customer
from support.audit_log import Right, Use, granted, uses
from support.cluster_actions import Organization, apikey, delivered, endpoint, manifest, receiving
from support.demo_story import api_client, platform_team, session_keys_rotate, user_logs_in
from support.polling import eventually
from support.stack import installed_plane

from hookwright_dev.cluster.assets import Assets
from hookwright_dev.cluster.control_plane import ControlPlane
from hookwright_dev.cluster.installation import ApiProcess, OperatorProcess
from hookwright_dev.cluster.postgres import PostgresServer

pytestmark = pytest.mark.slow

ACCOUNTS = ("hookwright-operator", "hookwright-delivery", "hookwright-api")
UNSEEN = frozenset(Right(False, "hookwright.dev", kind, "delete") for kind in ("apikeys", "webhookendpoints"))  # noqa: FBT003
"""Rights that the audit log cannot show, because an admission plugin checks them, and not a request."""


@pytest.fixture(scope="module")
def plane(assets: Assets) -> Iterator[ControlPlane]:
    """Yield a control plane that logs all requests and checks the setters of owner references, as OpenShift does."""
    minding = "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"
    with installed_plane(assets, audit_level="RequestResponse", apiserver_flags=[minding]) as plane:
        yield plane


@pytest.fixture(scope="module")
def database_url(postgres: PostgresServer) -> str:
    """Return the URL of a database for this module."""
    return postgres.new_database("rights")


@pytest.fixture(scope="module")
def audited(plane: ControlPlane, database_url: str, tmp_path_factory: pytest.TempPathFactory) -> list[Use]:
    """Return the requests of the ServiceAccounts during the whole story."""
    settings = {
        **ACCELERATED,
        "HOOKWRIGHT_DATABASE_URL": database_url,
        # The values are some seconds, in days.
        "HOOKWRIGHT_SESSION_KEY_ROTATION": "0.00005",
    }
    operator = OperatorProcess(plane, tmp_path_factory.mktemp("operator"), settings)
    operator.start()
    for name in ("acme", "globex"):
        plane.objects.create("Namespace", name)
    with ExitStack() as stack:
        stack.callback(operator.stop)
        acme = stack.enter_context(Organization(plane, operator, "acme"))
        api = stack.enter_context(ApiProcess(plane, tmp_path_factory.mktemp("api"), operator.intake_url))
        client = stack.enter_context(httpx.Client(base_url=api.url, trust_env=False, timeout=30.0))
        platform_team(acme)
        acme.apply(manifest("EventType", "invoice.paid", {"meaning": "An invoice is paid."}))
        acme.wait_for("hwtype", "invoice.paid", "True Accepting")
        user_logs_in(plane, tmp_path_factory.mktemp("user"), client)
        api_client(Customer(plane, client, "globex"))
        session_keys_rotate(plane)
    _delivery_apart(plane, settings, tmp_path_factory)
    assert plane.audit_log is not None
    return uses(plane.audit_log)


def _delivery_apart(plane: ControlPlane, settings: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Run one replica that reconciles and another that delivers with separate rights, both for some namespaces only."""
    plane.objects.create("Namespace", "initech")
    apart = {**settings, "HOOKWRIGHT_WATCH_NAMESPACES": "initech,acme"}
    reconciling = OperatorProcess(
        plane, tmp_path_factory.mktemp("reconciling"), {**apart, "HOOKWRIGHT_ROLES": "reconcile"}
    )
    delivering = OperatorProcess(
        plane,
        tmp_path_factory.mktemp("delivering"),
        {**apart, "HOOKWRIGHT_ROLES": "deliver,intake"},
        account="hookwright-delivery",
    )
    with ExitStack() as stack:
        for process in (reconciling, delivering):
            process.start()
            stack.callback(process.stop)
        initech = stack.enter_context(Organization(plane, delivering, "initech"))
        receiver = stack.enter_context(receiving())
        initech.with_endpoint(endpoint("orders", receiver.url))
        eventually(lambda: initech.post(json.dumps(delivered(1))).json().get("deliveries") == 1, "it is known here too")
        eventually(lambda: receiver.received, "the event arrives")
        initech.delete("secret", "orders-signing")
        eventually(lambda: initech.secret("orders-signing"), "a deleted signing secret is created again")
        initech.delete("hwep", "orders", seconds=30)
        initech.delete("hwproj", "billing", seconds=30)
        eventually(lambda: not initech.objects("hookwright"), "nothing is left", within=60)


@pytest.mark.parametrize("account", ACCOUNTS)
def test_no_right_is_spare(audited: list[Use], account: str) -> None:
    """Every granted right is used; a ClusterRole's right is used outside of the installation's own namespace."""
    usage = {use.right for use in audited if use.account == account and use.allowed}
    assert sorted(map(str, granted(account) - usage - UNSEEN)) == []


def test_nothing_that_is_asked_for_is_refused(audited: list[Use]) -> None:
    """A silently ignored refusal would be a feature that does not work."""
    assert sorted({f"{use.account}: {use.right}" for use in audited if not use.allowed}) == []


def test_what_the_audit_log_cannot_show_is_needed(plane: ControlPlane) -> None:
    """Without the right to delete, keys and endpoints would get no owner on clusters that check this."""
    plane.objects.create("Namespace", "minded")
    for value in (manifest("Project", "billing"), apikey("ci"), endpoint("orders", "https://example.com")):
        plane.objects.create_from(json.dumps(value), "minded")
    plane.kubectl("create", "clusterrole", "patcher", "--verb=get,patch", "--resource=apikeys,webhookendpoints")
    plane.kubectl("create", "clusterrolebinding", "patcher", "--clusterrole=patcher", "--user=patcher")
    owner = {"apiVersion": "hookwright.dev/v1alpha1", "kind": "Project", "name": "billing", "uid": "1"}
    patch = json.dumps({"metadata": {"ownerReferences": [owner]}})
    for right, name in zip(sorted(UNSEEN), ("ci", "orders"), strict=True):
        arguments = ("patch", right.resource, name, "-n", "minded", "--type=merge", "-p", patch, "--as=patcher")
        refusal = plane.kubectl(*arguments, "--dry-run=server", check=False)
        assert "cannot set an ownerRef on a resource you can't delete" in refusal.stderr

"""Replicas on PostgreSQL: delivery pods that share the work, two operators with one leader, and disruption budgets."""

import json
import os

import pytest
from e2e.installing import NAMESPACE, RESTRICTED, Installation
from support.pod_actions import Organization
from support.polling import eventually

from hookwright_dev.e2e import DATABASE_VARIABLE

MAX_IN_FLIGHT = 8
LEASE = "hookwright-reconciler"
TAKEOVER_SECONDS = 15.0


@pytest.fixture(scope="module")
def replicated(bare: Installation) -> Installation:
    """Two operators, two delivery pods and an API on the database that the environment names."""
    bare.kubectl("create", "namespace", NAMESPACE)
    bare.kubectl("label", "namespace", NAMESPACE, *RESTRICTED)
    url = os.environ[DATABASE_VARIABLE]
    bare.kubectl("create", "secret", "generic", "database", "-n", NAMESPACE, f"--from-literal=url={url}")
    bare.install(database={"existingSecret": {"name": "database"}}, delivery={"separate": True, "replicas": 2})
    return bare


@pytest.fixture(scope="module")
def org(replicated: Installation) -> Organization:
    """Return an organization that the replicas serve."""
    return Organization(replicated).create()


def _ready(installation: Installation, component: str) -> list[str]:
    """Return the names of a component's Ready pods."""
    return [
        pod["metadata"]["name"]
        for pod in installation.pods(component)
        if any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in pod["status"].get("conditions", ())
        )
    ]


def _leader(installation: Installation) -> str:
    """Return the name of the leader's pod, empty if there is none; the holder is ``<pod>/<one of its processes>``."""
    (lease,) = installation.objects("leases", "--field-selector", f"metadata.name={LEASE}")
    return str(lease["spec"].get("holderIdentity") or "").partition("/")[0]


def test_every_role_runs_as_often_as_was_asked_and_needs_no_volume(replicated: Installation) -> None:
    """Two operators with one leader and two delivery pods run; only the database stores data."""
    for component, count in (("operator", 2), ("delivery", 2), ("api", 1)):
        assert len(_ready(replicated, component)) == count, component
    assert replicated.names("persistentvolumeclaims", "-n", NAMESPACE) == []
    assert eventually(lambda: _leader(replicated), "somebody leads") in _ready(replicated, "operator")


def test_a_deleted_delivery_pod_loses_nothing_under_load(org: Organization) -> None:
    """The other pod continues with its endpoints, and repeats at most the attempts in flight."""
    installation = org.installation
    for name in ("orders", "copies"):
        org.with_endpoint(name, maxInFlight=MAX_IN_FLIGHT)
    first = _ready(installation, "delivery")[0]
    with org.load(seconds=15) as load:
        installation.kubectl("delete", "pod", first, "-n", NAMESPACE, "--wait=false")
        eventually(lambda: first not in installation.names("pods", "-n", NAMESPACE), "the pod has gone", within=60)
        installation.wait_ready()
    assert load.duplicates <= MAX_IN_FLIGHT
    copies = org.arrived("copies", load.messages, within=60)
    assert sum(copies["times"][message] - 1 for message in load.messages) <= MAX_IN_FLIGHT


def test_a_drain_takes_one_pod_at_a_time(org: Organization) -> None:
    """The budget allows the first eviction and refuses the second, until the first pod is back."""
    installation = org.installation
    eventually(lambda: len(_ready(installation, "delivery")) == 2, "both pods are Ready")
    first, second = _ready(installation, "delivery")
    assert installation.evict(first).returncode == 0
    refusal = installation.evict(second)
    assert refusal.returncode != 0
    assert "disruption budget" in refusal.stderr
    eventually(lambda: installation.evict(second).returncode == 0, "the second may go as well", within=90)
    installation.wait_ready()
    org.with_endpoint()
    assert org.post({"type": "delivered", "messageId": "m-1"}).status == 202
    org.arrived("orders", ["m-1"])


def test_a_standby_takes_over_at_once_from_a_leader_that_goes(org: Organization) -> None:
    """The Lease has another holder within seconds, and new resources become Ready."""
    installation = org.installation
    leader = eventually(lambda: _leader(installation), "somebody leads")
    installation.kubectl("delete", "pod", leader, "-n", NAMESPACE, "--wait=false")
    eventually(lambda: _leader(installation) not in {"", leader}, "another leads", within=TAKEOVER_SECONDS)
    org.with_endpoint()
    assert (
        json.loads(org.kubectl("get", "hwep", "orders", "-o", "json"))["status"]["signingSecretRef"]["key"] == "secret"
    )
    installation.wait_ready()

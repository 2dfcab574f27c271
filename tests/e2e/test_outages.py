"""The operator's pod ends during 200 events a second; producers that retry lose nothing."""

from e2e.installing import NAMESPACE
from support.pod_actions import Organization
from support.polling import eventually

MAX_IN_FLIGHT = 8
"""Default `maxInFlight` of an endpoint: how many deliveries one sudden end can repeat at most."""
REFUSED_SECONDS = 30.0
"""How many seconds a producer may have to retry an event while one pod replaces another."""


def _gone(org: Organization, pod: str) -> bool:
    return pod not in org.installation.names("pods", "-n", NAMESPACE)


def test_a_deleted_operator_pod_loses_nothing_under_load(org: Organization) -> None:
    """Every accepted event arrives with a signature; an orderly end repeats at most the attempts in flight."""
    org.with_endpoint(maxInFlight=MAX_IN_FLIGHT)
    first = org.installation.pod("operator")
    with org.load(seconds=20) as load:
        org.kubectl("delete", "pod", first, "-n", NAMESPACE, "--wait=false")
        eventually(lambda: _gone(org, first), "the pod has gone", within=60)
        org.installation.wait_ready()
    assert load.duplicates <= MAX_IN_FLIGHT
    assert load.tally["longest"] < REFUSED_SECONDS
    assert org.installation.pod("operator") != first
    assert load.tally["again"] > 0, "the pod went away before or after the load"


def test_an_operator_pod_deleted_by_force_loses_nothing_under_load(org: Organization) -> None:
    """The next pod starts while the last one may still run; still only one process uses the database."""
    org.with_endpoint(maxInFlight=MAX_IN_FLIGHT)
    pod = org.installation.pod("operator")
    with org.load(seconds=10) as load:
        org.installation.kubectl("delete", "pod", pod, "-n", NAMESPACE, "--force", "--grace-period=0", "--wait=false")
        eventually(lambda: _gone(org, pod), "the pod has gone", within=60)
        org.installation.wait_ready()
    assert load.duplicates <= MAX_IN_FLIGHT


def test_an_evicted_operator_pod_loses_nothing_under_load(org: Organization) -> None:
    """An eviction is allowed at once, because a budget for a single pod could only block it."""
    org.with_endpoint(maxInFlight=MAX_IN_FLIGHT)
    first = org.installation.pod("operator")
    assert org.installation.names("poddisruptionbudgets", "-n", NAMESPACE) == []
    with org.load(seconds=10) as load:
        evicted = org.installation.evict(first)
        assert evicted.returncode == 0, evicted.stderr
        eventually(lambda: _gone(org, first), "the pod has gone", within=60)
        org.installation.wait_ready()
    assert load.duplicates <= MAX_IN_FLIGHT


def test_an_evicted_api_pod_comes_back(org: Organization) -> None:
    """The API has no state: its next pod answers as the first did."""
    first = org.installation.pod("api")
    assert org.installation.evict(first).returncode == 0
    eventually(lambda: _gone(org, first), "the pod has gone", within=60)
    org.installation.wait_ready()
    assert org.request("GET", f"http://hookwright-api.{NAMESPACE}/v1/webhooks").status == 401

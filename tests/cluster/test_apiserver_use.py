"""The operator's use of the API server: its writes and reads are counted, and deliveries go on without it.

These tests have a separate control plane, because they count its requests and stop it.
"""

import json
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from cluster.conftest import ACCELERATED
from prometheus_client.parser import text_string_to_metric_families
from support.cluster_actions import (
    Organization,
    apikey,
    condition,
    delivered,
    endpoint,
    made_by_api,
    manifest,
    message_ids,
    receiving,
)
from support.polling import eventually

from hookwright_dev.cluster.control_plane import ControlPlane
from hookwright_dev.cluster.installation import OperatorProcess

pytestmark = pytest.mark.slow

OURS = ("projects", "apikeys", "webhookendpoints", "secrets", "events")
MANY = 100
STEADY = 2.0
"""Seconds; longer than the interval in which the operator writes statuses."""


@pytest.fixture(scope="module")
def operator(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    """Yield an operator that tests can start and stop; it runs at the beginning of each."""
    with OperatorProcess(plane, tmp_path_factory.mktemp("operator"), ACCELERATED) as operator:
        yield operator


@pytest.fixture
def org(plane: ControlPlane, operator: OperatorProcess, request: pytest.FixtureRequest) -> Iterator[Organization]:
    """Yield an organization of the test."""
    if not operator.running.running:
        operator.start()
    name = "test-" + request.node.name.removeprefix("test_").replace("_", "-")[:40].rstrip("-")
    plane.objects.create("Namespace", name)
    with Organization(plane, operator, name) as organization:
        yield organization


def test_deliveries_go_on_without_the_api_server_and_missed_deletions_are_made_good(
    plane: ControlPlane, org: Organization
) -> None:
    """During the outage events are accepted and delivered; unseen deletions are detected afterwards."""
    with receiving() as receiver:
        org.with_endpoint(endpoint("orders", receiver.url))
        org.apply(endpoint("doomed", receiver.url), apikey("ci"))
        org.apply(manifest("Project", "shipping"), made_by_api(endpoint("elsewhere", receiver.url, project="shipping")))
        for name in ("doomed", "elsewhere"):
            org.wait_for("hwep", name, "True Delivering")
        assert org.send(delivered("before"))["deliveries"] == 2

        stop_apiserver(plane)
        for number in range(10):
            assert org.send(delivered(number))["deliveries"] == 2
        eventually(lambda: len(receiver.received) >= 22, "deliveries go on")

        # The operator is paused while the API server runs again, so that its watches miss the deletions.
        org.operator.running.send_signal(signal.SIGSTOP)
        try:
            start_apiserver(plane)
            for name in ("doomed", "elsewhere"):
                org.patch("hwep", name, {"metadata": {"finalizers": None}})
            org.delete("hwep", "doomed")
            org.delete("hwproj", "shipping")
            eventually(lambda: org.get("hwep", "elsewhere") is None, "garbage collection took it")
        finally:
            org.operator.running.send_signal(signal.SIGCONT)
        eventually(
            lambda: org.post(json.dumps(delivered("after"))).json().get("deliveries") == 1,
            "the deleted endpoint gets no events",
        )
        eventually(
            lambda: org.post(json.dumps(delivered("after")), project="shipping").status_code == 404,
            "the deleted project takes none",
        )
        org.apply(endpoint("new", receiver.url))
        org.wait_for("hwep", "new", "True Delivering")
        assert "watch missed deletions, applying them now" in org.operator.log.read_text()


def stop_apiserver(plane: ControlPlane) -> None:
    """Kill only the API server."""
    (apiserver,) = [process for process in plane.processes if process.name == "kube-apiserver"]
    apiserver.kill()
    plane.processes.remove(apiserver)


def start_apiserver(plane: ControlPlane) -> None:
    """Start it again on the same port, and return when it is ready."""
    command = plane.apiserver_command()
    apiserver = plane._run("kube-apiserver", command)
    with plane._client() as client:
        apiserver.wait_ready(lambda: client.get(f"{plane.server}/readyz").is_success, 60)


def requests(plane: ControlPlane, *verbs: str, resources: Sequence[str] = OURS) -> Counter[str]:
    """Return how many requests with these verbs the API server has answered, by resource."""
    exposition = plane.kubectl("get", "--raw", "/metrics").stdout
    lines = "\n".join(line for line in exposition.splitlines() if line.startswith("apiserver_request_total{"))
    counts = Counter({f"{verb} {resource}": 0 for verb in verbs for resource in resources})
    for item in next(iter(text_string_to_metric_families(lines))).samples:
        if (key := f"{item.labels['verb']} {item.labels['resource']}") in counts:
            counts[key] += int(item.value)
    return counts


def written(plane: ControlPlane) -> Counter[str]:
    """Return how often Hookwright's resources, Secrets and Events were written."""
    return requests(plane, "POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION")


def read(plane: ControlPlane) -> Counter[str]:
    """Return how often Hookwright's resources, Secrets and Events were read without a watch."""
    return requests(plane, "GET", "LIST")


@pytest.mark.slow
def test_many_endpoints_cost_three_writes_each_and_a_restart_none(plane: ControlPlane, org: Organization) -> None:
    """Endpoints need the minimum of writes, are read only by watches, and are unchanged by a restart."""
    with receiving() as receiver:
        org.apply(manifest("Project", "billing"), apikey("ci"))
        org.wait_for("hwkey", "ci", "True Usable")
        before = written(plane)
        many = [endpoint(f"e{number}", receiver.url, events=["bounced"]) for number in range(MANY)]
        many[0]["spec"]["events"] = ["delivered"]
        for declared in many:
            plane.objects.create("WebhookEndpoint", declared["metadata"]["name"], org.namespace, spec=declared["spec"])
        eventually(lambda: ready(org) == MANY, "all endpoints are ready", within=60, every=0.5)
        eventually(lambda: org.status("hwproj", "billing")["webhookEndpoints"] == MANY, "the project counts them")
        org.send(*(delivered(number) for number in range(20)))
        eventually(lambda: org.status("hwep", "e0")["deliveries"]["delivered"] == 20, "the status shows deliveries")
        cost = written(plane) - before
        writes = cost.total() - cost["APPLY projects"]
        assert writes <= 3 * MANY + 10, "creation, Secret, status; the one with deliveries has more"
        assert cost["POST events"] == 0

        assert org.operator.stop() == 0
        stopped_one, secrets_read = written(plane), read(plane)["GET secrets"]
        org.operator.start()
        time.sleep(STEADY)
        assert written(plane) - stopped_one == Counter(), "a restart with nothing changed writes nothing"
        reads = read(plane)
        assert reads["GET secrets"] == secrets_read, "Secrets come from their watch"
        time.sleep(STEADY)
        assert read(plane) - reads == Counter(), "in a steady state nothing is read beside the watches"
        assert written(plane) - stopped_one == Counter()
        org.send(delivered("after the restart"))
        eventually(lambda: "after the restart" in message_ids(receiver.received), "events are delivered as before")


def ready(org: Organization) -> int:
    """Return how many endpoints are ready."""
    return sum(condition(document) == "True Delivering" for document in org.objects("hwep"))

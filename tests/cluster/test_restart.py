"""An operator that stops, crashes or loses its API server makes no unneeded write and loses no delivery.

These tests have a separate control plane, because they count its requests and stop it.
"""

import asyncio
import json
import signal
import sqlite3
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

import httpx
import pytest
from cluster.conftest import ACCELERATED
from support.cluster_actions import (
    Object,
    Organization,
    apikey,
    condition,
    database,
    delivered,
    endpoint,
    made_by_api,
    manifest,
    message_ids,
    receiving,
    sample,
)
from support.polling import eventually

from hookwright_dev.cluster import components
from hookwright_dev.cluster.assets import Assets
from hookwright_dev.cluster.control_plane import ControlPlane
from hookwright_dev.cluster.installation import OperatorProcess, install
from hookwright_dev.receiver import Received

CRDS = Path(__file__).resolve().parents[2] / "crds"
OURS = ("projects", "apikeys", "webhookendpoints", "secrets", "events")
MANY = 500
NOWHERE = "http://127.0.0.1:9/"


@pytest.fixture(scope="module")
def plane(assets: Assets) -> Iterator[ControlPlane]:
    """Yield a control plane for these tests."""
    with ControlPlane.start(assets=assets, crds=CRDS) as plane:
        install(plane)
        yield plane


@pytest.fixture(scope="module")
def operator(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    """Yield an operator that tests can start and stop; it runs at the beginning of each."""
    operator = OperatorProcess(plane, tmp_path_factory.mktemp("operator"), ACCELERATED)
    operator.start()
    yield operator
    operator.stop()


@pytest.fixture
def org(plane: ControlPlane, operator: OperatorProcess, request: pytest.FixtureRequest) -> Iterator[Organization]:
    """Yield an organization of the test."""
    if not operator.running.running:
        operator.start()
    name = "test-" + request.node.name.removeprefix("test_").replace("_", "-")[:40].rstrip("-")
    plane.kubectl("create", "namespace", name)
    with Organization(plane, operator, name) as organization:
        yield organization


# ----------------------------------------------------------------------------------------- the end


def test_a_crash_with_a_thousand_unsent_events_loses_none(org: Organization) -> None:
    """After SIGKILL right after the last 202, a restart delivers all events, and repeats only attempts in progress."""

    async def hang(_: Received) -> int:
        await asyncio.Event().wait()
        return 200

    with receiving(hang) as receiver:
        org.with_endpoint(endpoint("orders", receiver.url, maxInFlight=8, timeout="30s"))
        for batch in range(10):
            org.send(*(delivered(batch * 100 + number) for number in range(100)))
        org.operator.kill()
        unsent = 1000 - len(receiver.received)
        assert unsent > 800, "the crash came too late to prove anything"
        receiver.answer = lambda _: 200
        org.operator.start()
        eventually(lambda: len(set(message_ids(receiver.received))) == 1000, "all events arrive")
        eventually(lambda: org.status("hwep", "orders")["deliveries"]["delivered"] == 1000, "all are recorded")
        assert len(receiver.received) - 1000 <= 2 * 8, "twice comes at most what was in flight or being recorded"
        assert states(org.operator)["pending"] == 0


def test_an_end_under_load_cuts_nothing_short(org: Organization) -> None:
    """After SIGTERM every 202 is kept, attempts in progress are recorded and not repeated, and the exit code is 0."""

    async def slowly(_: Received) -> int:
        await asyncio.sleep(1.0)
        return 200

    accepted: list[str] = []
    stop = threading.Event()

    def produce() -> None:
        while not stop.is_set():
            number = str(len(accepted))
            with suppress(httpx.TransportError):
                if org.post(json.dumps(delivered(number))).status_code != 202:
                    return
                accepted.append(number)

    with receiving(slowly) as receiver:
        org.with_endpoint(endpoint("orders", receiver.url, maxInFlight=4))
        producer = threading.Thread(target=produce)
        producer.start()
        eventually(lambda: len(receiver.received) >= 8, "the load is on")
        assert org.operator.stop() == 0
        stop.set()
        producer.join(10)
        log = org.operator.log.read_text()
        assert "cut short" not in log
        assert "Traceback" not in log
        assert len(accepted) > len(receiver.received), "there was more to do than was done"
        assert states(org.operator)["delivered"] >= len(receiver.received)
        receiver.answer = lambda _: 200
        org.operator.start()
        eventually(lambda: set(accepted) <= set(message_ids(receiver.received)), "every accepted event arrives")
        eventually(lambda: states(org.operator).get("pending", 0) == 0, "nothing is left")
        ids = [request.id for request in receiver.received]
        assert len(ids) == len(set(ids)), "nothing comes twice"


def states(operator: OperatorProcess) -> Counter[str]:
    """Return how many deliveries are in each state."""
    with closing(sqlite3.connect(f"file:{database(operator)}?mode=ro", uri=True)) as connection:
        return Counter(dict(connection.execute("SELECT state, count(*) FROM deliveries GROUP BY state")))


# ------------------------------------------------------------------------ the API server is unavailable


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
            org.kubectl("delete", "hwep", "doomed")
            org.kubectl("delete", "hwproj", "shipping")
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
    command = components.kube_apiserver(plane.assets, plane._layout, audited=False)
    apiserver = plane._run("kube-apiserver", command)
    with plane._client() as client:
        apiserver.wait_ready(lambda: client.get(f"{plane.server}/readyz").is_success, 60)


def test_a_restart_finds_out_what_was_deleted_meanwhile(org: Organization, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a grace time, pending deliveries of a missing endpoint are discarded at the start."""
    org.apply(manifest("Project", "billing"), endpoint("held", NOWHERE, suspend=True))
    org.wait_for("hwep", "held", "True Suspended")
    org.send(*(delivered(number) for number in range(7)))
    org.operator.kill()
    org.patch("hwep", "held", {"metadata": {"finalizers": None}})
    org.kubectl("delete", "hwep", "held")
    before = states(org.operator)
    monkeypatch.setattr(org.operator, "settings", {**org.operator.settings, "HOOKWRIGHT_ORPHAN_GRACE": "0"})
    org.operator.start()
    eventually(lambda: states(org.operator)["discarded"] - before["discarded"] == 7, "they are discarded")
    assert org.post(json.dumps(delivered(8))).json()["deliveries"] == 0


# --------------------------------------------------------------------- requests to the API server


def requests(plane: ControlPlane, *verbs: str, resources: Sequence[str] = OURS) -> Counter[str]:
    """Return how many requests with these verbs the API server has answered, by resource."""
    exposition = plane.kubectl("get", "--raw", "/metrics").stdout
    lines = "\n".join(line for line in exposition.splitlines() if line.startswith("apiserver_request_total{"))
    return Counter(
        {
            f"{verb} {resource}": int(sample(lines, "apiserver_request_total", verb=verb, resource=resource))
            for verb in verbs
            for resource in resources
        }
    )


def written(plane: ControlPlane) -> Counter[str]:
    """Return how often Hookwright's resources, Secrets and Events were written."""
    return requests(plane, "POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION")


def read(plane: ControlPlane) -> Counter[str]:
    """Return how often Hookwright's resources, Secrets and Events were read without a watch."""
    return requests(plane, "GET", "LIST")


def test_many_endpoints_cost_four_writes_each_and_a_restart_none(
    plane: ControlPlane, org: Organization, capsys: pytest.CaptureFixture[str]
) -> None:
    """500 endpoints need the minimum of writes, are read only by watches, and are unchanged by a restart."""
    with receiving() as receiver:
        org.apply(manifest("Project", "billing"), apikey("ci"))
        org.wait_for("hwkey", "ci", "True Usable")
        before = written(plane)
        many = [endpoint(f"e{number}", receiver.url, events=["bounced"]) for number in range(MANY)]
        many[0]["spec"]["events"] = ["delivered"]
        began = time.monotonic()
        create(plane, org, many)
        created = time.monotonic()
        eventually(lambda: ready(org) == MANY, "all endpoints are ready", within=60, every=0.5)
        settled = time.monotonic()
        eventually(lambda: org.status("hwproj", "billing")["webhookEndpoints"] == MANY, "the project counts them")
        org.send(*(delivered(number) for number in range(20)))
        eventually(lambda: org.status("hwep", "e0")["deliveries"]["delivered"] == 20, "the status shows deliveries")
        spent = written(plane) - before
        each = (spent.total() - spent["APPLY projects"]) / MANY
        assert each <= 4.02, "four for each endpoint; the one with deliveries has its counts written, too"
        assert spent["POST events"] == 0

        assert org.operator.stop() == 0
        stopped, secrets_read = written(plane), read(plane)["GET secrets"]
        restarted = time.monotonic()
        org.operator.start()
        again = time.monotonic()
        time.sleep(3)
        assert written(plane) - stopped == Counter(), "a restart with nothing changed writes nothing"
        reads = read(plane)
        assert reads["GET secrets"] == secrets_read, "Secrets come from their watch"
        time.sleep(3)
        assert read(plane) - reads == Counter(), "in a steady state nothing is read beside the watches"
        assert written(plane) - stopped == Counter()
        org.send(delivered("after the restart"))
        eventually(lambda: "after the restart" in message_ids(receiver.received), "events are delivered as before")
    with capsys.disabled():
        sys.stdout.write(
            f"\n{MANY} endpoints: created in {created - began:.1f} s, ready {settled - created:.1f} s later, "
            f"ready {again - restarted:.1f} s after a restart; {each:.2f} API writes each, creation included\n"
        )


def create(plane: ControlPlane, org: Organization, endpoints: Sequence[Object]) -> None:
    """Create endpoints as fast as the API server accepts them; kubectl would wait between requests."""
    url = f"{plane.server}/apis/hookwright.dev/v1alpha1/namespaces/{org.namespace}/webhookendpoints"
    with plane._client() as client:
        for declared in endpoints:
            client.post(url, json=declared).raise_for_status()


def ready(org: Organization) -> int:
    """Return how many endpoints are ready."""
    return sum(condition(known) == "True Delivering" for known in org.objects("hwep"))

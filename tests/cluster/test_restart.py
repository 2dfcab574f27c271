"""An operator that stops or crashes loses no delivery."""

import asyncio
import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress

import httpx
import pytest
from cluster.conftest import ACCELERATED
from support.cluster_actions import Organization, database, delivered, endpoint, manifest, message_ids, receiving
from support.polling import eventually

from hookwright_dev.cluster.installation import OperatorProcess
from hookwright_dev.cluster.kubectl import Cluster
from hookwright_dev.receiver import Received

NOWHERE = "http://127.0.0.1:9/"


@pytest.fixture(scope="module")
def operator(control_plane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    """Yield an operator that tests can start and stop; it runs at the beginning of each."""
    with OperatorProcess(control_plane, tmp_path_factory.mktemp("operator"), ACCELERATED) as operator:
        yield operator


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


@pytest.mark.slow
def test_an_end_under_load_cuts_nothing_short(org: Organization) -> None:
    """After SIGTERM every 202 is kept, attempts in progress are recorded and not repeated, and the exit code is 0."""

    async def slowly(_: Received) -> int:
        await asyncio.sleep(1.0)
        return 200

    answers: list[str] = []
    stop = threading.Event()

    def produce() -> None:
        while not stop.is_set():
            number = str(len(answers))
            with suppress(httpx.TransportError):
                if org.post(json.dumps(delivered(number))).status_code != 202:
                    return
                answers.append(number)

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
        assert len(answers) > len(receiver.received), "there was more to do than was done"
        assert states(org.operator)["delivered"] >= len(receiver.received)
        receiver.answer = lambda _: 200
        org.operator.start()
        eventually(lambda: set(answers) <= set(message_ids(receiver.received)), "every accepted event arrives")
        eventually(lambda: states(org.operator).get("pending", 0) == 0, "nothing is left")
        ids = [request.id for request in receiver.received]
        assert len(ids) == len(set(ids)), "nothing comes twice"


def states(operator: OperatorProcess) -> Counter[str]:
    """Return how many deliveries are in each state."""
    with closing(sqlite3.connect(f"file:{database(operator)}?mode=ro", uri=True)) as connection:
        return Counter(dict(connection.execute("SELECT state, count(*) FROM deliveries GROUP BY state")))


@pytest.mark.slow
def test_a_restart_finds_out_what_was_deleted_meanwhile(org: Organization, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a grace time, pending deliveries of a missing endpoint are discarded at the start."""
    org.apply(manifest("Project", "billing"), endpoint("held", NOWHERE, suspend=True))
    org.wait_for("hwep", "held", "True Suspended")
    org.send(*(delivered(number) for number in range(7)))
    org.operator.kill()
    org.patch("hwep", "held", {"metadata": {"finalizers": None}})
    org.delete("hwep", "held")
    before = states(org.operator)
    monkeypatch.setattr(org.operator, "settings", {**org.operator.settings, "HOOKWRIGHT_ORPHAN_GRACE": "0"})
    org.operator.start()
    eventually(lambda: states(org.operator)["discarded"] - before["discarded"] == 7, "they are discarded")
    assert org.post(json.dumps(delivered(8))).json()["deliveries"] == 0

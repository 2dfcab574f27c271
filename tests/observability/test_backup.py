"""The backup page docs/backup.md: its commands on a running operator, and at-least-once delivery after a restore."""

import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from support.api_processes import Organization
from support.api_receiver import Received, receiving
from support.polling import eventually

from hookwright_dev.cluster.installation import (
    AUDIENCE,
    SYSTEM_NAMESPACE,
    OperatorProcess,
    install,
    service_account_token,
)
from hookwright_dev.cluster.kubectl import Cluster

PAGE = Path(__file__).resolve().parents[2] / "docs/backup.md"
KUBECTL = 'kubectl() { while [ "$1" != -- ]; do shift; done; shift; "$@"; }\n'
"""Replacement of kubectl exec on this machine: runs the command itself, without a pod."""


class Store:
    """One operator with a store that is backed up and restored by the page's own commands."""

    def __init__(self, operator: OperatorProcess, organization: Organization, token: str, workdir: Path) -> None:
        self.operator, self.organization, self._workdir = operator, organization, workdir
        self._headers = {"Authorization": f"Bearer {token}"}

    def run(self, which: str, **environment: str) -> str:
        """Run one of the page's commands, on this operator's folder and with more variables."""
        (command,) = re.findall(rf"```sh {which}\n(.*?)```", PAGE.read_text(), re.DOTALL)
        command = command.replace("/var/lib/hookwright", str(self.operator.folder)).replace(
            "-- python", f"-- {sys.executable}"
        )
        result = subprocess.run(
            ["bash", "-euc", KUBECTL + command],
            cwd=self._workdir,
            env={**os.environ, "NS": SYSTEM_NAMESPACE, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    def send(self, event_id: str) -> dict[str, int]:
        """Send an event and return the counts of the 202."""
        url = f"{self.operator.intake_url}/v1alpha1/namespaces/{self.organization.name}/projects/billing/events"
        event = {"id": event_id, "type": "delivered", "messageId": event_id}
        answer = httpx.post(url, json=event, headers=self._headers, timeout=30.0, trust_env=False)
        assert answer.status_code == 202, answer.text
        return {name: count for name, count in answer.json().items() if name != "eventIds"}

    def suspend(self, *, suspended: bool) -> None:
        """Suspend or resume the endpoint, and wait until the operator has seen it."""
        kubectl, where = self.organization.cluster.kubectl, ("hwep", "orders", "-n", self.organization.name)
        kubectl("patch", *where, "--type=merge", "-p", f'{{"spec": {{"suspend": {str(suspended).lower()}}}}}')
        reason = "{.status.conditions[?(@.type=='Ready')].reason}"
        expected = "Suspended" if suspended else "Delivering"
        eventually(lambda: kubectl("get", *where, "-o", f"jsonpath={reason}").stdout == expected, expected)


@pytest.fixture
def receiver() -> Iterator[Received]:
    """Yield a receiver that answers 200."""
    with receiving() as received:
        yield received


@pytest.fixture
def store(control_plane: Cluster, namespace: str, receiver: Received, tmp_path: Path) -> Iterator[Store]:
    """Yield an operator that serves one namespace with one endpoint."""
    install(control_plane)
    operator = OperatorProcess(control_plane, tmp_path / "operator", {"HOOKWRIGHT_WATCH_NAMESPACES": namespace})
    operator.start()
    token = service_account_token(control_plane, "hookwright-producer", namespace=SYSTEM_NAMESPACE, audience=AUDIENCE)
    with httpx.Client() as client:
        organization = Organization(control_plane, client, namespace)
        project = {"kind": "Project", "metadata": {"name": "billing"}, "spec": {"displayName": "Billing"}}
        spec = {"projectRef": {"name": "billing"}, "url": f"{receiver.url}/orders", "events": ["delivered"]}
        organization.apply(project, {"kind": "WebhookEndpoint", "metadata": {"name": "orders"}, "spec": spec})
        made = Store(operator, organization, token, tmp_path)
        made.suspend(suspended=True)
        yield made
    operator.stop()


@pytest.mark.usefixtures("sqlite3")
def test_what_a_backup_holds_is_delivered_after_a_restore_and_what_came_later_is_unknown(
    store: Store, receiver: Received
) -> None:
    """Deliveries pending at the backup are sent again with the same id; later events are lost until sent again."""
    store.send("kept-1")
    store.send("kept-2")
    assert store.run("backup").strip() == "ok"
    assert store.run("check").split() == ["ok", "pending|2"]

    store.suspend(suspended=False)
    store.send("later")
    eventually(lambda: len(receiver.requests) == 3, "three deliveries before the restore")
    first = _ids(receiver)
    assert store.operator.stop() == 0
    store.run("restore")
    store.operator.start()
    eventually(lambda: len(receiver.requests) == 5, "two deliveries after the restore")

    assert sorted(_ids(receiver)[3:]) == sorted(first[:2])
    assert store.send("kept-1") == {"accepted": 0, "duplicates": 1, "deliveries": 0}
    assert store.send("later") == {"accepted": 1, "duplicates": 0, "deliveries": 1}
    eventually(lambda: len(receiver.requests) == 6, "the event that was sent again")
    assert _ids(receiver)[5] not in first


def test_a_backup_of_another_cluster_is_refused_until_it_is_handed_over(store: Store, receiver: Received) -> None:
    """The refused operator logs both installations; the page's command hands over the database without a loss."""
    store.send("kept")
    assert store.operator.stop() == 0
    database = store.operator.folder / "hookwright.db"
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("UPDATE database_owner SET cluster_uid = 'another-cluster'")
    store.operator.start(wait=False)
    assert store.operator.running.wait(60) == 1
    told = re.findall(r"hookwright-adopt --from (\S+) --to ([^\s'\"]+)", store.operator.log.read_text())
    assert told, store.operator.log.read_text()
    old, new = told[-1]
    assert old == f"another-cluster/{SYSTEM_NAMESPACE}"
    url = f"sqlite:///{database}"
    assert store.run("adopt", OLD=old, NEW=new, HOOKWRIGHT_DATABASE_URL=url).strip() == f"the database belongs to {new}"
    store.operator.start()
    store.suspend(suspended=False)
    eventually(lambda: len(receiver.requests) == 1, "the delivery of the backup")


@pytest.mark.usefixtures("sqlite3")
def test_a_backup_is_taken_while_events_come_in(store: Store) -> None:
    """Accepting continues, and the copy contains everything that was accepted before it began."""
    for number in range(20):
        store.send(f"before-{number}")
    with ThreadPoolExecutor(1) as pool:
        backup = pool.submit(store.run, "backup")
        meanwhile = 0
        while not backup.done():
            meanwhile += store.send(f"meanwhile-{meanwhile}")["accepted"]
    assert backup.result().strip() == "ok"
    assert meanwhile > 0
    sound, pending = store.run("check").split()
    assert sound == "ok"
    assert 20 <= int(pending.removeprefix("pending|")) <= 20 + meanwhile


def _ids(receiver: Received) -> list[str]:
    return [headers["webhook-id"] for _, headers, _ in receiver.requests]

"""The backup page docs/backup.md: its commands on a running operator, and at-least-once delivery after a restore."""

import re
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import httpx
import pytest
from support.api_processes import Organization
from support.api_receiver import Received, receiving
from support.pages import Stage, section, sections
from support.polling import eventually

from hookwright_dev.cluster.installation import AUDIENCE, SYSTEM_NAMESPACE, service_account_token

PAGE = "backup.md"
NAMESPACE = "archive"
pytestmark = pytest.mark.timeout(900)


class Store:
    """The store of the stage, backed up and restored by the page's own commands, and an organization that uses it."""

    def __init__(self, stage: Stage, organization: Organization, token: str) -> None:
        self.stage, self._organization = stage, organization
        self._headers = {"Authorization": f"Bearer {token}"}

    def run(self, title: str) -> str:
        """Run the page's first block and the block of a section; return the output."""
        (block,) = section(PAGE, title).blocks
        return self.stage.follow(*sections(PAGE)[0].blocks, block, timeout=400)

    def back_up(self) -> str:
        """Run the page's command for a backup, and return its output."""
        (self.stage.folder / "hookwright-backup.db").unlink(missing_ok=True)
        return self.run("SQLite: back up while the operator runs")

    def restore(self) -> None:
        """Run the page's command for a restore, and wait for the operator."""
        self.run("SQLite: restore")
        self.stage.settle()

    def send(self, event_id: str) -> dict[str, int]:
        """Send an event and return the counts of the 202."""
        url = f"{self.stage.operator.intake_url}/v1alpha1/namespaces/{NAMESPACE}/projects/billing/events"
        event = {"id": event_id, "type": "delivered", "messageId": event_id}
        answer = httpx.post(url, json=event, headers=self._headers, timeout=30.0, trust_env=False)
        assert answer.status_code == 202, answer.text
        return {name: count for name, count in answer.json().items() if name != "event_ids"}

    def suspend(self, *, suspended: bool) -> None:
        """Suspend or resume the endpoint, and wait until the operator has seen it."""
        kubectl, arguments = self.stage.plane.kubectl, ("hwep", "orders", "-n", NAMESPACE)
        kubectl("patch", *arguments, "--type=merge", "-p", f'{{"spec": {{"suspend": {str(suspended).lower()}}}}}')
        reason = "{.status.conditions[?(@.type=='Ready')].reason}"
        expected = "Suspended" if suspended else "Delivering"
        eventually(lambda: kubectl("get", *arguments, "-o", f"jsonpath={reason}").stdout == expected, expected)


@pytest.fixture
def receiver() -> Iterator[Received]:
    """Yield a receiver that answers 200."""
    with receiving() as requests:
        yield requests


@pytest.fixture
def store(stage: Stage, receiver: Received) -> Iterator[Store]:
    """Yield the store with an organization whose endpoint is suspended."""
    stage.settle()
    plane = stage.plane
    stage.follow("kubectl hookwright support-account --yes")
    token = service_account_token(plane, "hookwright-support", namespace=SYSTEM_NAMESPACE, audience=AUDIENCE)
    plane.objects.create("Namespace", NAMESPACE)
    with httpx.Client() as client:
        organization = Organization(plane, client, NAMESPACE)
        project = {"kind": "Project", "metadata": {"name": "billing"}, "spec": {"displayName": "Billing"}}
        spec = {"projectRef": {"name": "billing"}, "url": f"{receiver.url}/orders", "events": ["delivered"]}
        organization.apply(project, {"kind": "WebhookEndpoint", "metadata": {"name": "orders"}, "spec": spec})
        new_store = Store(stage, organization, token)
        new_store.suspend(suspended=True)
        yield new_store
    stage.settle()
    plane.kubectl("delete", "namespace", NAMESPACE, timeout=120)
    (stage.folder / "hookwright-backup.db").unlink(missing_ok=True)


def test_what_a_backup_holds_is_delivered_after_a_restore_and_what_came_later_is_unknown(
    store: Store, receiver: Received
) -> None:
    """Deliveries pending at the backup are sent again with the same id; later events are lost until sent again."""
    store.send("kept-1")
    store.send("kept-2")
    assert re.search(r"hookwright-backup\.db: \d+ bytes, integrity ok, .*?\b2 pending deliveries", store.back_up())

    store.suspend(suspended=False)
    store.send("later")
    eventually(lambda: len(receiver.requests) == 3, "three deliveries before the restore")
    first = _ids(receiver)
    store.restore()
    eventually(lambda: len(receiver.requests) == 5, "two deliveries after the restore")

    assert sorted(_ids(receiver)[3:]) == sorted(first[:2])
    assert store.send("kept-1") == {"accepted": 0, "duplicates": 1, "deliveries": 0}
    assert store.send("later") == {"accepted": 1, "duplicates": 0, "deliveries": 1}
    eventually(lambda: len(receiver.requests) == 6, "the event that was sent again")
    assert _ids(receiver)[5] not in first


def test_a_backup_of_another_cluster_is_refused_until_it_is_transferred(store: Store, receiver: Received) -> None:
    """The refused operator logs both installations; the page's command transfers the database without a loss."""
    store.send("kept")
    store.back_up()
    backup = store.stage.folder / "hookwright-backup.db"
    with closing(sqlite3.connect(backup, isolation_level=None)) as connection:
        connection.execute("UPDATE database_owner SET cluster_uid = 'another-cluster'")
    store.run("SQLite: restore")
    log = f"kubectl logs -n {SYSTEM_NAMESPACE} deployment/hookwright-operator --tail=20"
    eventually(
        lambda: "adopt --from another-cluster" in store.stage.run(log).stdout, "the operator refuses", within=240
    )

    text = store.run("Restore into another cluster or namespace")

    cluster = store.stage.plane.kubectl("get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}").stdout
    assert f"the database belongs to {cluster}/{SYSTEM_NAMESPACE}" in text
    store.stage.settle()
    store.suspend(suspended=False)
    eventually(lambda: len(receiver.requests) == 1, "the delivery of the backup")


def test_a_backup_is_taken_while_events_come_in(store: Store) -> None:
    """Accepting continues, and the copy contains everything that was accepted before it began."""
    for number in range(20):
        store.send(f"before-{number}")
    with ThreadPoolExecutor(1) as pool:
        backup = pool.submit(store.back_up)
        meanwhile = 0
        while not backup.done():
            meanwhile += store.send(f"meanwhile-{meanwhile}")["accepted"]
    assert meanwhile > 0
    (pending,) = re.findall(r"integrity ok, .*?(\d+) pending", backup.result())
    assert 20 <= int(pending) <= 20 + meanwhile


def _ids(receiver: Received) -> list[str]:
    return [headers["webhook-id"] for _, headers, _ in receiver.requests]

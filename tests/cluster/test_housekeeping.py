"""Duties of a leader whose effect needs more than one replica."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from support.cluster_actions import endpoint

from hookwright_dev.cluster.kubectl import Cluster
from hookwright_operator.delivery.status_reporter import StatusReporter
from hookwright_operator.leader.housekeeping import Housekeeping
from hookwright_operator.registry import Registry
from hookwright_operator.store.records import NewDelivery, NewEvent, State
from hookwright_operator.store.sql import read
from hookwright_operator.store.store import Store
from hookwright_operator.watch.cache import Cache
from hookwright_operator.watch.changes import Changes
from hookwright_operator.watch.work_queue import WorkQueue
from hookwright_runtime.kubernetes import KubernetesClient

NOW_MS = 1_800_000_000_000


@pytest.fixture
async def duties(
    shared_cluster: Cluster, database: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Housekeeping]:
    """Yield a leader whose watches have shown no object yet."""
    monkeypatch.setenv("KUBECONFIG", str(shared_cluster.kubeconfig))
    kube, registry = await KubernetesClient.connect("hookwright-operator"), Registry()
    store = await Store.open(f"sqlite:///{database}", instance="test", lease_ms=60_000, clock=lambda: NOW_MS)
    health = StatusReporter(store, registry, lambda *_: None, interval=30, clock=lambda: 0.0)
    yield Housekeeping(kube, store, registry, Changes(Cache(), WorkQueue()), health, lambda: NOW_MS, orphan_grace_ms=0)
    await store.close()
    await kube.close()


async def accept(store: Store, uid: str) -> None:
    """Accept an event for an endpoint, as another replica may have done."""
    delivery = NewDelivery(f"dlv_{uid}", uid, claimed=False)
    await store.accept([NewEvent(f"msg_{uid}", "acme", "billing", None, "delivered", b"{}", (delivery,))])


async def state(store: Store, uid: str) -> State:
    """Return the state of an endpoint's only delivery."""
    record = await store.read_log(read.delivery, f"dlv_{uid}")
    assert record is not None
    return record.state


async def test_what_waits_for_an_endpoint_that_only_others_have_seen_is_no_orphan(
    duties: Housekeeping, shared_cluster: Cluster, namespace: str
) -> None:
    """The API server decides, not a watch that may lag; an endpoint that it does not know is an orphan."""
    objects = shared_cluster.objects
    creation = objects.create_from(yaml.safe_dump(endpoint("orders", "https://example.com/")), namespace)
    uid = creation["metadata"]["uid"]
    await accept(duties.store, uid)
    await accept(duties.store, "uid-of-long-ago")
    await duties.discard_orphans()
    assert await state(duties.store, uid) is State.PENDING
    assert await state(duties.store, "uid-of-long-ago") is State.DISCARDED
    objects.delete("hwep", "orders", namespace=namespace)
    await duties.discard_orphans()
    assert await state(duties.store, uid) is State.DISCARDED

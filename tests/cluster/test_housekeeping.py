"""Orphans: the pending deliveries of an endpoint that the cluster does not have are discarded after a grace time."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from support.cluster_actions import endpoint
from support.store_factories import LEASE_MS, Clock, accept_one, state_of

from hookwright_dev.cluster.kubectl import Cluster
from hookwright_operator.delivery.status_reporter import StatusReporter
from hookwright_operator.leader.housekeeping import Housekeeping
from hookwright_operator.registry import Registry
from hookwright_operator.store.records import State
from hookwright_operator.store.store import Store
from hookwright_operator.watch.cache import Cache
from hookwright_operator.watch.changes import Changes
from hookwright_operator.watch.work_queue import WorkQueue
from hookwright_runtime.kubernetes import KubernetesClient

DAY_MS = 24 * 3_600_000


@asynccontextmanager
async def leading(
    cluster: Cluster, url: str, clock: Clock, namespaces: Collection[str] = ()
) -> AsyncIterator[Housekeeping]:
    """Yield a leader that has just started, with the default grace time, and whose watches have shown nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(cluster.kubeconfig))
        kube, registry = await KubernetesClient.connect("hookwright-operator"), Registry()
    store = await Store.open(url, instance="test", lease_ms=LEASE_MS, clock=clock)
    health = StatusReporter(store, registry, lambda *_: None, interval=30, clock=lambda: 0.0)
    yield Housekeeping(kube, store, registry, Changes(Cache(), WorkQueue()), health, clock, DAY_MS, namespaces)
    await store.close()
    await kube.close()


async def test_an_orphan_waits_for_its_grace_time_across_restarts(shared_cluster: Cluster, url: str) -> None:
    """Three leaders one after the other discard nothing for 24 hours, and everything after them."""
    clock = Clock()
    start = clock.now
    async with leading(shared_cluster, url, clock) as duties:
        orphan = (await accept_one(duties.store, uid="gone")).id
        await duties.discard_orphans()
        assert await duties.store.orphans.since() == {"gone": start}
    clock.now += DAY_MS - 1
    async with leading(shared_cluster, url, clock) as duties:
        await duties.discard_orphans()
        assert await state_of(duties.store, orphan) is State.PENDING
        assert await duties.store.orphans.since() == {"gone": start}
    clock.now += 1
    async with leading(shared_cluster, url, clock) as duties:
        await duties.discard_orphans()
        assert await state_of(duties.store, orphan) is State.DISCARDED
        assert await duties.store.orphans.since() == {}


async def test_with_chosen_namespaces_their_orphans_are_discarded_and_others_kept(
    shared_cluster: Cluster, url: str
) -> None:
    """An endpoint of a namespace that is not served is unknown, but not missing."""
    clock = Clock()
    async with leading(shared_cluster, url, clock, ["other"]) as duties:
        orphan = (await accept_one(duties.store, uid="gone")).id
        await duties.take_over()
        assert await duties.store.orphans.since() == {}
        await duties.store.orphans.record(new=["gone"], former=(), now_ms=clock.now - DAY_MS)
        await duties.take_over()
        assert await state_of(duties.store, orphan) is State.PENDING
    async with leading(shared_cluster, url, clock, ["acme"]) as duties:
        await duties.take_over()
        assert await duties.store.orphans.since() == {"gone": clock.now}
        clock.now += DAY_MS
        await duties.take_over()
        assert await state_of(duties.store, orphan) is State.DISCARDED


async def test_an_endpoint_that_only_the_api_server_knows_is_no_orphan(
    shared_cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """A watch may lag. If the endpoint was an orphan before, its next absence starts another grace time."""
    objects, clock = shared_cluster.objects, Clock()
    creation = objects.create_from(yaml.safe_dump(endpoint("orders", "https://example.com/")), namespace)
    uid = creation["metadata"]["uid"]
    async with leading(shared_cluster, f"sqlite:///{tmp_path}/d.db", clock) as duties:
        delivery = (await accept_one(duties.store, uid=uid)).id
        await duties.store.orphans.record(new=[uid], former=(), now_ms=clock.now)
        clock.now += DAY_MS + 1
        await duties.discard_orphans()
        assert await state_of(duties.store, delivery) is State.PENDING
        assert await duties.store.orphans.since() == {}
        objects.delete("hwep", "orders", namespace=namespace)
        await duties.discard_orphans()
        assert await state_of(duties.store, delivery) is State.PENDING
        assert await duties.store.orphans.since() == {uid: clock.now}

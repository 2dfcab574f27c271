"""The state that plans get: Secrets that the watch no longer shows, and owners of digests."""

from typing import Any

import pytest
from support.reconcile_stage import ApiServer, Stage
from unit.operator.watch.test_cache import ORDERS, secret

from hookwright_operator.watch.objects import Key


@pytest.fixture
def stage() -> Stage:
    """Return a stage with a project only, in a replica that leads."""
    return Stage()


async def test_a_secret_that_fell_out_of_the_watch_is_read_before_it_counts_as_gone(stage: Stage) -> None:
    """A Secret without labels is deleted for the watch; the operator finds and restores it, and creates no new one."""
    await stage.ready()
    await stage.reconciler.reconcile(ORDERS)
    stage.server.asked.clear()
    stage.cache.lose_secret(secret(500, labelled=""))
    stage.server.stored = secret(500, labelled="")
    await stage.reconciler.reconcile(ORDERS)
    assert [(method, path.rpartition("/")[2]) for method, path, _ in stage.server.asked] == [
        ("GET", "orders-signing"),
        ("PATCH", "orders-signing"),
    ]


def declared_key(namespace: str, created: str) -> dict[str, Any]:
    """Return an ApiKey that declares the common digest."""
    spec = {"projectRef": {"name": "billing"}, "digest": "sha256:" + "ab" * 32}
    meta = {"name": "k7q", "namespace": namespace, "uid": f"uid-{namespace}", "resourceVersion": "5"}
    return {"metadata": {**meta, "creationTimestamp": created}, "spec": spec}


def ready_reasons(server: ApiServer, namespace: str) -> list[str]:
    """Return the reasons of Ready in the statuses written for a namespace's key, with the digest."""
    file = [
        body["status"]
        for _, path, body in server.asked
        if f"/namespaces/{namespace}/" in path and path.endswith("/k7q/status")
    ]
    return [f"{status['conditions'][0]['reason']} {status.get('digest', '')[:9]}".rstrip() for status in file]


@pytest.mark.parametrize("order", [("acme", "rival"), ("rival", "acme")])
async def test_the_apikey_created_first_owns_a_digest(stage: Stage, order: tuple[str, str]) -> None:
    """The order of the two reconciles does not matter, also after the owner is deleted."""
    for namespace, value in (("acme", "2026-01-01T00:00:00Z"), ("rival", "2026-01-01T00:00:01Z")):
        stage.server.keys[namespace] = declared_key(namespace, value)
        stage.cache.see("ApiKey", stage.server.keys[namespace])
        meta = {"name": "billing", "namespace": namespace, "uid": f"uid-billing-{namespace}", "resourceVersion": "1"}
        stage.cache.see("Project", {"metadata": meta, "spec": {}})
    for namespace in order:
        await stage.reconciler.reconcile(Key("ApiKey", namespace, "k7q"))
    assert ready_reasons(stage.server, "acme") == ["Usable sha256:ab"]
    assert ready_reasons(stage.server, "rival") == ["DuplicateDigest"]
    assert await stage.digests.owner_of("sha256:" + "ab" * 32) == ("acme", "k7q")
    stage.cache.lose("ApiKey", stage.server.keys["acme"])
    is_gone = stage.server.keys["rival"]["metadata"] | {"resourceVersion": "2000"}
    stage.cache.see("ApiKey", stage.server.keys["rival"] | {"metadata": is_gone})
    await stage.reconciler.reconcile(Key("ApiKey", "rival", "k7q"))
    assert ready_reasons(stage.server, "rival")[-1] == "DuplicateDigest"

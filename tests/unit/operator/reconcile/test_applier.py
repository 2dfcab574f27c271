"""The promises of executed actions if the store or the API server refuses."""

import asyncio
from datetime import timedelta

import pytest
from structlog.testing import capture_logs
from support.reconcile_stage import DELETED_AT, NOW, Stage
from unit.operator.watch.test_cache import ORDERS, endpoint, secret

from hookwright_operator.reconcile import applier as module
from hookwright_operator.reconcile.plan import FINALIZER, EmitEvent
from hookwright_runtime.errors import KubeError, StoreError, StoreUnavailable


@pytest.fixture
def stage() -> Stage:
    """Return a stage with a project only, in a replica that leads."""
    return Stage()


def failing_at_first(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, times: int, fault: StoreError | None = None
) -> list[str]:
    """Let the first calls of the store's discard raise a fault, or never end without one; return the uids of all."""
    tries: list[str] = []

    async def discard(endpoint_uid: str, *_: object, **__: object) -> int:
        tries.append(endpoint_uid)
        if len(tries) <= times:
            if fault is not None:
                raise fault
            await asyncio.Event().wait()
        return 3

    monkeypatch.setattr(stage.store, "discard", discard)
    return tries


async def test_a_deleted_endpoint_waits_for_the_store_and_no_longer_than_the_grace(
    stage: Stage,
) -> None:
    """The finalizer stays during the grace time. Then the endpoint goes, with an Event, and its deliveries later."""
    await stage.ready()
    stage.sees(2000, deletionTimestamp=DELETED_AT)
    stage.store.away = True
    with pytest.raises(StoreUnavailable, match="the database is locked"):
        await stage.reconciler.reconcile(ORDERS)
    assert stage.server.finalizers_written() == []
    assert stage.registry.get("uid-orders") is None

    stage.now = NOW + timedelta(seconds=31)
    await stage.reconciler.reconcile(ORDERS)
    assert stage.server.finalizers_written() == [[]]
    assert stage.server.events() == ["DeliveriesNotDiscarded"]

    stage.cache.lose("WebhookEndpoint", endpoint(2001))
    with pytest.raises(StoreUnavailable):
        await stage.reconciler.reconcile(ORDERS)
    stage.store.away = False
    await stage.reconciler.reconcile(ORDERS)
    assert stage.store.discarded == ["uid-orders"]


async def test_a_large_backlog_of_a_deleted_endpoint_returns_its_worker_and_is_discarded_later(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise endpoints with many deliveries, deleted at once, keep the workers from other tenants."""
    monkeypatch.setattr(module, "_DISCARD_SECONDS", 0.01)
    await stage.ready()
    tries = failing_at_first(stage, monkeypatch, 2)
    stage.cache.lose("WebhookEndpoint", endpoint(2000))
    for _ in range(2):
        with pytest.raises(StoreError, match="not all deliveries discarded in 0 seconds, retrying"):
            await stage.reconciler.reconcile(ORDERS)
    for _ in range(2):
        await stage.reconciler.reconcile(ORDERS)
    assert tries == ["uid-orders"] * 3


async def test_an_endpoint_found_in_deletion_at_the_start_is_not_forgotten_either(stage: Stage) -> None:
    """The deliveries of an endpoint that never was in the registry are discarded as well, also after its deletion."""
    stage.store.away = True
    stage.now = NOW + timedelta(minutes=5)
    stage.sees(2000, deletionTimestamp=DELETED_AT)
    await stage.reconciler.reconcile(ORDERS)
    stage.cache.lose("WebhookEndpoint", endpoint(2001))
    stage.store.away = False
    await stage.reconciler.reconcile(ORDERS)
    assert stage.store.discarded == ["uid-orders"]


async def test_an_endpoint_whose_finalizer_was_taken_away_loses_its_deliveries_too(
    stage: Stage,
) -> None:
    """After every kind of deletion, no delivery is sent, and an outage of the store does not prevent the discard."""
    await stage.ready()
    stage.cache.lose("WebhookEndpoint", endpoint(2000))
    stage.store.away = True
    with pytest.raises(StoreUnavailable):
        await stage.reconciler.reconcile(ORDERS)
    assert stage.registry.get("uid-orders") is None
    stage.store.away = False
    await stage.reconciler.reconcile(ORDERS)
    assert stage.store.discarded == ["uid-orders"]
    await stage.reconciler.reconcile(ORDERS)
    assert stage.store.discarded == ["uid-orders"]


async def test_a_name_in_use_again_takes_nothing_over_from_its_predecessor(stage: Stage) -> None:
    """The old endpoint gets no more events and its deliveries are discarded; the new one begins without deliveries."""
    await stage.ready()
    stage.sees(2000, uid="uid-successor")
    await stage.reconciler.reconcile(ORDERS)
    assert stage.registry.get("uid-orders") is None
    assert [known.uid for known in stage.registry] == ["uid-successor"]
    assert stage.store.discarded == ["uid-orders"]


async def test_a_store_that_is_away_does_not_hold_up_the_successor(stage: Stage) -> None:
    """The new endpoint is known to delivery even while the old one's deliveries cannot be discarded."""
    await stage.ready()
    stage.store.away = True
    stage.sees(2000, uid="uid-successor")
    with pytest.raises(StoreUnavailable):
        await stage.reconciler.reconcile(ORDERS)
    assert [known.uid for known in stage.registry] == ["uid-successor"]
    stage.store.away = False
    await stage.reconciler.reconcile(ORDERS)
    assert stage.store.discarded == ["uid-orders"]


async def test_a_secret_that_is_in_the_way_is_read_and_then_judged(stage: Stage) -> None:
    """After a 409, an own Secret from before a crash is used; a foreign one is a conflict."""
    stage.sees(1)
    stage.server.stored = secret(500)
    stage.server.refuse = lambda method, _: KubeError("exists", status=409) if method == "POST" else None
    with pytest.raises(KubeError):
        await stage.reconciler.reconcile(ORDERS)
    await stage.reconciler.reconcile(ORDERS)
    snapshot = stage.registry.get("uid-orders")
    assert snapshot is not None
    assert snapshot.block_reason == "SigningSecretInvalid", (
        "the Secret of the test holds no valid secret, but it was used"
    )
    assert [path for method, path, _ in stage.server.asked if method == "POST"].count(
        "/api/v1/namespaces/acme/secrets"
    ) == 1


async def test_an_event_that_cannot_be_written_does_not_hold_up_the_rest(stage: Stage) -> None:
    """Events are for users; in a namespace that is being deleted the API server refuses them."""
    await stage.ready()
    stage.store.away = True
    stage.now = NOW + timedelta(minutes=1)
    stage.sees(2000, deletionTimestamp=DELETED_AT)
    stage.server.refuse = lambda _, path: KubeError("forbidden", status=403) if path.endswith("/events") else None
    await stage.reconciler.reconcile(ORDERS)
    assert stage.server.finalizers_written() == [[]]


async def test_refused_events_use_no_more_lines_of_the_log_than_the_namespace_has(stage: Stage) -> None:
    """A tenant can forbid Events in its namespace, for example by a quota, and cause many of them."""
    await stage.ready()
    stage.server.refuse = lambda _, path: KubeError("quota", status=403) if path.endswith("/events") else None
    with capture_logs() as logs:
        for number in range(module.AT_ONCE + 5):
            event = EmitEvent(ORDERS, "uid-orders", "Warning", "DeliveriesNotDiscarded", f"message {number}")
            await stage.reconciler.applier.apply(event)
        await asyncio.sleep(1.1)
    assert [entry["event"] for entry in logs].count("Event not written, skipping it") == module.AT_ONCE
    assert {"namespace": ORDERS.namespace, "events": 5}.items() <= logs[-1].items()


async def test_the_same_words_are_not_repeated_within_ten_minutes(stage: Stage) -> None:
    """A key that fails repeatedly does not fill the namespace with Events."""
    await stage.ready()
    stage.store.away = True
    stage.now = NOW + timedelta(minutes=1)
    for version in (2000, 2001, 2002):
        stage.sees(version, deletionTimestamp=DELETED_AT)
        await stage.reconciler.reconcile(ORDERS)
    assert stage.server.events() == ["DeliveriesNotDiscarded"]
    stage.now = NOW + timedelta(minutes=12)
    await stage.reconciler.reconcile(ORDERS)
    assert stage.server.events() == ["DeliveriesNotDiscarded"] * 2


async def test_every_new_signing_secret_is_announced(stage: Stage) -> None:
    """The second new secret within ten minutes causes an Event as well; no replica has the deleted one."""
    await stage.ready()
    for _ in range(2):
        cached_secret = stage.cache.secret("acme", "orders-signing", owner_uid="uid-orders")
        assert cached_secret is not None
        stage.cache.lose_secret(
            {"metadata": {"name": cached_secret.name, "namespace": "acme", "uid": cached_secret.uid}}
        )
        stage.registry.remove("uid-orders")
        await stage.reconciler.reconcile(ORDERS)
    assert stage.server.events().count("SigningSecretRecreated") == 2


async def test_a_deleted_signing_secret_is_created_again_with_the_same_content(stage: Stage) -> None:
    """The replica that leads still signs with it, so the receiver need not be told a new one."""
    await stage.ready()
    for _ in range(2):
        cached_secret = stage.cache.secret("acme", "orders-signing", owner_uid="uid-orders")
        assert cached_secret is not None
        stage.cache.lose_secret(
            {"metadata": {"name": cached_secret.name, "namespace": "acme", "uid": cached_secret.uid}}
        )
        await stage.reconciler.reconcile(ORDERS)
    creation = [body["stringData"] for _, path, body in stage.server.asked if path.endswith("/secrets")]
    assert len(creation) == 2
    assert creation[0] == creation[1]
    assert stage.server.events()[-1] == "SigningSecretRestored"


async def test_an_endpoint_with_too_many_finalizers_to_keep_loses_ours_alone(stage: Stage) -> None:
    """Finalizers of others are read again before they are written."""
    rest = [f"example.com/{number:04}" for number in range(1000)]
    stage.sees(1, finalizers=[*rest, FINALIZER], deletionTimestamp=DELETED_AT)
    stage.server.stored = endpoint(1, finalizers=[*rest, FINALIZER], deletionTimestamp=DELETED_AT)
    await stage.reconciler.reconcile(ORDERS)
    assert stage.server.finalizers_written() == [rest]

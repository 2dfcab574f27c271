"""The promises of executed plans if the store or the API server refuses; the rest is tested on a real cluster."""

import base64
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY
from unit.operator.watch.test_cache import ORDERS, PROJECT, endpoint, project, secret

from hookwright_crds.resources import DeliveryCounts, WebhookEndpoint
from hookwright_operator.reconcile.plan import FINALIZER
from hookwright_operator.reconcile.reconciler import Reconciler
from hookwright_operator.registry import Health, Registry
from hookwright_operator.watch.cache import Cache
from hookwright_operator.watch.objects import Key
from hookwright_runtime.errors import KubeError, StoreError, StoreUnavailable
from hookwright_runtime.kubernetes import KubernetesClient, Object

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
DELETED_AT = "2030-01-01T12:00:00Z"


class ApiServer(KubernetesClient):
    """An API server that keeps the requests, and answers with their content and a new resourceVersion."""

    def __init__(self) -> None:
        self._manager = "tests"
        self.asked: list[tuple[str, str, Object]] = []
        self.refuse: Callable[[str, str], KubeError | None] = lambda _method, _path: None
        self.stored: Object = {}
        self.endpoint: Object = endpoint()
        self.keys: dict[str, Object] = {}
        self._version = 1000

    async def _request(self, method: str, path: str, *, body: Object | None = None, **_: Any) -> Object:
        self.asked.append((method, path, body or {}))
        refusal = self.refuse(method, path)
        if refusal is not None:
            raise refusal
        if method == "GET":
            if not self.stored:
                raise KubeError("not found", status=404)
            return self.stored
        self._version += 1
        sent = dict(body or {})
        metadata = {"uid": "uid-made", **sent.get("metadata", {}), "resourceVersion": str(self._version)}
        if "apikeys" in path:
            known = self.keys[metadata["namespace"]]
            return {**known, **sent, "metadata": {**known["metadata"], **metadata}}
        if "webhookendpoints" not in path:
            return {**sent, "metadata": metadata}
        self.endpoint |= {name: sent[name] for name in ("status",) if name in sent}
        self.endpoint["metadata"] = {**self.endpoint["metadata"], **metadata}
        return dict(self.endpoint)

    def events(self) -> list[str]:
        """Return the reasons of the Events written."""
        return [body["reason"] for _, path, body in self.asked if path.endswith("/events")]

    def given_up(self) -> list[tuple[int, str]]:
        """Return the counts and texts of the Events about failed deliveries."""
        bodies = [body for _, path, body in self.asked if path.endswith("/events")]
        return [(body["count"], body["message"]) for body in bodies if body["reason"] == "DeliveryFailed"]

    def finalizers_written(self) -> list[list[str]]:
        """Return the lists of finalizers that were written to permit a deletion."""
        patches = [body for method, path, body in self.asked if method == "PATCH" and path.endswith("/orders")]
        return [body["metadata"]["finalizers"] for body in patches if "resourceVersion" in body["metadata"]]


class Deliveries:
    """A store that can be unavailable."""

    def __init__(self) -> None:
        self.away = False
        self.discarded: list[str] = []

    async def discard(self, endpoint_uid: str, reason: str) -> int:
        """Discard three deliveries."""
        assert reason == "endpoint deleted"
        if self.away:
            raise StoreUnavailable("the database is locked")
        self.discarded.append(endpoint_uid)
        return 3


class Digests:
    """Owners of digests in memory."""

    def __init__(self) -> None:
        self.owners: dict[str, tuple[str, str]] = {}

    async def owner_of(self, digest: str) -> tuple[str, str] | None:
        """Return the owner."""
        return self.owners.get(digest)

    async def claim(
        self, digest: str, owner: tuple[str, str], _living: Callable[[], Collection[str]]
    ) -> tuple[str, str]:
        """Record the owner unless there is one."""
        return self.owners.setdefault(digest, owner)


class Stage:
    """A world with an API server and a store that the test controls."""

    def __init__(self) -> None:
        self.now = NOW
        self.server, self.store, self.cache, self.registry = ApiServer(), Deliveries(), Cache(), Registry()
        self.counts_lost: list[str] = []
        self.digests = Digests()
        self.world = Reconciler(
            kube=self.server,
            cache=self.cache,
            registry=self.registry,
            store=self.store,
            digests=self.digests,
            allow_http=False,
            finalizer_grace=timedelta(seconds=30),
            clock=lambda: self.now,
            counts_lost=self.counts_lost.append,
        )
        self.cache.see("Project", project())

    def sees(self, version: int, **more: Any) -> None:
        """Show the endpoint at a version, with its finalizer."""
        self.cache.see("WebhookEndpoint", endpoint(version, **{"finalizers": [FINALIZER], **more}))

    async def ready(self) -> None:
        """Make an endpoint known to delivery."""
        self.sees(1)
        self.cache.see_secret(secret())
        await self.world.reconcile(ORDERS)
        assert self.registry.get("uid-orders") is not None
        self.server.asked.clear()


@pytest.fixture
def stage() -> Stage:
    """Return a stage with a project only."""
    return Stage()


@pytest.fixture
def discarded() -> Iterator[Callable[[], float]]:
    """Yield a function that returns how many deliveries were discarded since the test began."""

    def count() -> float:
        return REGISTRY.get_sample_value("hookwright_deliveries_total", {"outcome": "discarded"}) or 0.0

    before = count()
    yield lambda: count() - before  # noqa: PT022 - counted to the end of the test


async def test_a_deleted_endpoint_waits_for_the_store_and_no_longer_than_the_grace(
    stage: Stage, discarded: Callable[[], float]
) -> None:
    """The finalizer stays during the grace time. Then the endpoint goes, with an Event, and its deliveries later."""
    await stage.ready()
    stage.sees(2000, deletionTimestamp=DELETED_AT)
    stage.store.away = True
    with pytest.raises(StoreError, match="pending deliveries not discarded"):
        await stage.world.reconcile(ORDERS)
    assert stage.server.finalizers_written() == []
    assert stage.registry.get("uid-orders") is None

    stage.now = NOW + timedelta(seconds=31)
    await stage.world.reconcile(ORDERS)
    assert stage.server.finalizers_written() == [[]]
    assert stage.server.events() == ["DeliveriesNotDiscarded"]

    stage.cache.lose("WebhookEndpoint", endpoint(2001))
    with pytest.raises(StoreUnavailable):
        await stage.world.reconcile(ORDERS)
    stage.store.away = False
    await stage.world.reconcile(ORDERS)
    assert stage.store.discarded == ["uid-orders"]
    assert discarded() == 3


async def test_an_endpoint_found_in_deletion_at_the_start_is_not_forgotten_either(stage: Stage) -> None:
    """The deliveries of an endpoint that never was in the registry are discarded as well, also after its deletion."""
    stage.store.away = True
    stage.now = NOW + timedelta(minutes=5)
    stage.sees(2000, deletionTimestamp=DELETED_AT)
    await stage.world.reconcile(ORDERS)
    stage.cache.lose("WebhookEndpoint", endpoint(2001))
    stage.store.away = False
    await stage.world.reconcile(ORDERS)
    assert stage.store.discarded == ["uid-orders"]


async def test_an_endpoint_whose_finalizer_was_taken_away_loses_its_deliveries_too(
    stage: Stage, discarded: Callable[[], float]
) -> None:
    """After every kind of deletion, no delivery is sent, and an outage of the store does not prevent the discard."""
    await stage.ready()
    stage.cache.lose("WebhookEndpoint", endpoint(2000))
    stage.store.away = True
    with pytest.raises(StoreUnavailable):
        await stage.world.reconcile(ORDERS)
    assert stage.registry.get("uid-orders") is None
    stage.store.away = False
    await stage.world.reconcile(ORDERS)
    assert stage.store.discarded == ["uid-orders"]
    assert discarded() == 3
    await stage.world.reconcile(ORDERS)
    assert stage.store.discarded == ["uid-orders"]


async def test_a_name_in_use_again_takes_nothing_over_from_its_predecessor(stage: Stage) -> None:
    """The old endpoint gets no more events and its deliveries are discarded; the new one begins without deliveries."""
    await stage.ready()
    stage.sees(2000, uid="uid-successor")
    await stage.world.reconcile(ORDERS)
    assert stage.registry.get("uid-orders") is None
    assert [known.uid for known in stage.registry] == ["uid-successor"]
    assert stage.store.discarded == ["uid-orders"]


async def test_a_store_that_is_away_does_not_hold_up_the_successor(stage: Stage) -> None:
    """The new endpoint is known to delivery even while the old one's deliveries cannot be discarded."""
    await stage.ready()
    stage.store.away = True
    stage.sees(2000, uid="uid-successor")
    with pytest.raises(StoreUnavailable):
        await stage.world.reconcile(ORDERS)
    assert [known.uid for known in stage.registry] == ["uid-successor"]
    stage.store.away = False
    await stage.world.reconcile(ORDERS)
    assert stage.store.discarded == ["uid-orders"]


async def test_a_secret_that_is_in_the_way_is_read_and_then_judged(stage: Stage) -> None:
    """After a 409, an own Secret from before a crash is used; a foreign one is a conflict."""
    stage.sees(1)
    stage.server.stored = secret(500)
    stage.server.refuse = lambda method, _: KubeError("exists", status=409) if method == "POST" else None
    with pytest.raises(KubeError):
        await stage.world.reconcile(ORDERS)
    await stage.world.reconcile(ORDERS)
    known = stage.registry.get("uid-orders")
    assert known is not None
    assert known.blocked == "SigningSecretInvalid", "the Secret of the test holds no valid secret, but it was used"
    assert [method for method, *_ in stage.server.asked].count("POST") == 1


async def test_a_secret_that_fell_out_of_the_watch_is_read_before_it_counts_as_gone(stage: Stage) -> None:
    """A Secret without labels is deleted for the watch; the operator finds and restores it, and creates no new one."""
    await stage.ready()
    await stage.world.reconcile(ORDERS)
    stage.server.asked.clear()
    stage.cache.lose_secret(secret(500, labelled=""))
    stage.server.stored = secret(500, labelled="")
    await stage.world.reconcile(ORDERS)
    assert [(method, path.rpartition("/")[2]) for method, path, _ in stage.server.asked] == [
        ("GET", "orders-signing"),
        ("PATCH", "orders-signing"),
    ]


async def test_an_event_that_cannot_be_written_does_not_hold_up_the_rest(stage: Stage) -> None:
    """Events are for users; in a namespace that is being deleted the API server refuses them."""
    await stage.ready()
    stage.store.away = True
    stage.now = NOW + timedelta(minutes=1)
    stage.sees(2000, deletionTimestamp=DELETED_AT)
    stage.server.refuse = lambda _, path: KubeError("forbidden", status=403) if path.endswith("/events") else None
    await stage.world.reconcile(ORDERS)
    assert stage.server.finalizers_written() == [[]]


async def test_the_same_words_are_not_repeated_within_ten_minutes(stage: Stage) -> None:
    """A key that fails repeatedly does not fill the namespace with Events."""
    await stage.ready()
    stage.store.away = True
    stage.now = NOW + timedelta(minutes=1)
    for version in (2000, 2001, 2002):
        stage.sees(version, deletionTimestamp=DELETED_AT)
        await stage.world.reconcile(ORDERS)
    assert stage.server.events() == ["DeliveriesNotDiscarded"]
    stage.now = NOW + timedelta(minutes=12)
    await stage.world.reconcile(ORDERS)
    assert stage.server.events() == ["DeliveriesNotDiscarded"] * 2


async def test_every_new_signing_secret_is_announced(stage: Stage) -> None:
    """The second new secret within ten minutes causes an Event as well."""
    await stage.ready()
    for _ in range(2):
        known = stage.cache.secret("acme", "orders-signing", owner_uid="uid-orders")
        assert known is not None
        stage.cache.lose_secret({"metadata": {"name": known.name, "namespace": "acme", "uid": known.uid}})
        await stage.world.reconcile(ORDERS)
    assert stage.server.events() == ["SigningSecretRecreated"] * 2


async def test_a_status_without_counts_has_them_looked_up(stage: Stage) -> None:
    """The counts are in the store, and are published again only if a status lost them."""
    await stage.ready()
    assert stage.counts_lost == ["uid-orders"]
    await stage.world.reconcile(ORDERS)
    known = stage.cache.resource(ORDERS)
    assert isinstance(known, WebhookEndpoint)
    assert known.status.deliveries is not None
    assert stage.counts_lost == ["uid-orders"]


async def test_a_new_endpoint_has_no_counts_to_look_up(stage: Stage) -> None:
    """Five hundred new endpoints must not delay the counts of the others."""
    stage.sees(1, finalizers=[])
    await stage.world.reconcile(ORDERS)
    assert stage.registry.get("uid-orders") is not None
    assert stage.counts_lost == []


async def test_what_the_answers_to_our_writes_show_is_looked_at_once_more(stage: Stage) -> None:
    """Another client may have changed the object at the same time, and the watch then shows nothing new."""
    stage.sees(1)
    stage.cache.see_secret(secret())
    assert await stage.world.reconcile(ORDERS) == 0.0
    written = len(stage.server.asked)
    assert written > 0
    assert await stage.world.reconcile(ORDERS) is None
    assert len(stage.server.asked) == written


async def test_an_answer_that_shows_nothing_new_ends_it(stage: Stage) -> None:
    """A write without effect must not cause the next write."""
    await stage.ready()
    stage.sees(2000)
    assert await stage.world.reconcile(ORDERS) is None
    assert [method for method, _, _ in stage.server.asked] == ["PATCH", "PATCH"]


async def test_a_project_that_is_gone_accepts_nothing(stage: Stage) -> None:
    """A project accepts events after its reconcile, and rejects them after the reconcile of its deletion."""
    await stage.world.reconcile(PROJECT)
    assert stage.registry.has_project("acme", "billing")
    stage.cache.lose("Project", project(3000))
    await stage.world.reconcile(PROJECT)
    assert not stage.registry.has_project("acme", "billing")


def _fails(stage: Stage, number: int, error: str = "HTTP 500 Internal Server Error") -> None:
    counts = DeliveryCounts(failed=number, last_attempt_time=stage.now, last_status_code=500)
    stage.world.health["uid-orders"] = Health(counts, error, number)


async def test_an_endpoint_that_keeps_failing_has_an_event_every_ten_minutes_with_the_sum(stage: Stage) -> None:
    """The first failure causes an Event at once; later ones are reported together after ten minutes, automatically."""
    await stage.ready()
    _fails(stage, 1)
    await stage.world.reconcile(ORDERS)
    assert [count for count, _ in stage.server.given_up()] == [1]
    for _ in range(119):
        stage.now += timedelta(seconds=5)
        _fails(stage, 2)
        await stage.world.reconcile(ORDERS)
    assert await stage.world.reconcile(ORDERS) == pytest.approx(5)
    assert len(stage.server.given_up()) == 1
    stage.now += timedelta(seconds=5)
    await stage.world.reconcile(ORDERS)
    assert [count for count, _ in stage.server.given_up()] == [1, 238]
    assert stage.server.given_up()[1][1].startswith("238 deliveries failed")
    stage.now += timedelta(hours=1)
    await stage.world.reconcile(ORDERS)
    assert len(stage.server.given_up()) == 2


async def test_deliveries_given_up_are_counted_once_although_a_plan_fails(stage: Stage) -> None:
    """If the API server refuses the status before the Event, the next try reports the same number."""
    await stage.ready()
    _fails(stage, 3)
    stage.server.refuse = lambda _, path: KubeError("busy", status=429) if path.endswith("/status") else None
    for _ in range(2):
        with pytest.raises(KubeError):
            await stage.world.reconcile(ORDERS)
    stage.server.refuse = lambda _method, _path: None
    await stage.world.reconcile(ORDERS)
    assert [count for count, _ in stage.server.given_up()] == [3]


async def test_an_event_of_many_tells_when_the_first_was_heard_of(stage: Stage) -> None:
    """Kubectl then shows the number and the period of the failures."""
    await stage.ready()
    _fails(stage, 1)
    await stage.world.reconcile(ORDERS)
    stage.now += timedelta(minutes=4)
    _fails(stage, 5)
    await stage.world.reconcile(ORDERS)
    stage.now += timedelta(minutes=6)
    await stage.world.reconcile(ORDERS)
    body = [body for _, path, body in stage.server.asked if path.endswith("/events")][-1]
    assert body["count"] == 5
    assert (body["firstTimestamp"], body["lastTimestamp"]) == ("2030-01-01T12:04:00Z", "2030-01-01T12:10:00Z")


def declared_key(namespace: str, created: str) -> dict[str, Any]:
    """Return an ApiKey that declares the common digest."""
    spec = {"projectRef": {"name": "billing"}, "digest": "sha256:" + "ab" * 32}
    meta = {"name": "k7q", "namespace": namespace, "uid": f"uid-{namespace}", "resourceVersion": "5"}
    return {"metadata": {**meta, "creationTimestamp": created}, "spec": spec}


def ready_reasons(server: ApiServer, namespace: str) -> list[str]:
    """Return the reasons of Ready in the statuses written for a namespace's key, with the digest."""
    written = [
        body["status"]
        for _, path, body in server.asked
        if f"/namespaces/{namespace}/" in path and path.endswith("/k7q/status")
    ]
    return [f"{status['conditions'][0]['reason']} {status.get('digest', '')[:9]}".rstrip() for status in written]


@pytest.mark.parametrize("order", [("acme", "rival"), ("rival", "acme")])
async def test_the_apikey_created_first_owns_a_digest(stage: Stage, order: tuple[str, str]) -> None:
    """The order of the two reconciles does not matter, also after the owner is deleted."""
    for namespace, created in (("acme", "2026-01-01T00:00:00Z"), ("rival", "2026-01-01T00:00:01Z")):
        stage.server.keys[namespace] = declared_key(namespace, created)
        stage.cache.see("ApiKey", stage.server.keys[namespace])
        meta = {"name": "billing", "namespace": namespace, "uid": f"uid-billing-{namespace}", "resourceVersion": "1"}
        stage.cache.see("Project", {"metadata": meta, "spec": {}})
    for namespace in order:
        await stage.world.reconcile(Key("ApiKey", namespace, "k7q"))
    assert ready_reasons(stage.server, "acme") == ["Usable sha256:ab"]
    assert ready_reasons(stage.server, "rival") == ["DuplicateDigest"]
    assert stage.digests.owners == {"sha256:" + "ab" * 32: ("acme", "k7q")}
    stage.cache.lose("ApiKey", stage.server.keys["acme"])
    gone = stage.server.keys["rival"]["metadata"] | {"resourceVersion": "2000"}
    stage.cache.see("ApiKey", stage.server.keys["rival"] | {"metadata": gone})
    await stage.world.reconcile(Key("ApiKey", "rival", "k7q"))
    assert ready_reasons(stage.server, "rival")[-1] == "DuplicateDigest"


async def test_a_signing_secret_known_by_name_only_is_read_before_it_is_used(stage: Stage) -> None:
    """No new secret is created, and a follower reads it too."""
    stage.cache.see_secret(secret())
    name = secret()["metadata"]["name"]
    known = stage.cache.secret_at("acme", name)
    assert known is not None
    stage.cache._secrets["acme", name] = replace(known, fields={}, owner_references=(), partial=True)
    data = {"secret": base64.b64encode(b"whsec_" + b"QUFB" * 11).decode()}
    stage.server.stored = {**secret(), "data": data}
    for leads in (False, True):
        stage.world.leads = lambda leads=leads: leads  # type: ignore[misc]
        stage.sees(1 + leads)
        await stage.world.reconcile(ORDERS)
        registered = stage.registry.get("uid-orders")
        assert registered is not None
        assert registered.secrets
    assert [path for method, path, _ in stage.server.asked if method == "POST"] == []


async def test_an_endpoint_with_too_many_finalizers_to_keep_loses_ours_alone(stage: Stage) -> None:
    """Finalizers of others are read again before they are written."""
    others = [f"example.com/{number:04}" for number in range(1000)]
    stage.sees(1, finalizers=[*others, FINALIZER], deletionTimestamp=DELETED_AT)
    stage.server.stored = endpoint(1, finalizers=[*others, FINALIZER], deletionTimestamp=DELETED_AT)
    await stage.world.reconcile(ORDERS)
    assert stage.server.finalizers_written() == [others]

"""The promises of the cache about objects that the watches have shown."""

import base64
from typing import Any

import pytest

from hookwright_crds.base import CREDENTIAL_LABEL
from hookwright_crds.reading import Unsupported
from hookwright_crds.resources import EventType, WebhookEndpoint
from hookwright_operator.watch.cache import Cache
from hookwright_operator.watch.objects import MODELS, Key, Secret, ours

PROJECT = Key("Project", "acme", "billing")
ORDERS = Key("WebhookEndpoint", "acme", "orders")
CI = Key("ApiKey", "acme", "ci")


def meta(name: str, version: int, **more: Any) -> dict[str, Any]:
    """Return metadata as a watch shows it."""
    return {"name": name, "namespace": "acme", "uid": f"uid-{name}", "resourceVersion": str(version), **more}


def project(version: int = 1, **more: Any) -> dict[str, Any]:
    """Return a Project as a watch shows it."""
    return {"metadata": meta("billing", version, **more), "spec": {}}


def endpoint(version: int = 1, *, name: str = "orders", url: str = "https://a.example/", **more: Any) -> dict[str, Any]:
    """Return a WebhookEndpoint as a watch shows it."""
    spec = {"projectRef": {"name": "billing"}, "url": url, "events": ["delivered"]}
    return {"metadata": meta(name, version, **more), "spec": spec}


def apikey(version: int = 1) -> dict[str, Any]:
    """Return an ApiKey as a watch shows it."""
    return {
        "metadata": meta("ci", version),
        "spec": {"projectRef": {"name": "billing"}, "handover": {"secretName": "ci-key", "ttl": "1h"}},
    }


def secret(version: int = 1, *, labelled: str = "uid-orders", owned: str = "uid-orders", **more: Any) -> dict[str, Any]:
    """Return a Secret as a watch shows it; an empty owner leaves label or ownerReference out."""
    metadata = meta("orders-signing", version, **more)
    if labelled:
        metadata["labels"] = ours(labelled)
    if owned:
        reference = {"apiVersion": "hookwright.dev/v1alpha1", "kind": "WebhookEndpoint", "name": "orders", "uid": owned}
        metadata["ownerReferences"] = [reference]
    return {"metadata": metadata, "data": {"secret": base64.b64encode(b"whsec_x").decode()}}


def url_of(cache: Cache) -> str | None:
    """Return the URL of the endpoint that the cache knows."""
    cached = cache.resource(ORDERS)
    assert isinstance(cached, WebhookEndpoint)
    return cached.spec.url


def signing_secret(cache: Cache, owner: str = "uid-orders") -> Secret | None:
    """Return the cached Secret of an endpoint."""
    return cache.secret("acme", "orders-signing", owner_uid=owner)


def test_an_older_version_does_not_replace_a_newer_one() -> None:
    """A watch event that is older than the answer to a write must not restore the older state."""
    cache = Cache()
    assert cache.see("WebhookEndpoint", endpoint(7, url="https://new.example/")) == ORDERS
    assert cache.see("WebhookEndpoint", endpoint(5, url="https://old.example/")) is None
    assert url_of(cache) == "https://new.example/"
    assert cache.see("WebhookEndpoint", endpoint(10, url="https://newer.example/")) == ORDERS
    assert url_of(cache) == "https://newer.example/"


def test_what_is_known_already_is_no_news() -> None:
    """The answer to a write and the watch show the same version, so it is reconciled once only."""
    cache = Cache()
    assert cache.see("WebhookEndpoint", endpoint(7)) == ORDERS
    cache.answered.add("7")
    assert cache.see("WebhookEndpoint", endpoint(7)) is None
    assert cache.answered == set(), "its event has come, although it was already on the way when the answer came"
    assert cache.see_secret(secret(8)) is not None
    assert cache.see_secret(secret(8)) is None


def test_a_foreign_secret_is_news_each_time_it_is_read() -> None:
    """A foreign Secret is not watched, so the cache forgets it after each read, and the next read shows it again."""
    cache = Cache()
    for _ in range(2):
        assert cache.see_secret(secret(8, labelled="", owned="")) is not None
        cached_secret = signing_secret(cache)
        assert cached_secret is not None
        assert cached_secret.foreign
        assert signing_secret(cache) is None


def test_an_object_that_is_gone_is_not_brought_back_by_an_answer_from_before() -> None:
    """The answer to the last write may arrive after the DELETED event."""
    cache = Cache()
    cache.see("WebhookEndpoint", endpoint(5))
    assert cache.lose("WebhookEndpoint", endpoint(8)) == ORDERS
    assert cache.see("WebhookEndpoint", endpoint(7)) is None
    assert cache.resource(ORDERS) is None
    assert list(cache) == []


def test_the_deletion_of_a_predecessor_leaves_the_successor_alone() -> None:
    """A name may be in use again before the watch reports the deletion of the old object."""
    cache = Cache()
    cache.see("WebhookEndpoint", endpoint(5))
    cache.see("WebhookEndpoint", endpoint(9, uid="uid-successor", url="https://new.example/"))
    cache.lose("WebhookEndpoint", endpoint(6))
    assert url_of(cache) == "https://new.example/"


def unreadable(body: dict[str, Any], version: int) -> dict[str, Any]:
    """Return an object whose metadata cannot be read."""
    metadata = {**body["metadata"], "resourceVersion": str(version), "creationTimestamp": "yesterday"}
    return {**body, "metadata": metadata}


def test_an_object_whose_metadata_cannot_be_read_is_refused_and_the_last_good_one_kept() -> None:
    """An invalid object causes an error for the caller and changes nothing else."""
    cache = Cache()
    cache.see("WebhookEndpoint", endpoint(1))
    with pytest.raises(ValueError, match="Timestamp"):
        cache.see("WebhookEndpoint", unreadable(endpoint(2), 2))
    assert url_of(cache) == "https://a.example/"


def test_what_is_not_understood_of_an_object_is_known_until_it_changes_or_goes() -> None:
    """The object is counted by kind, and its understood parts are used."""
    cache = Cache()
    newer = endpoint(1)
    cache.see("WebhookEndpoint", {**newer, "spec": {**newer["spec"], "events": ["delivered", "rcs_read"], "new": 1}})
    assert cache.unsupported(ORDERS) == Unsupported(fields=("spec.new",), events=("rcs_read",))
    assert [cache.number_unsupported(kind) for kind in MODELS] == [0, 0, 1, 0]
    cache.see("WebhookEndpoint", endpoint(2))
    assert not cache.unsupported(ORDERS)
    cache.see("WebhookEndpoint", {**endpoint(3), "spec": {"url": "gopher://a"}})
    assert cache.unsupported(ORDERS).faults
    cache.lose("WebhookEndpoint", endpoint(4))
    assert cache.number_unsupported("WebhookEndpoint") == 0


def test_an_object_that_cannot_be_read_still_exists() -> None:
    """Its deliveries stay pending, and are not discarded as orphans."""
    cache = Cache()
    unfit = unreadable(endpoint(1), 1)
    with pytest.raises(ValueError, match="Timestamp"):
        cache.see("WebhookEndpoint", unfit)
    assert cache.number_unsupported("WebhookEndpoint") == 1
    assert cache.resource(ORDERS) is None
    assert list(cache.names("WebhookEndpoint")) == [(("acme", "orders"), "uid-orders")]
    cache.see("WebhookEndpoint", endpoint(2))
    assert list(cache.names("WebhookEndpoint")) == [(("acme", "orders"), "uid-orders")]
    with pytest.raises(ValueError, match="Timestamp"):
        cache.see("WebhookEndpoint", unreadable(endpoint(3), 3))
    cache.lose("WebhookEndpoint", endpoint(4))
    assert list(cache.names("WebhookEndpoint")) == []


def test_a_project_knows_its_children_whether_it_exists_or_not() -> None:
    """Children that came first are found when their project appears, and are forgotten when they are deleted."""
    cache = Cache()
    cache.see("WebhookEndpoint", endpoint())
    cache.see("ApiKey", apikey())
    assert set(cache.dependents(PROJECT)) == {ORDERS, CI}
    assert cache.dependents(Key("Project", "other", "billing")) == ()
    assert cache.take_changed_references() == {PROJECT}
    cache.lose("WebhookEndpoint", endpoint())
    cache.lose("ApiKey", apikey())
    assert cache.dependents(PROJECT) == ()
    assert cache.take_changed_references() == {PROJECT}
    assert cache.take_changed_references() == set()


def test_an_event_type_knows_the_endpoints_that_name_it() -> None:
    """Wildcards and built-in types name none; a change of spec.events is a change of what the endpoint names."""
    cache, paid = Cache(), Key("EventType", "acme", "invoice.paid")
    body = endpoint()
    body["spec"]["events"] = ["*", "wa_*", "delivered", "invoice.paid"]
    cache.see("WebhookEndpoint", body)
    assert cache.dependents(paid) == (ORDERS,)
    assert cache.take_changed_references() == {PROJECT, paid}
    cache.see("WebhookEndpoint", {**body, "metadata": meta("orders", 2)})
    assert cache.take_changed_references() == set()
    cache.see("WebhookEndpoint", endpoint(3))
    assert cache.dependents(paid) == ()
    assert cache.take_changed_references() == {paid}


def test_the_event_types_of_a_namespace_are_those_that_exist() -> None:
    """A type that is being deleted, or is gone, counts no more."""
    cache = Cache()
    for version, name in enumerate(("invoice.paid", "order.created", "order.sent")):
        cache.see("EventType", {"metadata": meta(name, version), "spec": {"meaning": "Text."}})
    assert set(cache.event_types("acme")) == {"invoice.paid", "order.created", "order.sent"}
    deleted = meta("order.sent", 9, deletionTimestamp="2030-01-01T00:00:00Z")
    cache.see("EventType", {"metadata": deleted, "spec": {"meaning": "Text."}})
    cache.lose("EventType", {"metadata": meta("order.created", 10)})
    assert (set(cache.event_types("acme")), set(cache.event_types("other"))) == ({"invoice.paid"}, set())


def test_an_event_type_of_a_known_generation_has_its_spec_and_new_metadata() -> None:
    """Labels, version and status are those of the newest event."""
    cache, labels = Cache(), {"app.kubernetes.io/managed-by": "hookwright-api"}
    specs: dict[str, Any] = {
        "invoice.paid": {"meaning": "Text.", "example": '{"paid": 1}'},
        "invoice.sent": {"meaning": "Text.", "example": '{"paid": true}'},
    }
    for name, spec in specs.items():
        cache.see("EventType", {"metadata": meta(name, 1, generation=1), "spec": spec})
    status = {"webhookEndpoints": 2}
    for name, spec in specs.items():
        metadata = meta(name, 2, generation=1, labels=labels)
        cache.see("EventType", {"metadata": metadata, "spec": spec, "status": status})
    for name, spec in specs.items():
        event_type = cache.resource(Key("EventType", "acme", name))
        assert isinstance(event_type, EventType)
        assert (event_type.metadata.labels, event_type.metadata.resource_version) == (labels, "2")
        assert event_type.status.webhook_endpoints == 2
        assert event_type.spec.example == spec["example"]


def test_a_child_seen_again_is_one_child() -> None:
    """Updates do not count twice."""
    cache = Cache()
    for version in range(1, 4):
        cache.see("WebhookEndpoint", endpoint(version))
    assert cache.dependents(PROJECT) == (ORDERS,)


def test_a_project_that_is_being_deleted_takes_no_children() -> None:
    """A Project in deletion gets no new children."""
    cache = Cache()
    assert cache.project("acme", "billing") is None
    cache.see("Project", project(1))
    parent = cache.project("acme", "billing")
    assert parent is not None
    assert parent.uid == "uid-billing"
    cache.see("Project", project(2, deletionTimestamp="2030-01-01T12:00:00Z"))
    assert cache.project("acme", "billing") is None


OWNERSHIP = {
    "labelled and owned": (secret(), False),
    "labelled for us, its ownerReference lost": (secret(owned=""), False),
    "owned by us, its labels lost": (secret(labelled=""), False),
    "owned by us, labelled for another": (secret(labelled="uid-other"), False),
    "labelled and owned by another endpoint": (secret(labelled="uid-other", owned="uid-other"), True),
    "nobody's": (secret(labelled="", owned=""), True),
}


@pytest.mark.parametrize(("body", "foreign"), OWNERSHIP.values(), ids=OWNERSHIP.keys())
def test_whose_a_secret_is(body: dict[str, Any], foreign: bool) -> None:  # noqa: FBT001 - one column of the table
    """A label or an ownerReference identifies an own Secret; the content of a foreign one is hidden."""
    cache = Cache()
    cache.see_secret(body)
    cached_secret = signing_secret(cache)
    assert cached_secret is not None
    assert cached_secret.foreign is foreign
    assert cached_secret.fields == ({} if foreign else {"secret": "whsec_x"})


def test_a_secret_that_lost_its_labels_is_found_again_when_it_is_read() -> None:
    """The watch by label reports it as deleted, although it exists, and a read shows its state."""
    cache = Cache()
    cache.see_secret(secret(3))
    cache.lose_secret(secret(5, labelled=""))
    assert signing_secret(cache) is None
    assert cache.see_secret(secret(5, labelled="")) is not None
    cached_secret = signing_secret(cache)
    assert cached_secret is not None
    assert not cached_secret.foreign


def test_a_secret_that_an_audit_missed_is_found_again_when_it_is_read() -> None:
    """An audit does not know the version of a deletion, so it uses the last seen version."""
    cache = Cache()
    cache.see_secret(secret(5))
    cache.lose_secret({"metadata": {"name": "orders-signing", "namespace": "acme", "uid": "uid-orders-signing"}})
    assert cache.see_secret(secret(4)) is None
    assert cache.see_secret(secret(6, labelled="")) is not None


def test_a_deleted_secret_is_not_brought_back_by_an_answer_from_before() -> None:
    """The answer to a restoration may arrive after the DELETED event."""
    cache = Cache()
    cache.see_secret(secret(3))
    losses = cache.lose_secret(secret(9))
    assert losses is not None
    assert losses.uid == "uid-orders-signing"
    assert cache.see_secret(secret(7)) is None
    assert signing_secret(cache) is None


@pytest.mark.parametrize(
    ("body", "owner"),
    [
        (secret(), ORDERS),
        (secret(owned=""), ORDERS),
        (secret(labelled=""), ORDERS),
        (secret(labelled="uid-unknown", owned=""), None),
        (secret(labelled="", owned=""), None),
    ],
)
def test_a_secret_leads_to_its_owner(body: dict[str, Any], owner: Key | None) -> None:
    """The owner is found by ownerReference or, if that was removed, by label, because it must repair the Secret."""
    cache = Cache()
    cache.see("WebhookEndpoint", endpoint())
    is_new = cache.see_secret(body)
    assert is_new is not None
    assert cache.owner_of(is_new) == owner


@pytest.mark.parametrize("value", ["%%%", base64.b64encode(b"\xff\xfe").decode()])
def test_what_is_no_text_counts_as_empty(value: str) -> None:
    """The plan reports an empty field; a binary field causes no error in the cache."""
    cache = Cache()
    cache.see_secret({**secret(), "data": {"secret": value}})
    cached_secret = signing_secret(cache)
    assert cached_secret is not None
    assert cached_secret.fields == {"secret": ""}


def credential(version: int = 1, **labels: str) -> dict[str, Any]:
    """Return a Secret with the name of a signing Secret that its tenant offers for deliveries."""
    metadata = meta("orders-signing", version, labels={CREDENTIAL_LABEL: "true", **labels})
    return {"metadata": metadata, "data": {"token": base64.b64encode(b"t").decode()}}


def test_a_credential_is_kept_for_the_endpoints_that_name_it() -> None:
    """It stays known if it also has the name of a signing Secret; the operator's own Secrets are no credentials."""
    cache = Cache()
    body = endpoint()
    reference = {"name": "orders-signing", "key": "token"}
    body["spec"]["secretHeaders"] = [{"name": "Authorization", "secretKeyRef": reference}]
    cache.see("WebhookEndpoint", body)
    resource = cache.resource(ORDERS)
    assert isinstance(resource, WebhookEndpoint)
    assert cache.credentials_of(resource) == {}
    shown = cache.see_secret(credential())
    assert shown is not None
    assert cache.credential_users(("acme", "orders-signing")) == (ORDERS,)
    conflict = signing_secret(cache)
    assert conflict is not None
    assert conflict.foreign
    assert cache.credentials_of(resource)["orders-signing"].fields == {"token": "t"}
    cache.see_secret(credential(2, **ours("uid-orders")))
    assert cache.credentials_of(resource) == {}
    cache.see("WebhookEndpoint", endpoint(2))
    assert cache.credential_users(("acme", "orders-signing")) == ()


def test_certificates_of_a_config_map_are_kept_for_the_endpoints_that_trust_it() -> None:
    """A deleted one, or one that lost its label, is not trusted any more. A long field counts as empty."""
    cache = Cache()
    body = endpoint()
    body["spec"]["tls"] = {"caCertificateRefs": [{"name": "ca"}, {"name": "none"}]}
    cache.see("WebhookEndpoint", body)
    resource = cache.resource(ORDERS)
    assert isinstance(resource, WebhookEndpoint)
    for version, text, kept_text in ((1, "PEM", "PEM"), (2, "x" * 20_000, "")):
        config_map = {"metadata": meta("ca", version, labels={CREDENTIAL_LABEL: "true"}), "data": {"ca.crt": text}}
        assert cache.see_secret(config_map, is_config_map=True) is not None
        assert cache.see_secret(config_map, is_config_map=True) is None
        assert cache.authorities_of(resource) == {"ca": kept_text}
    assert list(cache.names("ConfigMap")) == [(("acme", "ca"), "uid-ca")]
    assert cache.credential_users(("acme", "none")) == (ORDERS,)
    assert cache.secret_at("acme", "ca") is None, "a Secret of this name is another object"
    assert cache.lose_secret({"metadata": {**meta("ca", 3), "uid": "uid-older"}}, is_config_map=True) is None
    assert cache.lose_secret({"metadata": meta("ca", 3)}, is_config_map=True) is not None
    assert cache.authorities_of(resource) == {}


def test_names_tell_what_exists_by_kind() -> None:
    """An audit needs name and uid of every object, or of the Secrets if no kind is given."""
    cache = Cache()
    cache.see("Project", project())
    cache.see("WebhookEndpoint", endpoint())
    cache.see_secret(secret())
    assert list(cache.names("WebhookEndpoint")) == [(("acme", "orders"), "uid-orders")]
    assert list(cache.names("ApiKey")) == []
    assert list(cache.names(None)) == [(("acme", "orders-signing"), "uid-orders-signing")]
    assert set(cache) == {PROJECT, ORDERS}


def test_what_was_ever_shown_is_known_be_it_gone_or_unfit() -> None:
    """The operator waits at its start until it has seen every object; deleted objects count as seen."""
    cache = Cache()
    assert not cache.knows("uid-orders")
    cache.see("WebhookEndpoint", endpoint())
    cache.see_secret(secret())
    cache.see("Project", project())
    cache.lose("Project", project(2))
    with pytest.raises(ValueError, match="Timestamp"):
        cache.see("WebhookEndpoint", unreadable(endpoint(name="unfit"), 1))
    assert all(cache.knows(f"uid-{name}") for name in ("orders", "orders-signing", "billing", "unfit"))


def test_the_dead_are_remembered_in_bounded_number() -> None:
    """Deletions do not fill the memory."""
    cache = Cache()
    for number in range(5000):
        cache.lose("WebhookEndpoint", endpoint(number + 1, name=f"e{number}", uid=f"uid-{number}"))
    assert len(cache._dead) <= 4096
    assert cache.see("WebhookEndpoint", endpoint(1, name="e4999", uid="uid-4999")) is None

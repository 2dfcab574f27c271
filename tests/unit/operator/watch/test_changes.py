"""Objects of the watches are reconciled after every list is complete, and not before."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from support.polling import until

from hookwright_operator.watch.cache import Cache
from hookwright_operator.watch.changes import Changes
from hookwright_operator.watch.kopf_informer import own
from hookwright_operator.watch.objects import Key, WatchedKind, ours
from hookwright_operator.watch.work_queue import WorkQueue

PROJECT = Key("Project", "acme", "billing")
ORDERS = Key("WebhookEndpoint", "acme", "orders")


def body(name: str, **more: Any) -> dict[str, Any]:
    """Return an object as a watch shows it."""
    metadata = {"name": name, "namespace": "acme", "uid": f"uid-{name}", "resourceVersion": "1"}
    return {"metadata": {**metadata, **more.pop("metadata", {})}, **more}


def version(number: int) -> dict[str, str]:
    """Return the metadata of a later version."""
    return {"resourceVersion": str(number)}


ENDPOINT = body(
    "orders", spec={"projectRef": {"name": "billing"}, "url": "https://a.example/", "events": ["delivered"]}
)
SECRET = body("orders-signing", metadata={"labels": ours("uid-orders")}, data={})


@pytest.fixture
def turns() -> list[Key]:
    """Return the list of keys that were reconciled."""
    return []


@pytest_asyncio.fixture
async def changes(turns: list[Key]) -> AsyncIterator[Changes]:
    """Yield the object that the handlers call, with a running queue."""

    async def reconcile(key: Key) -> None:
        turns.append(key)

    queue = WorkQueue()
    working = asyncio.create_task(queue.run(reconcile))
    yield Changes(Cache(), queue)
    working.cancel()


async def test_until_everything_was_shown_nothing_is_reconciled(changes: Changes, turns: list[Key]) -> None:
    """An endpoint that arrives before its Project has no fault, and no status may report one."""
    changes.apply("WebhookEndpoint", None, ENDPOINT)
    changes.apply(None, None, SECRET)
    await changes.queue.settled()

    assert turns == []
    assert changes.cache.resource(ORDERS) is not None
    assert changes.cache.secret_at("acme", "orders-signing") is not None


async def test_after_that_every_change_is(changes: Changes, turns: list[Key]) -> None:
    """A Secret's change reconciles its owner, and a Project's change its children."""
    changes.apply("WebhookEndpoint", None, ENDPOINT)
    changes.complete = True

    changes.apply(None, "ADDED", SECRET)
    await changes.queue.settled()
    assert turns == [ORDERS]

    changes.apply("Project", "ADDED", body("billing", spec={}))
    await changes.queue.settled()
    assert set(turns[1:]) == {PROJECT, ORDERS}


HEADER = {"name": "Authorization", "secretKeyRef": {"name": "api", "key": "token"}}


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (None, {"secretHeaders": [HEADER]}),
        (None, {"tls": {"clientCertificateRef": {"name": "api"}}}),
        ("ConfigMap", {"tls": {"caCertificateRefs": [{"name": "api"}]}}),
    ],
)
async def test_a_credential_s_change_reconciles_the_endpoints_that_name_it(
    changes: Changes, turns: list[Key], kind: WatchedKind, spec: dict[str, Any]
) -> None:
    """A new value, a removed label and a deletion are in effect at once, and other endpoints are not disturbed."""
    user = body("user", spec={**ENDPOINT["spec"], **spec})
    changes.apply("WebhookEndpoint", None, ENDPOINT)
    changes.apply("WebhookEndpoint", None, user)
    changes.complete = True
    labels = {"hookwright.dev/delivery-credential": "true"}
    for number, change in enumerate(("ADDED", "MODIFIED", "DELETED"), 1):
        changes.apply(kind, change, body("api", metadata={"labels": labels, **version(number)}, data={}))
        await changes.queue.settled()
        assert turns == [Key("WebhookEndpoint", "acme", "user")] * number


async def test_what_is_known_already_has_no_turn(changes: Changes, turns: list[Key]) -> None:
    """The answer to the operator's own write has shown it, and the writer schedules its next reconcile itself."""
    changes.complete = True
    changes.cache.see("WebhookEndpoint", ENDPOINT)
    changes.cache.see_secret(SECRET)

    changes.apply("WebhookEndpoint", "MODIFIED", ENDPOINT)
    changes.apply(None, "MODIFIED", SECRET)
    await changes.queue.settled()
    assert turns == []

    changes.apply("WebhookEndpoint", "MODIFIED", {**ENDPOINT, "metadata": {**ENDPOINT["metadata"], **version(2)}})
    await changes.queue.settled()
    assert turns == [ORDERS]


async def test_a_project_whose_counts_change_has_its_turn_alone(changes: Changes, turns: list[Key]) -> None:
    """Otherwise each change of 10,000 children would reconcile all of them; a deletion does reconcile them."""
    changes.apply("WebhookEndpoint", None, ENDPOINT)
    changes.apply("Project", None, body("billing", spec={}))
    changes.complete = True

    counts = body("billing", metadata=version(2), spec={}, status={"webhookEndpoints": 1})
    changes.apply("Project", "MODIFIED", counts)
    await changes.queue.settled()
    assert turns == [PROJECT]

    going = body("billing", metadata={**version(3), "deletionTimestamp": "2030-01-31T12:00:00Z"}, spec={})
    changes.apply("Project", "MODIFIED", going)
    await changes.queue.settled()
    assert set(turns[1:]) == {PROJECT, ORDERS}


async def test_what_was_deleted_before_everything_was_shown_is_gone(changes: Changes) -> None:
    """The object was listed, and its deletion arrived before the rest of the list was processed."""
    changes.apply("WebhookEndpoint", None, ENDPOINT)
    changes.apply("WebhookEndpoint", "DELETED", ENDPOINT)

    assert changes.cache.resource(ORDERS) is None
    assert changes.cache.knows("uid-orders")


def test_what_is_kept_of_an_object_holds_on_to_nothing_of_its_list() -> None:
    """One kept string keeps its memory page, and a list of 10,000 objects has a string in every page."""
    url = "https://a.example/" + "x" * 20
    listing = body("orders", metadata={"managedFields": [{"manager": "kubectl"}]}, spec={"url": url})

    remainder = own(None, listing)

    assert remainder == body("orders", spec={"url": url})
    assert remainder["spec"]["url"] is not url


async def test_the_endpoints_that_name_an_event_type_are_reconciled_when_it_appears_or_goes(
    changes: Changes, turns: list[Key]
) -> None:
    """Endpoints heal, and a change of the count reconciles none of them."""
    paid = Key("EventType", "acme", "invoice.paid")
    event_type = body("invoice.paid", spec={"meaning": "Paid."})
    naming = {**ENDPOINT, "spec": {**ENDPOINT["spec"], "events": ["invoice.paid"]}}
    changes.apply("WebhookEndpoint", None, naming)
    changes.complete = True
    for change, document, expected in (
        ("ADDED", event_type, {paid, ORDERS}),
        ("MODIFIED", {**event_type, "metadata": {**event_type["metadata"], **version(2)}}, {paid}),
        ("DELETED", {**event_type, "metadata": {**event_type["metadata"], **version(3)}}, {paid, ORDERS}),
    ):
        turns.clear()
        changes.apply("EventType", change, document)
        await changes.queue.settled()
        assert set(turns) == expected


async def test_an_event_type_is_reconciled_when_an_endpoint_begins_or_ceases_to_name_it(
    changes: Changes, turns: list[Key]
) -> None:
    """Its count is current, also if the answer to an own write showed the change before the watch."""
    paid = Key("EventType", "acme", "invoice.paid")
    changes.complete = True
    changes.apply("WebhookEndpoint", "ADDED", ENDPOINT)
    await until(lambda: PROJECT in turns)
    turns.clear()
    naming = {**ENDPOINT, "spec": {**ENDPOINT["spec"], "events": ["invoice.paid"]}}
    naming["metadata"] = {**naming["metadata"], **version(2)}
    changes.cache.see("WebhookEndpoint", naming)
    changes.apply("WebhookEndpoint", "MODIFIED", naming)
    await until(lambda: bool(turns))
    assert turns == [paid]

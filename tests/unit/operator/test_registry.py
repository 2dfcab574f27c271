"""The registry that intake and delivery use."""

from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwright_operator.registry import Endpoint, ProjectSettings, Registry

ORDERS = Endpoint(
    uid="uid-1",
    namespace="acme",
    name="orders",
    project="billing",
    url="https://example.com/",
    events=frozenset({"delivered", "bounced"}),
    secrets=("whsec_x",),
)


class Ears:
    """Records the calls of a listener."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def endpoint_changed(self, endpoint: Endpoint) -> None:
        """Record a change."""
        self.heard.append(f"changed {endpoint.uid}")

    def endpoint_gone(self, uid: str) -> None:
        """Record a removal."""
        self.heard.append(f"gone {uid}")


def subscribers(registry: Registry, event: str = "delivered", namespace: str = "acme") -> list[str]:
    """Return the uids of the endpoints that subscribe to an event of the project."""
    return [endpoint.uid for endpoint in registry.subscribers(namespace, "billing", event)]


def test_an_endpoint_is_found_by_uid_by_name_and_by_what_it_subscribes_to() -> None:
    """Every index leads to the same snapshot, only in its own namespace and for its own events."""
    registry = Registry()
    registry.put(ORDERS)
    assert registry.get("uid-1") is ORDERS
    assert registry.find("acme", "orders") is ORDERS
    assert registry.find("other", "orders") is None
    assert subscribers(registry) == ["uid-1"]
    assert subscribers(registry, "opened") == []
    assert subscribers(registry, namespace="other") == []


def test_a_change_replaces_what_was_known() -> None:
    """The endpoint no longer gets events that it has unsubscribed from."""
    registry = Registry()
    registry.put(ORDERS)
    registry.put(replace(ORDERS, events=frozenset({"opened"})))
    assert subscribers(registry) == []
    assert subscribers(registry, "opened") == ["uid-1"]
    assert len(registry) == 1


def test_suspended_and_blocked_endpoints_take_deliveries_but_send_none() -> None:
    """Deliveries of such an endpoint stay pending and are not lost."""
    registry = Registry()
    blocked_endpoint = replace(ORDERS, block_reason="InsecureUrl")
    for value in (replace(ORDERS, suspend=True), blocked_endpoint, replace(ORDERS, secrets=())):
        registry.put(value)
        assert subscribers(registry) == ["uid-1"]
        assert not value.sendable
    assert ORDERS.sendable


def test_listeners_are_told_of_changes_and_of_nothing_else() -> None:
    """Neither an unchanged endpoint nor the removal of an unknown one calls a listener."""
    registry, ears = Registry(), Ears()
    registry.listen(ears)
    registry.put(ORDERS)
    registry.put(replace(ORDERS))
    registry.put(replace(ORDERS, suspend=True))
    registry.remove("uid-1")
    registry.remove("uid-1")
    assert ears.heard == ["changed uid-1", "changed uid-1", "gone uid-1"]


def test_the_end_of_a_predecessor_leaves_its_successor_findable() -> None:
    """A name may be in use again before the old endpoint is removed."""
    registry = Registry()
    registry.put(ORDERS)
    registry.put(replace(ORDERS, uid="uid-2"))
    registry.remove("uid-1")
    snapshot = registry.find("acme", "orders")
    assert snapshot is not None
    assert snapshot.uid == "uid-2"
    assert subscribers(registry) == ["uid-2"]


def test_projects_open_and_close() -> None:
    """Closing a project that was never open is no error."""
    registry = Registry()
    assert not registry.project("acme", "billing")
    registry.put_project("acme", "billing")
    assert registry.project("acme", "billing")
    assert not registry.project("other", "billing")
    registry.remove_project("acme", "billing")
    registry.remove_project("acme", "billing")
    assert not registry.project("acme", "billing")


@pytest.mark.parametrize("endpoint_first", [True, False])
def test_an_endpoint_has_the_setting_of_its_project(*, endpoint_first: bool) -> None:
    """The setting reaches endpoints before and after it, also those that are registered again; others keep theirs."""
    registry, omit = Registry(), ProjectSettings(omits_payloads=True)
    steps = (partial(registry.put, ORDERS), partial(registry.put_project, "acme", "billing", omit))
    for step in steps if endpoint_first else reversed(steps):
        step()
    assert registry.omits_payloads("acme", "billing")
    registry.put(replace(ORDERS, url="https://example.com/new"))
    registry.put(replace(ORDERS, uid="uid-2", name="other", project="payroll"))
    assert [endpoint.omits_responses for endpoint in registry] == [True, False]
    registry.put_project("acme", "billing")
    assert not registry.omits_payloads("acme", "billing")
    assert [endpoint.omits_responses for endpoint in registry] == [False, False]


def test_the_payloads_of_an_unknown_project_are_omitted() -> None:
    """Its settings are not known, and could forbid them."""
    assert Registry().omits_payloads("acme", "billing")


def test_a_snapshot_shows_no_secret() -> None:
    """Neither a log nor a traceback may contain a secret."""
    assert "whsec_x" not in repr(ORDERS)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.booleans())))
def test_every_index_agrees_with_what_was_put_and_removed(steps: list[tuple[int, int, bool]]) -> None:
    """After any sequence of changes the indices contain exactly the existing endpoints."""
    registry, expected = Registry(), dict[str, Endpoint]()
    for number, project, present in steps:
        record = replace(ORDERS, uid=f"uid-{number}", name=f"e{number}", project=f"p{project}")
        if present:
            registry.put(record)
            expected[record.uid] = record
        else:
            registry.remove(record.uid)
            expected.pop(record.uid, None)
    assert {endpoint.uid: endpoint for endpoint in registry} == expected
    for project in range(3):
        listing = {endpoint.uid for endpoint in registry.subscribers("acme", f"p{project}", "bounced")}
        assert listing == {uid for uid, record in expected.items() if record.project == f"p{project}"}
    for record in expected.values():
        assert registry.find("acme", record.name) == record

"""The table of connections: admission, and the idle connection that is closed for a new one."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookwright_runtime.connections import ConnectionBounds, Connections, Holder

PROXY = ipaddress.ip_network("192.0.2.0/28")


def table(total: int = 4, per_address: int = 2) -> Connections[str]:
    """Return a table with small bounds and one trusted network."""
    return Connections(ConnectionBounds(total, per_address, (PROXY,)))


def begin(connections: Connections[str], name: str, peer: str | None) -> None:
    """Add a connection and begin a request on it."""
    holder, _ = connections.add(name, peer)
    assert holder is not None
    holder.idle.pop(name)


@pytest.mark.parametrize(
    ("busy", "peer", "is_admitted"),
    [
        (["198.51.100.1"], "198.51.100.1", True),
        (["198.51.100.1"] * 2, "198.51.100.1", False),
        (["198.51.100.1"] * 2, "::ffff:198.51.100.1", False),
        (["198.51.100.1"] * 2, "198.51.100.2", True),
        (["198.51.100.1", "198.51.100.2", "198.51.100.3", "198.51.100.4"], "198.51.100.5", False),
        (["2001:db8::1", "2001:db8::2"], "2001:db8::3", False),
        (["2001:db8::1", "2001:db8::2"], "2001:db8:0:1::3", True),
        (["fe80::1%eth0"] * 2, "fe80::1%eth1", False),
        (["192.0.2.1"] * 3, "192.0.2.1", True),
        (["192.0.2.1"] * 4, "192.0.2.1", False),
        ([None] * 2, "no address", False),
    ],
)
def test_a_busy_connection_makes_no_room(busy: list[str | None], peer: str, *, is_admitted: bool) -> None:
    """A new connection is admitted below both bounds; a trusted proxy has only the bound of all."""
    connections = table()
    for number, address in enumerate(busy):
        begin(connections, f"c{number}", address)
    holder, leaving = connections.add("new", peer)
    assert (holder is not None, leaving) == (is_admitted, None)


def test_the_oldest_idle_connection_of_the_address_makes_room() -> None:
    """At the limit of an address, its oldest idle connection is closed; other addresses keep theirs."""
    connections = table()
    for name, peer in (("other", "198.51.100.2"), ("first", "198.51.100.1"), ("second", "198.51.100.1")):
        connections.add(name, peer)
    assert connections.add("third", "198.51.100.1")[1] == "first"
    assert connections.count == 3


def test_the_address_with_the_most_idle_connections_makes_room() -> None:
    """At the limit of all, an address with few connections keeps them."""
    connections = table(total=3)
    for name, peer in (("lone", "198.51.100.1"), ("a", "198.51.100.2"), ("b", "198.51.100.2")):
        connections.add(name, peer)
    assert connections.add("new", "198.51.100.3")[1] == "a"


@pytest.mark.parametrize(
    ("newcomer", "expected"),
    [
        pytest.param("198.51.100.3", "a", id="fewer connections than incomplete requests"),
        pytest.param("198.51.100.2", None, id="as many connections as incomplete requests"),
    ],
)
def test_without_an_idle_connection_the_oldest_incomplete_request_makes_room(
    newcomer: str, expected: str | None
) -> None:
    """It is one of the address with the most of them, if the new one's address has fewer connections."""
    connections = table(total=3)
    for name, peer in (("lone", "198.51.100.2"), ("a", "198.51.100.1"), ("b", "198.51.100.1")):
        holder, _ = connections.add(name, peer)
        assert holder is not None
        holder.idle.pop(name)
        holder.arriving[name] = None
    holder, leaving = connections.add("new", newcomer)
    assert (holder is not None, leaving) == (expected is not None, expected)
    assert connections.count == 3


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["begin", "rest", "open", "close"]))))
def test_the_table_never_exceeds_its_bounds(steps: list[tuple[int, str]]) -> None:
    """The counts always equal the open connections."""
    connections = table()
    opened: dict[str, tuple[Holder[str], str]] = {}
    for number, (address, action) in enumerate(steps):
        mine = [name for name, (_, peer) in opened.items() if peer == f"198.51.100.{address}"]
        if action == "open":
            holder, leaving = connections.add(f"c{number}", f"198.51.100.{address}")
            if holder is not None:
                opened.pop(leaving or "", None)
                opened[f"c{number}"] = (holder, f"198.51.100.{address}")
        elif mine and action == "close":
            connections.remove(mine[0], opened.pop(mine[0])[0])
        elif mine and action == "begin":
            opened[mine[0]][0].idle.pop(mine[0], None)
        elif mine:
            opened[mine[0]][0].idle[mine[0]] = None
        assert connections.count == len(opened) <= 4
        for peer in {peer for _, peer in opened.values()}:
            hold = [holder for holder, item in opened.values() if item == peer]
            assert len(hold) == hold[0].count <= 2

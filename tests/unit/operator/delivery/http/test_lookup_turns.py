"""The order of look-ups: bounds for each namespace, turns between them, and places kept for newcomers."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from hookwright_operator.delivery.http.lookup_turns import LookupTurns


def turns(*, places: int = 8, per_namespace: int = 3, waiting: int = 100) -> LookupTurns[str]:
    """Return places for look-ups that are named by their namespace."""
    return LookupTurns(places, per_namespace, waiting)


def begun(them: LookupTurns[str]) -> Counter[str]:
    """Begin all look-ups that may begin."""
    return Counter(iter(them.begin, None))


def test_a_namespace_has_a_bound() -> None:
    """Further look-ups wait until one of the same namespace ends."""
    them = turns()
    for _ in range(10):
        assert them.add("hostile", "hostile")
    assert begun(them) == {"hostile": 3}
    assert them.share_used("hostile")
    them.end("hostile")
    assert begun(them) == {"hostile": 1}


def test_half_of_the_places_serve_namespaces_without_a_look_up() -> None:
    """Two namespaces that ask for many places fill half of them; five others still get one each."""
    them = turns()
    for namespace in ("a", "b") * 10:
        them.add(namespace, namespace)
    assert begun(them).total() == 4
    for namespace in "cdefg":
        them.add(namespace, namespace)
    assert begun(them) == dict.fromkeys("cdef", 1)


def test_namespaces_take_turns() -> None:
    """A namespace that waits with one look-up is not behind all look-ups of another one."""
    them = turns(places=2, per_namespace=1)
    for namespace in ("a", "a", "a", "b", "c"):
        them.add(namespace, namespace)
    order = []
    for _ in range(5):
        order.append(them.begin())
        them.end(order[-1] or "")
    assert order == ["a", "b", "c", "a", "a"]


def test_the_queue_of_a_namespace_is_bounded() -> None:
    """Surplus look-ups are refused, and other namespaces are not affected."""
    them = turns(waiting=2)
    assert [them.add("a", "a") for _ in range(3)] == [True, True, False]
    assert them.add("b", "b")


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.booleans()), max_size=200))
def test_the_bounds_hold_in_any_order_and_nothing_is_forgotten(steps: list[tuple[str, bool]]) -> None:
    """Look-ups never exceed all places or those of a namespace, and every added look-up finally begins."""
    them, running, added, started = turns(places=6, per_namespace=2), Counter[str](), 0, 0
    for namespace, ends in steps:
        if ends and running[namespace]:
            running[namespace] -= 1
            them.end(namespace)
        else:
            added += them.add(namespace, namespace)
        fresh = begun(them)
        started += fresh.total()
        running += fresh
        assert running.total() <= 6
        assert all(count <= 2 for count in running.values())
    while running.total():
        namespace = next(iter(running.elements()))
        running[namespace] -= 1
        them.end(namespace)
        fresh = begun(them)
        started += fresh.total()
        running += fresh
    assert started == added

"""Tenants share a transaction that cannot take all calls."""

from hypothesis import given
from hypothesis import strategies as st

from hookwright_operator.store.group_commit import Operation, WaitingCall, split

OPERATION: Operation[int, int] = Operation("write", lambda _, numbers: numbers)


def calls(*given: tuple[str, int]) -> list[WaitingCall]:
    """Return calls in the order of arrival, each with its number."""
    values = [(OPERATION, number, weight, 1, tenant, None, None) for number, (tenant, weight) in enumerate(given)]
    return [WaitingCall._make(call) for call in values]


def test_a_light_call_joins_the_next_transaction_past_all_calls_of_a_heavy_tenant() -> None:
    """The transaction takes the heavy tenant's oldest call, and the tenant's other calls wait."""
    waiting = calls(*[("heavy", 500)] * 20, ("light", 2))

    go, wait = split(waiting, room=400)

    assert go == [waiting[0], waiting[-1]]
    assert wait == waiting[1:-1]


def test_the_oldest_call_goes_however_heavy_it_is() -> None:
    """A call that is heavier than the limit goes alone."""
    waiting = calls(("heavy", 5000), ("light", 1))

    assert split(waiting, room=100) == (waiting, [])


def test_calls_of_the_process_itself_go_with_the_next_transaction() -> None:
    """A heavy claim, and the results and claim leases behind it, do not wait for a tenant's calls."""
    waiting = calls(*[("heavy", 500)] * 20, ("", 4096), ("", 2), ("", 1))

    go, wait = split(waiting, room=400)

    assert go == [waiting[0], *waiting[20:]]
    assert wait == waiting[1:20]


def test_tenants_have_equal_shares() -> None:
    """Two tenants with many calls have equal shares."""
    waiting = calls(*[("first", 10)] * 50, *[("second", 10)] * 50)

    go, _ = split(waiting, room=190)

    assert [call.tenant for call in go].count("second") == 10


CALLS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 50)), min_size=1, max_size=30)


@given(CALLS, st.integers(0, 100))
def test_every_call_goes_once_and_a_tenants_calls_go_in_their_order(given: list[tuple[str, int]], room: int) -> None:
    """No call is lost, no call overtakes an older call of its tenant, and a transaction keeps its limit."""
    waiting, is_gone = calls(*given), list[WaitingCall]()
    while waiting:
        go, waiting = split(waiting, room=room)
        assert sum(call.weight for call in go[1:]) <= room
        is_gone += go
    assert sorted(is_gone, key=lambda call: call.payload) == calls(*given)
    for tenant in "abc":
        numbers = [call.payload for call in is_gone if call.tenant == tenant]
        assert numbers == sorted(numbers)

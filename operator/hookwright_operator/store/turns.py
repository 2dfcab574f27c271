"""Pure: the choice of the waiting calls that share the next transaction.

The oldest call is always chosen, so every call runs eventually. Calls without a tenant are always chosen, too: claims,
results and claim leases of this replica, on which the deliveries of all tenants depend. Other calls join them up to a
weight, tenants with the lowest total weight first. So a light call waits for one transaction, however much another
tenant has requested.
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar


class Waiting(Protocol):
    """A call that waits for a transaction."""

    @property
    def tenant(self) -> str:
        """The tenant that requested it; empty for this replica itself."""

    @property
    def weight(self) -> int:
        """About how many rows it writes."""


C = TypeVar("C", bound=Waiting)


def split(waiting: Sequence[C], *, room: int) -> tuple[list[C], list[C]]:
    """Choose the calls of the next transaction.

    Args:
        waiting: at least one call, in the order of arrival.
        room: the weight of tenants' calls beside the oldest.

    Returns:
        The chosen calls and the calls that still wait, both in the order of arrival; so are the calls of one tenant.
    """
    totals: dict[str, int] = {}
    sums = []
    for call in waiting:
        totals[call.tenant] = total = totals.get(call.tenant, 0) + call.weight
        sums.append(total)
    go = {place for place, call in enumerate(waiting) if not call.tenant} | {0}
    for place in sorted(set(range(len(waiting))) - go, key=sums.__getitem__):
        room -= waiting[place].weight
        if room < 0:
            break
        go.add(place)
    return (
        [call for place, call in enumerate(waiting) if place in go],
        [call for place, call in enumerate(waiting) if place not in go],
    )

"""File descriptors of this process: the limit and its division among the uses.

Each attempt, each idle connection to a receiver and each connection of the intake needs a descriptor. Their limits come
from one budget, so that no use can exhaust the descriptors of the others.
"""

from typing import Final, NamedTuple

from hookwright_operator.errors import SettingsError
from hookwright_runtime.descriptors import LEAST_CONNECTIONS, descriptor_limit
from hookwright_runtime.endpoint_tests import TESTS_AT_ONCE

OWN: Final = 320 + TESTS_AT_ONCE
"""Descriptors reserved for the process itself: database, API server, name look-ups (one each), health, logs, tests."""
_PARTS: Final = 4
"""Parts of the other descriptors: two for attempts, which open two sockets while they connect, one per other use."""
_LEAST_IDLE: Final = 256


class Budget(NamedTuple):
    """Limits of descriptors by use.

    Attributes:
        limit: open files that the system allows this process.
        attempts: concurrent attempts; each may open two sockets while it connects.
        idle: connections to receivers that are kept for the next attempt.
        intake: connections of the intake.
    """

    limit: int
    attempts: int
    idle: int
    intake: int


def budget(limit: int | None = None) -> Budget:
    """Divide the descriptors: half for attempts, a quarter for idle connections, a quarter for the intake.

    Args:
        limit: open files that the system allows; None: the soft limit of this process.
    """
    if limit is None:
        limit = descriptor_limit()
    part = max(0, limit - OWN) // _PARTS
    return Budget(limit, attempts=part, idle=part, intake=part)


def fit(max_in_flight: int, available: Budget, *, declared: bool) -> int:
    """Return how many concurrent attempts fit into the budget.

    Args:
        max_in_flight: value of ``HOOKWRIGHT_MAX_IN_FLIGHT``.
        available: the descriptors of this process.
        declared: whether the environment sets the value. A default that does not fit is lowered.

    Raises:
        SettingsError: a declared value does not fit, or no attempt fits.
    """
    needed = max_in_flight * _PARTS + OWN
    if available.attempts < 1:
        raise SettingsError(
            f"the system allows this process {available.limit} open files; it needs at least {OWN + _PARTS}, "
            f"and {needed} for HOOKWRIGHT_MAX_IN_FLIGHT={max_in_flight}: raise the limit of open files (ulimit -n)"
        )
    if max_in_flight <= available.attempts:
        return max_in_flight
    if declared:
        raise SettingsError(
            f"HOOKWRIGHT_MAX_IN_FLIGHT is {max_in_flight} and needs {needed} open files; the system allows this "
            f"process {available.limit}: set it to {available.attempts} or less, or raise the limit of open files "
            f"(ulimit -n) to {needed}"
        )
    return available.attempts


def idle_connections(max_in_flight: int, available: Budget) -> int:
    """Return the limit of idle connections to receivers: as many as attempts, at least 256 if they fit."""
    return min(available.idle, max(_LEAST_IDLE, max_in_flight))


def intake_connections(wanted: int, available: Budget) -> int:
    """Return the limit of intake connections: ``wanted``, or fewer if the descriptors do not suffice."""
    return max(LEAST_CONNECTIONS, min(wanted, available.intake))

"""File descriptors of this process: the limit and its division among the uses.

Each attempt, each idle connection to a receiver, each connection of the intake, each name look-up and each test of an
endpoint needs descriptors. Their limits come from one budget, so that all of them at once fit below the limit of the
process, and no use can exhaust the descriptors of the others.
"""

from itertools import count
from typing import Final, NamedTuple

from hookwright_operator.delivery.http.resolver import SOCKETS
from hookwright_runtime.bounds import LOOKUPS, TESTS
from hookwright_runtime.descriptors import LEAST_CONNECTIONS, descriptor_limit
from hookwright_runtime.errors import SettingsError
from hookwright_runtime.protocol import MOST_LINGERING
from hookwright_runtime.server import HEALTH_BOUNDS

API_SERVER: Final = 50
"""Connections to the API server for reviews, and as many for all other requests."""
PROCESS: Final = 60 + 2 * API_SERVER
"""Descriptors for requests to the API server, watches of the cluster, database, traces, logs and event loop."""
WATCHES: Final = 4
"""Watches of a namespace that ``HOOKWRIGHT_WATCH_NAMESPACES`` names, one for each kind; each has a connection."""
LISTENERS: Final = HEALTH_BOUNDS.total + 2 * MOST_LINGERING
"""Connections for health and metrics, and refused connections of both listeners that get an answer."""
_LOOKUPS_PART: Final = 8
_TESTS_PART: Final = 64
"""Look-ups and tests take the limit divided by this, until they reach their own bounds."""
_PARTS: Final = SOCKETS + 2
"""Parts of the other descriptors: the sockets of an attempt, one idle connection and one connection of the intake."""
_LEAST_IDLE: Final = 256


class DescriptorBudget(NamedTuple):
    """Limits of descriptors by use.

    Attributes:
        limit: open files that the system allows this process.
        own: descriptors of the process itself and its listeners.
        lookups: concurrent name look-ups; each needs one descriptor.
        tests: concurrent tests of endpoints; each may open `SOCKETS` while it connects.
        attempts: concurrent attempts; each may open `SOCKETS` while it connects. At 0 the limit is too small.
        idle: connections to receivers that are kept for the next attempt.
        intake: connections of the intake.
    """

    limit: int
    own: int
    lookups: int
    tests: int
    attempts: int
    idle: int
    intake: int

    @property
    def reduced(self) -> bool:
        """Whether the limit leaves fewer look-ups or tests than their own bounds."""
        return self.lookups < LOOKUPS.at_once or self.tests < TESTS.total


def budget(limit: int | None = None, *, namespaces: int = 0) -> DescriptorBudget:
    """Divide the descriptors.

    Args:
        limit: open files that the system allows; None: the soft limit of this process.
        namespaces: number of namespaces in ``HOOKWRIGHT_WATCH_NAMESPACES``.
    """
    return _divide(descriptor_limit() if limit is None else limit, PROCESS + LISTENERS + WATCHES * namespaces)


def _divide(limit: int, own: int) -> DescriptorBudget:
    lookups = min(LOOKUPS.at_once, limit // _LOOKUPS_PART)
    tests = min(TESTS.total, limit // _TESTS_PART)
    left = limit - own - lookups - SOCKETS * tests
    # The intake has its least number of connections under a small limit too, and the other uses share the rest.
    intake = max(LEAST_CONNECTIONS, left // _PARTS)
    part = max(0, left - intake) // (_PARTS - 1)
    return DescriptorBudget(limit, own, lookups, tests, attempts=part, idle=part, intake=intake)


def fit(max_in_flight: int, available: DescriptorBudget, *, declared: bool) -> int:
    """Return how many concurrent attempts fit into the budget.

    Args:
        max_in_flight: value of ``HOOKWRIGHT_MAX_IN_FLIGHT``.
        available: the descriptors of this process.
        declared: whether the environment sets the value. A default that does not fit is lowered.

    Raises:
        SettingsError: a declared value does not fit, or no attempt fits.
    """
    if max_in_flight <= available.attempts:
        return max_in_flight
    needed = _least_limit(max_in_flight, available.own)
    if available.attempts < 1:
        raise SettingsError(
            f"the system allows this process {available.limit} open files; it needs at least "
            f"{_least_limit(1, available.own)}, and {needed} for HOOKWRIGHT_MAX_IN_FLIGHT={max_in_flight}: raise the "
            "limit of open files (ulimit -n)"
        )
    if declared:
        raise SettingsError(
            f"HOOKWRIGHT_MAX_IN_FLIGHT is {max_in_flight} and needs {needed} open files; the system allows this "
            f"process {available.limit}: set it to {available.attempts} or less, or raise the limit of open files "
            f"(ulimit -n) to {needed}"
        )
    return available.attempts


def _least_limit(attempts: int, own: int) -> int:
    """Return the smallest limit of open files that is enough for a number of attempts."""
    return next(limit for limit in count(own + attempts * _PARTS) if _divide(limit, own).attempts >= attempts)


def idle_connections(max_in_flight: int, available: DescriptorBudget) -> int:
    """Return the limit of idle connections to receivers: as many as attempts, at least 256 if they fit."""
    return min(available.idle, max(_LEAST_IDLE, max_in_flight))


def intake_connections(wanted: int, available: DescriptorBudget) -> int:
    """Return the limit of intake connections: ``wanted``, or fewer if the descriptors do not suffice."""
    return min(wanted, available.intake)

"""File descriptors of this process: the limit, and how many connections fit below it."""

import resource
from typing import Final

LEAST_CONNECTIONS: Final = 64
"""A listener accepts that many connections, however low the limit is."""


def raise_descriptor_limit() -> int:
    """Raise the soft limit of file descriptors to the hard limit, and return it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return descriptor_limit()


def descriptor_limit() -> int:
    """Return how many file descriptors this process may have open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def connections_that_fit(wanted: int, *, beside: int) -> int:
    """Return how many connections a listener may have: ``wanted``, or fewer if the descriptors do not suffice.

    Args:
        wanted: the bound that the settings give.
        beside: descriptors that everything else in the process may need.
    """
    return max(LEAST_CONNECTIONS, min(wanted, descriptor_limit() - beside))

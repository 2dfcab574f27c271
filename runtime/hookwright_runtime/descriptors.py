"""File descriptors of this process: the limit, and how many connections fit below it."""

import resource
from typing import Final

LEAST_CONNECTIONS: Final = 64
"""A listener accepts that many connections, however low the limit is."""
_LARGEST: Final = 1_048_576
"""The limit is raised to this value at most: some systems allow 2**30, and tables grow with the limit."""


def raise_descriptor_limit() -> int:
    """Raise the soft limit of file descriptors to the hard limit if the system allows it; return the soft limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _LARGEST if hard == resource.RLIM_INFINITY else min(hard, _LARGEST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            return soft
    return descriptor_limit()


def descriptor_limit() -> int:
    """Return how many file descriptors this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _LARGEST if soft == resource.RLIM_INFINITY else soft


def connections_that_fit(wanted: int, *, beside: int) -> int:
    """Return how many connections a listener may have: ``wanted``, or fewer if the descriptors do not suffice.

    Args:
        wanted: the bound that the settings give.
        beside: descriptors that everything else in the process may need.
    """
    return max(LEAST_CONNECTIONS, min(wanted, descriptor_limit() - beside))

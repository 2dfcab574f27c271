"""File descriptors of this process: the limit, and how many connections fit below it."""

import resource
from typing import Final

LEAST_CONNECTIONS: Final = 64
"""A listener accepts at least that many connections; a process whose limit is too low for them must not start."""
_LARGEST: Final = 1_048_576
"""The limit is raised to this value at most: some systems allow 2**30, and tables grow with the limit."""


class TooFewDescriptorsError(Exception):
    """The system allows this process too few open files; the message names the limit and the least one."""


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


def connections_that_fit(wanted: int, *, beside: int, each: int = 1) -> int:
    """Return how many connections a listener may have: ``wanted``, or fewer if the descriptors do not suffice.

    Args:
        wanted: the bound that the settings give, at least `LEAST_CONNECTIONS`.
        beside: descriptors that everything else in the process may need.
        each: descriptors that a connection may need, its own one included.

    Raises:
        TooFewDescriptorsError: not even `LEAST_CONNECTIONS` fit.
    """
    limit = descriptor_limit()
    fitting = (limit - beside) // each
    if fitting < LEAST_CONNECTIONS:
        needed = beside + LEAST_CONNECTIONS * each
        raise TooFewDescriptorsError(
            f"the system allows this process {limit} open files; it needs at least {needed}: "
            "raise the limit of open files (ulimit -n)"
        )
    return min(wanted, fitting)

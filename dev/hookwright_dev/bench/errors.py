"""Errors of the benchmark."""

from hookwright_dev.errors import DevError


class BenchError(DevError):
    """A void run: an event or delivery was refused, lost or repeated, or did not arrive in time."""

"""What can go wrong in a benchmark."""

from hookwright_dev.errors import DevError


class BenchError(DevError):
    """A run is void: something was refused, lost or delivered twice, or did not come in time."""

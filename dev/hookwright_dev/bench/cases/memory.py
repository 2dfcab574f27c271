"""The operator's resident memory, idle and after load."""

import time

from hookwright_dev.bench.cases.options import Options
from hookwright_dev.bench.figures import MEBIBYTES, Measure
from hookwright_dev.bench.site import running

_SETTLE: float = 5.0
_RATE: float = 500.0
_FULL_SECONDS: float = 600.0


def measure(options: Options) -> list[Measure]:
    """Measure without any resource, and after load: minutes of it in a full run."""
    with running() as site:
        time.sleep(_SETTLE)
        idle = site.resident()
        targets = site.endpoints(10)
        seconds = _FULL_SECONDS if options.full else options.seconds
        site.loader.load(targets, seconds=seconds, token=site.token, rate=_RATE).clean()
        return [
            Measure("memory.idle", "memory, idle", idle, MEBIBYTES),
            Measure("memory.after", f"memory after {seconds:g} s at {_RATE:g}/s", site.resident(), MEBIBYTES),
        ]

"""Pure: slots for requests of authorized callers, limited per namespace and in total.

A request takes a slot only after its caller is authorized and its body is complete. So neither a client without a
credential nor a slow body occupies a slot. A quarter of the slots serves only namespaces that hold none, so that a few
namespaces cannot use all.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from hookwright_runtime.problems import too_many, unavailable
from hookwright_runtime.quotas import Full, Quotas

EVENT_REQUESTS: Final = 256
"""A namespace has a quarter of them: as many producers as docs/scaling.md measures the throughput with."""
OTHER_REQUESTS: Final = 128
OTHER_REQUESTS_OF_NAMESPACE: Final = 32
BODY_BYTES: Final = 128 * 1024 * 1024
BODY_BYTES_OF_NAMESPACE: Final = 32 * 1024 * 1024


class RequestSlots:
    """The slots of requests that are served at once.

    Args:
        what: names the requests in a refusal.
        total: slots of all holders; a quarter of them only for holders that have none.
        each: slots of one holder.
        holders: names the kind of the holders in a refusal.
    """

    def __init__(self, what: str, *, total: int, each: int, holders: str = "namespace") -> None:
        self._what = what
        self._holders = holders
        self._quotas = Quotas(total=total, each=each, reserved=total // 4)

    @contextmanager
    def held(self, holder: str) -> Iterator[None]:
        """Hold a slot inside the context.

        Raises:
            ProblemError: 429, the holder has all its slots; 503, no slot is free.
        """
        full = self._quotas.take(holder)
        if full is Full.HOLDER:
            raise too_many(f'{self._holders} "{holder}" has {self._quotas.each} {self._what} in progress')
        if full is Full.TOTAL:
            raise unavailable(f"{self._quotas.total} {self._what} are in progress")
        try:
            yield
        finally:
            self._quotas.release(holder)

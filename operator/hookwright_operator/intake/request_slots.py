"""Pure: slots for requests of authorized callers, limited per namespace and in total.

A request takes a slot only after its caller is authorized and its body is complete. So neither a client without a
credential nor a slow body occupies a slot.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from hookwright_runtime.problems import unavailable
from hookwright_runtime.quotas import Full, Quotas

EVENT_REQUESTS: Final = 256
OTHER_REQUESTS: Final = 128
OTHER_REQUESTS_OF_NAMESPACE: Final = 32
BODY_BYTES: Final = 128 * 1024 * 1024
BODY_BYTES_OF_NAMESPACE: Final = 32 * 1024 * 1024


class RequestSlots:
    """The slots of requests that are served at once.

    Args:
        what: names the requests in a refusal.
        total: slots of all namespaces.
        each: slots of one namespace.
    """

    def __init__(self, what: str, *, total: int, each: int) -> None:
        self._what = what
        self._quotas = Quotas(total=total, each=each)

    @contextmanager
    def held(self, namespace: str) -> Iterator[None]:
        """Hold a slot inside the context.

        Raises:
            ProblemError: 503, no slot is free.
        """
        full = self._quotas.take(namespace)
        if full is Full.HOLDER:
            raise unavailable(f'namespace "{namespace}" has {self._quotas.each} {self._what} in progress')
        if full is Full.TOTAL:
            raise unavailable(f"{self._quotas.total} {self._what} are in progress")
        try:
            yield
        finally:
            self._quotas.release(namespace)

"""Pure: places for requests of callers that may call, bounded for each namespace and in all.

A request takes a place only after its caller is authorised and its body has come, so neither a client without a
credential nor a slow body holds one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from hookwright_operator.intake.problems import unavailable
from hookwright_runtime.quotas import Full, Quotas

EVENT_REQUESTS: Final = 256
OTHER_REQUESTS: Final = 128
OTHER_REQUESTS_OF_NAMESPACE: Final = 32
BODY_BYTES: Final = 128 * 1024 * 1024
BODY_BYTES_OF_NAMESPACE: Final = 32 * 1024 * 1024


class Places:
    """Requests that are served at once.

    Args:
        what: names the requests in a refusal.
        total: of all namespaces.
        each: of one namespace.
    """

    def __init__(self, what: str, *, total: int, each: int) -> None:
        self._what = what
        self._quotas = Quotas(total=total, each=each)

    def take(self, namespace: str) -> None:
        """Take a place.

        Raises:
            ProblemError: 503, no place is free.
        """
        full = self._quotas.take(namespace)
        if full is None:
            return
        if full is Full.HOLDER:
            raise unavailable(f'namespace "{namespace}" has {self._quotas.each} {self._what} under way')
        raise unavailable(f"{self._quotas.total} {self._what} are under way")

    def release(self, namespace: str) -> None:
        """Release a place that was taken."""
        self._quotas.release(namespace)

    @contextmanager
    def held(self, namespace: str) -> Iterator[None]:
        """Hold a place for a block; raise as `take` does."""
        self.take(namespace)
        try:
            yield
        finally:
            self.release(namespace)

"""Pure: the bounds of tests of endpoints, each of which may wait 30 s for a receiver."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from hookwright_runtime.quotas import Full, Quotas

TESTS_AT_ONCE: Final = 64
TESTS_OF_NAMESPACE: Final = 16
TESTS_OF_ENDPOINT: Final = 2


class TooManyTestsError(Exception):
    """No further test may start now; the message names the bound."""


class EndpointTests:
    """The tests that are under way.

    Args:
        total: tests at once, of which a namespace may have a quarter.
    """

    def __init__(self, total: int = TESTS_AT_ONCE) -> None:
        self._of_endpoint = Quotas(total=total, each=TESTS_OF_ENDPOINT)
        self._of_namespace = Quotas(total=total, each=total * TESTS_OF_NAMESPACE // TESTS_AT_ONCE)

    @contextmanager
    def one(self, namespace: str, endpoint: str) -> Iterator[None]:
        """Count a test for the time of a block.

        Args:
            namespace: of the endpoint.
            endpoint: its name.

        Raises:
            TooManyTestsError: the endpoint, its namespace or the process has too many.
        """
        key = f"{namespace}/{endpoint}"
        self._take(namespace, endpoint, key)
        try:
            yield
        finally:
            self._of_endpoint.release(key)
            self._of_namespace.release(namespace)

    def _take(self, namespace: str, endpoint: str, key: str) -> None:
        full = self._of_namespace.take(namespace)
        if full is None and self._of_endpoint.take(key) is not None:
            self._of_namespace.release(namespace)
            raise _too_many(f'webhook endpoint "{endpoint}" has {TESTS_OF_ENDPOINT} tests under way')
        if full is Full.HOLDER:
            raise _too_many(f'namespace "{namespace}" has {self._of_namespace.each} tests of endpoints under way')
        if full is Full.TOTAL:
            raise _too_many(f"{self._of_namespace.total} tests of endpoints are under way")


def _too_many(fact: str) -> TooManyTestsError:
    return TooManyTestsError(f"{fact}; try again when one has ended")

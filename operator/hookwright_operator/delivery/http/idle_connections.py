"""Idle connections to receivers, kept for the next attempt within a bound.

If the bound is exceeded, the namespaces with the most idle connections lose their oldest ones. So a tenant with
thousands of receivers cannot use up the file descriptors, and other tenants lose no connections because of it.
"""

import heapq
from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

from hookwright_operator.delivery.http.connection import Connection

KEEPALIVE: Final = 4.0
"""Seconds; less than 5, after which Node, uvicorn and Apache close an idle connection and could break an attempt."""


class Origin(NamedTuple):
    """Target of requests; a connection serves one origin."""

    tls: bool
    host: str
    port: int


class IdleConnections:
    """Connections without a request, by origin and by the namespace that used them last.

    Args:
        most: how many are kept.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._by_origin: dict[Origin, list[Connection]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def take(self, origin: Origin, now: float) -> Connection | None:
        """Return the connection that was used last and can carry a request, so that surplus connections expire."""
        idle = self._by_origin.get(origin)
        while idle:
            connection = idle.pop()
            self._count -= 1
            if connection.reusable and connection.idle_since > now - KEEPALIVE:
                return connection
            connection.abort()
        return None

    def add(self, origin: Origin, namespace: str, connection: Connection, now: float) -> None:
        """Keep a connection on which a request of a namespace ended."""
        connection.idle_since, connection.namespace = now, namespace
        self._by_origin.setdefault(origin, []).append(connection)
        self._count += 1
        if self._count > self._limit:
            # Several at once, because the selection reads all of them.
            self.close(1 + self._limit // 8)

    def sweep(self, now: float) -> bool:
        """Close connections that are idle for too long, and drop closed ones; return whether any are left."""
        oldest = now - KEEPALIVE
        self._drop(
            {connection for connection in self._all() if not (connection.reusable and connection.idle_since > oldest)}
        )
        return bool(self._by_origin)

    def close(self, number: int) -> set[Connection]:
        """Close a number of connections, each time the oldest one of the namespace with the most; return them."""
        by_namespace: dict[str, list[Connection]] = {}
        for connection in sorted(self._all(), key=lambda one: one.idle_since, reverse=True):
            by_namespace.setdefault(connection.namespace, []).append(connection)
        sizes = [(-len(idle), namespace) for namespace, idle in by_namespace.items()]
        heapq.heapify(sizes)
        closing = set()
        for _ in range(min(number, self._count)):
            size, namespace = sizes[0]
            closing.add(by_namespace[namespace].pop())
            heapq.heapreplace(sizes, (size + 1, namespace))
        self._drop(closing)
        return closing

    def clear(self) -> None:
        """Forget all connections without closing them."""
        self._by_origin.clear()
        self._count = 0

    def _all(self) -> Iterator[Connection]:
        return chain.from_iterable(self._by_origin.values())

    def _drop(self, closing: set[Connection]) -> None:
        for connection in closing:
            connection.abort()
        for origin, idle in tuple(self._by_origin.items()):
            remaining = [connection for connection in idle if connection not in closing]
            if remaining:
                self._by_origin[origin] = remaining
            else:
                del self._by_origin[origin]
        self._count -= len(closing)

"""Idle connections to receivers, kept for the next attempt within a bound.

If the bound is reached, the namespace with the most idle connections loses its oldest one. So a tenant with thousands
of receivers cannot use up the file descriptors, and costs the others none of their connections.
"""

from typing import Final, NamedTuple

from hookwright_operator.delivery.http1 import Connection

KEEPALIVE: Final = 4.0
"""Seconds, below the 5 after which Node, uvicorn and Apache close an idle connection and could cut an attempt short."""


class Origin(NamedTuple):
    """Where requests go; a connection serves one origin."""

    tls: bool
    host: str
    port: int


class IdleConnections:
    """Connections without a request, by origin and by the namespace that used them last.

    Args:
        most: how many are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._by_origin: dict[Origin, list[Connection]] = {}
        self._by_namespace: dict[str, dict[Connection, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def take(self, origin: Origin, now: float) -> Connection | None:
        """Return a connection that can carry a request, the one used last, so that surplus ones grow old."""
        idle = self._by_origin.get(origin)
        while idle:
            connection = idle.pop()
            self._forget(connection)
            if connection.reusable and connection.idle_since > now - KEEPALIVE:
                return connection
            connection.abort()
        return None

    def add(self, origin: Origin, namespace: str, connection: Connection, now: float) -> None:
        """Keep a connection that a request of a namespace ended on."""
        connection.idle_since, connection.namespace = now, namespace
        idle = self._by_origin.get(origin)
        if idle is None:
            idle = self._by_origin[origin] = []
        idle.append(connection)
        own = self._by_namespace.get(namespace)
        if own is None:
            own = self._by_namespace[namespace] = {}
        own[connection] = None
        self._count += 1
        if self._count > self._most:
            self._evict(namespace)

    def sweep(self, now: float) -> bool:
        """Close connections that are idle for too long, and drop closed ones; return whether any are left."""
        oldest = now - KEEPALIVE
        for origin, idle in tuple(self._by_origin.items()):
            kept = [connection for connection in idle if connection.reusable and connection.idle_since > oldest]
            for connection in set(idle).difference(kept):
                self._forget(connection)
                connection.abort()
            if kept:
                self._by_origin[origin] = kept
            else:
                del self._by_origin[origin]
        return bool(self._by_origin)

    def close(self, number: int) -> list[Connection]:
        """Close a number of connections, those of the namespaces with the most first; return them."""
        return [self._close_oldest(self._largest()) for _ in range(min(number, self._count))]

    def clear(self) -> None:
        """Forget all connections without closing them."""
        self._by_origin.clear()
        self._by_namespace.clear()
        self._count = 0

    def _evict(self, namespace: str) -> None:
        fair = self._most // len(self._by_namespace)
        own = len(self._by_namespace[namespace])
        self._close_oldest(namespace if own > fair else self._largest())

    def _largest(self) -> str:
        return max(self._by_namespace, key=lambda namespace: len(self._by_namespace[namespace]))

    def _close_oldest(self, namespace: str) -> Connection:
        connection = next(iter(self._by_namespace[namespace]))
        self._forget(connection)
        # It stays in its origin's list, unusable, until `take` or `sweep` finds it there.
        connection.abort()
        return connection

    def _forget(self, connection: Connection) -> None:
        own = self._by_namespace.get(connection.namespace)
        if own is not None and connection in own:
            del own[connection]
            self._count -= 1
            if not own:
                del self._by_namespace[connection.namespace]

"""One TLS context for all clients of httpx, because each new one loads all certificate authorities: 45 ms of CPU."""

from functools import cache

from httpx._transports import default

default.create_ssl_context = cache(default.create_ssl_context)  # type: ignore[attr-defined]

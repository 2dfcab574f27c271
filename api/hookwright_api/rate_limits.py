"""Rate limits with the `limits` library: a moving window, counted here or in Redis or Valkey.

The window moves: a request is allowed if fewer requests than the limit were allowed in the 60 seconds before it. So
there is no edge at which twice as many requests pass. A refused request does not count, so a client that keeps trying
is allowed again when its oldest request is a minute old. ``reset`` is that time.
"""

import math
import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import structlog
from limits import RateLimitItem, RateLimitItemPerSecond
from limits.aio.storage import MemoryStorage, RedisStorage
from limits.aio.strategies import MovingWindowRateLimiter
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from hookwright_api.metrics import LIMITS_AVAILABLE, REJECTIONS
from hookwright_api.settings import ApiSettings
from hookwright_runtime.problems import Code, ProblemError, unavailable

_EXPIRED_AT_ONCE: Final = 2
"""Expired identities that each new one removes; more than one, so that their number shrinks again."""

log = structlog.get_logger(__name__)

WINDOW_SECONDS: Final = 60
_ANSWER_SECONDS: Final = 0.5
"""Timeout of the counters' server."""
_HOLD_OFF_SECONDS: Final = 1.0
"""Time between two tries while the counters' server is unavailable; between them no request waits for it."""


class Scope(StrEnum):
    """The group of requests that are counted together, with the name of its setting after ``rate_limit_``."""

    IP = "ip"
    ORGANIZATION = "organization"
    LOGIN = "login"
    LOGIN_EMAIL = "login_email"


# A rate over a counter that first appears with its first event would miss that event.
for _scope in Scope:
    REJECTIONS.labels(_scope.value)

_REQUESTS: Final = {
    Scope.IP: "requests a minute from one address",
    Scope.ORGANIZATION: "requests a minute of one organization",
    Scope.LOGIN: "failed logins a minute from one address",
    Scope.LOGIN_EMAIL: "failed logins a minute for one email",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state of a client under one limit.

    Attributes:
        allowed: whether the request is allowed.
        limit: requests in the window.
        remaining: how many more are allowed now.
        reset: when the oldest counted request leaves the window, in seconds since the epoch, rounded up.
        retry_after: seconds until then, at least 1.
        window: length of the window in seconds.
    """

    scope: Scope
    allowed: bool
    limit: int
    remaining: int
    reset: int
    retry_after: int
    window: int = WINDOW_SECONDS

    def refusal(self) -> ProblemError:
        """Return the 429."""
        detail = f"{self.limit} {_REQUESTS[self.scope]} are allowed; retry in {self.retry_after} s"
        return ProblemError(429, detail, code=Code.RATE_LIMITED, retry_after=self.retry_after)


def limit_headers(verdicts: list[Verdict]) -> list[tuple[bytes, bytes]]:
    """Return the headers of an answer: of the nearest limit, and of every limit in the form of the IETF.

    The nearest limit has the fewest remaining requests; of equal ones it has the later reset.

    Source: draft-ietf-httpapi-ratelimit-headers-10. ``q`` requests in ``w`` seconds are allowed; ``r`` of them remain,
    and in ``t`` seconds the oldest counted one leaves the window.
    """
    if not verdicts:
        return []
    verdict = min(verdicts, key=lambda verdict: (verdict.remaining, -verdict.reset))
    policies = ", ".join(f'"{entry.scope}";q={entry.limit};w={entry.window}' for entry in verdicts)
    states = ", ".join(f'"{entry.scope}";r={entry.remaining};t={entry.retry_after}' for entry in verdicts)
    return [
        (b"x-ratelimit-limit", b"%d" % verdict.limit),
        (b"x-ratelimit-remaining", b"%d" % verdict.remaining),
        (b"x-ratelimit-reset", b"%d" % verdict.reset),
        (b"ratelimit-policy", policies.encode()),
        (b"ratelimit", states.encode()),
    ]


class Limiter:
    """A counter of requests against the limits of the settings; 0 disables a limit."""

    def __init__(
        self,
        settings: ApiSettings,
        *,
        window: int = WINDOW_SECONDS,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create one with the storage of the settings; no connection is opened yet.

        Args:
            settings: the limits, and the storage of the counts.
            window: seconds.
            now: seconds since the epoch.
            clock: monotonic seconds.
        """
        self._items: dict[Scope, RateLimitItem] = {
            scope: RateLimitItemPerSecond(amount, window, namespace="hookwright")
            for scope in Scope
            if (amount := getattr(settings, f"rate_limit_{scope}"))
        }
        self._fail_open = settings.rate_limit_fail_open
        self._now = now
        self._clock = clock
        # Each scope has a separate storage, so that many addresses cannot evict an organization or an email.
        self._local = {scope: MovingWindowRateLimiter(WindowStorage(now=now)) for scope in self._items}
        self._redis = _redis(settings.rate_limit_url, settings.api_connections)
        self._shared = MovingWindowRateLimiter(self._redis) if self._redis else None
        self._away_until = float("-inf")
        LIMITS_AVAILABLE.set(1)

    async def close(self) -> None:
        """Close the connections."""
        if self._redis is not None:
            await self._redis.bridge.storage.aclose()  # type: ignore[attr-defined]

    async def hit(self, scope: Scope, identity: str, *, count: bool = True) -> Verdict | None:
        """Return the verdict on a request, and count it unless ``count`` is false; None if the limit is disabled.

        Raises:
            ProblemError: 503, it cannot be counted, and the settings then require a refusal.
        """
        item = self._items.get(scope)
        if item is None:
            return None
        verdict = None
        if self._shared is not None and self._clock() >= self._away_until:
            try:
                verdict = await self._verdict(self._shared, scope, item, identity, count=count)
                LIMITS_AVAILABLE.set(1)
            except (RedisError, OSError, TimeoutError) as error:
                self._away_until = self._clock() + _HOLD_OFF_SECONDS
                LIMITS_AVAILABLE.set(0)
                log.warning("counters' server unavailable, using the configured fallback", error=type(error).__name__)
        if verdict is None:
            if self._shared is not None and not self._fail_open:
                raise unavailable("the rate limit counters are unavailable")
            verdict = await self._verdict(self._local[scope], scope, item, identity, count=count)
        if not verdict.allowed:
            REJECTIONS.labels(scope.value).inc()
        return verdict

    async def _verdict(
        self, window: MovingWindowRateLimiter, scope: Scope, item: RateLimitItem, identity: str, *, count: bool
    ) -> Verdict:
        key = (scope.value, identity)
        allowed = await (window.hit(item, *key) if count else window.test(item, *key))
        stats = await window.get_window_stats(item, *key)
        now = self._now()
        reset = stats.reset_time if allowed or stats.reset_time > now else now
        return Verdict(
            scope=scope,
            allowed=allowed,
            limit=item.amount,
            remaining=max(0, stats.remaining) if allowed else 0,
            reset=math.ceil(reset),
            retry_after=max(1, math.ceil(reset - now)),
            window=item.get_expiry(),
        )


def storage_url(url: str) -> str:
    """Pure: return a redis:// or valkey:// URL as `limits` spells it; Valkey uses Redis's protocol."""
    scheme, rest = url.split("://", 1)
    return f"async+{scheme.replace('valkey', 'redis')}://{rest}"


def _redis(url: str, connections: int) -> RedisStorage | None:
    """Return the storage of a URL, None for memory; ``connections`` is one for each request in progress."""
    if url.startswith("memory:"):
        return None
    return RedisStorage(
        storage_url(url),
        implementation="redispy",
        # Options of redis-py, which limits passes on.
        max_connections=connections,
        socket_timeout=_ANSWER_SECONDS,
        socket_connect_timeout=_ANSWER_SECONDS,
        retry=Retry(NoBackoff(), 1),  # type: ignore[arg-type]
    )


MAX_IDENTITIES: Final = 65_536
"""Most identities of one storage; beyond it the identity with the oldest last count is forgotten."""


# The library's own memory storage looks at every identity after each request, in a thread for each of them. With
# thousands of addresses that costs more than the request.
class WindowStorage(MemoryStorage):
    """Counts of the requests of the last seconds for each identity.

    All windows of one storage have the same length. So the identities, in the order of their last counted request, are
    in the order of their expiry.

    Args:
        now: returns seconds since the epoch.
        max_identities: most identities to keep.
    """

    def __init__(self, *, now: Callable[[], float], max_identities: int = MAX_IDENTITIES) -> None:
        super().__init__()
        self._now = now
        self._max_identities = max_identities
        self._hits: OrderedDict[str, list[float]] = OrderedDict()

    def __len__(self) -> int:
        """Return how many identities are stored."""
        return len(self._hits)

    async def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        """Count a request of an identity, unless it has reached its limit; return whether it was counted."""
        if amount > limit:
            return False
        now = self._now()
        since = now - expiry
        hits = self._hits.get(key)
        if hits is None:
            self._make_room(since)
            hits = self._hits[key] = []
        del hits[: bisect_left(hits, since)]
        if len(hits) + amount > limit:
            return False
        hits.extend([now] * amount)
        self._hits.move_to_end(key)
        return True

    async def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        """Return the time of an identity's oldest counted request, and how many requests are counted."""
        del limit
        now = self._now()
        hits = self._hits.get(key, ())
        first = bisect_left(hits, now - expiry)
        return (hits[first], len(hits) - first) if first < len(hits) else (now, 0)

    def _make_room(self, since: float) -> None:
        for _ in range(_EXPIRED_AT_ONCE):
            if not self._hits or next(iter(self._hits.values()))[-1] >= since:
                break
            self._hits.popitem(last=False)
        if len(self._hits) >= self._max_identities:
            self._hits.popitem(last=False)

"""Answers of the API server to reviews, cached for a short time so that few requests need a review.

Grants and denials have separate caches, so that a flood of wrong tokens cannot evict the valid ones. If a cache is
full, the holder with the most answers loses its oldest one, so that no tenant can evict the grants of the others.
Concurrent equal questions share one request. A grant in use is renewed before it expires, so that requests do not wait
for a slow API server.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from hookwright_runtime.errors import KubeUnavailable
from hookwright_runtime.places import FullError
from hookwright_runtime.shelf import Shelf

V = TypeVar("V")

_HOLD_OFF_SECONDS: Final = 1.0
"""Seconds for which an old answer serves before the next review is tried."""
_RENEWED_AFTER: Final = 0.5
"""Share of a grant's lifetime after which the next request renews it in the background."""


@dataclass(frozen=True, slots=True)
class ReviewAnswer(Generic[V]):
    """The answer of the API server.

    Attributes:
        granted: whether it is cached as a grant or as a denial.
        holder: the tenant that the cached answer counts for.
        lifetime: seconds after which it must not be used, independent of the settings.
    """

    value: V
    granted: bool
    holder: str
    lifetime: float = math.inf


@dataclass(frozen=True, slots=True)
class Keeping:
    """Seconds for which answers are cached.

    Attributes:
        granted: a grant is used without another review.
        denied: a denial is used without another review.
        stale: a grant may still be used while no review is possible, counted from the answer.
        size: how many grants, and how many denials, are cached; the holder with the most loses its least recently used.
    """

    granted: float = 10.0
    denied: float = 2.0
    stale: float = 60.0
    size: int = 10_000


@dataclass(frozen=True, slots=True)
class _Kept(Generic[V]):
    value: V
    holder: str
    renewed_from: float
    fresh_until: float
    usable_until: float


class Reviews(Generic[V]):
    """The cached answers to one kind of question."""

    def __init__(self, keeping: Keeping, *, now: Callable[[], float] = time.monotonic) -> None:
        self._keeping = keeping
        self._now = now
        self._granted: Shelf[_Kept[V]] = Shelf(keeping.size)
        self._denied: Shelf[_Kept[V]] = Shelf(keeping.size)
        self._asking: dict[Hashable, asyncio.Future[V]] = {}

    async def get(self, key: Hashable, ask: Callable[[], Awaitable[ReviewAnswer[V]]]) -> V:
        """Return the answer to the question ``key``; call ``ask`` only if no answer is cached.

        Raises:
            KubeError: the API server refused the question, and no answer was cached.
            KubeUnavailable: it did not answer, and no usable grant is cached.
            FullError: the question could not be asked, and no usable grant is cached.
        """
        entry, now = self._granted.find(key) or self._denied.find(key), self._now()
        if entry is not None and now < entry.fresh_until:
            if now >= entry.renewed_from:
                self._share(key, ask)
            return entry.value
        # If one requester disconnects, the others must still get the answer.
        return await asyncio.shield(self._share(key, ask))

    def _share(self, key: Hashable, ask: Callable[[], Awaitable[ReviewAnswer[V]]]) -> asyncio.Future[V]:
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.ensure_future(self._ask(key, ask))
            asking.add_done_callback(lambda done: self._asked(key, done))
        return asking

    async def _ask(self, key: Hashable, ask: Callable[[], Awaitable[ReviewAnswer[V]]]) -> V:
        try:
            answer = await ask()
        except (KubeUnavailable, FullError):
            grant = self._granted.find(key)
            now = self._now()
            if grant is None or now >= grant.usable_until:
                raise
            self._granted.keep(key, self._held_off(grant, now), grant.holder)
            return grant.value
        self._keep(key, answer)
        return answer.value

    @staticmethod
    def _held_off(grant: _Kept[V], now: float) -> _Kept[V]:
        """Return a grant that serves a moment longer, or for its original time if its renewal failed early."""
        until = min(now + _HOLD_OFF_SECONDS, grant.usable_until)
        return replace(grant, renewed_from=until, fresh_until=max(grant.fresh_until, until))

    def _keep(self, key: Hashable, answer: ReviewAnswer[V]) -> None:
        now, keeping = self._now(), self._keeping
        right, wrong = (self._granted, self._denied) if answer.granted else (self._denied, self._granted)
        wrong.discard(key)
        fresh = min(keeping.granted if answer.granted else keeping.denied, answer.lifetime)
        stale = min(keeping.stale, answer.lifetime)
        # The next request reviews a denial again. Denials are not renewed, because a flood of wrong tokens would cause
        # reviews.
        renewed_from = now + fresh * _RENEWED_AFTER if answer.granted else math.inf
        entry = _Kept(answer.value, answer.holder, renewed_from, fresh_until=now + fresh, usable_until=now + stale)
        right.keep(key, entry, answer.holder)
        self._discard_expired_denials(now)

    def _discard_expired_denials(self, now: float) -> None:
        """Discard denials until one is fresh; they are kept for equal times, so they expire in their order."""
        while (earliest := self._denied.earliest()) is not None and earliest[1].fresh_until <= now:
            self._denied.discard(earliest[0])

    def _asked(self, key: Hashable, future: asyncio.Future[V]) -> None:
        del self._asking[key]
        if not future.cancelled():
            # The exception is retrieved even if every requester has disconnected; otherwise asyncio would log a
            # warning.
            future.exception()

"""Freshness of the watches and availability of the store.

kopf renews a watch after `RENEWED` seconds, and earlier if the watch is silent. This module records the time of each
answered renewal. kopf accepts an HTTP session from outside, and the session reports its answers here.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Final

import aiohttp
import kopf
import structlog

from hookwright_operator import metrics
from hookwright_operator.errors import StoreError
from hookwright_operator.pages import Page, Pager

log = structlog.get_logger(__name__)

RENEWED: Final = 120
"""Seconds after which the API server ends a watch, so that kopf renews it; an integer, because kopf passes it on."""
_BACK: Final = 2
"""Consecutive answers after which the store counts as available again."""


@dataclass(frozen=True, kw_only=True)
class TracedSession(kopf.AiohttpSession):
    """A session that equals another session with the same credentials, so kopf never retries refused credentials."""

    credentials: kopf.ConnectionInfo = field(repr=False)
    aiohttp_session: aiohttp.ClientSession = field(compare=False)


class Pulse:
    """Times of the last answer to a watch by plural resource name; of one resource in several namespaces, the latest.

    kopf's thread writes it and the scrape reads it: one assignment and one look-up.
    """

    def __init__(self, resources: Iterable[str], clock: Callable[[], float] = time.monotonic) -> None:
        """Begin now: the age of a watch that is never answered counts from here."""
        self._clock = clock
        self._alive_at = dict.fromkeys(resources, clock())
        self._silent = set(self._alive_at)
        for resource in self._alive_at:
            metrics.WATCH_AGE.labels(resource).set_function(self._age_of(resource))

    @property
    def complete(self) -> bool:
        """Whether every watch was answered at least once."""
        return not self._silent

    def session(self, info: kopf.ConnectionInfo) -> kopf.AiohttpSession:
        """Return a session for kopf with these credentials that reports its watches; kopf closes it."""
        trace = aiohttp.TraceConfig()
        trace.on_request_end.append(self._answered)
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=info.as_ssl_context()),
            headers=info.as_http_headers(),
            proxy=info.proxy_url,
            trace_configs=[trace],
            middlewares=[Pager()],
            response_class=Page,
        )
        return TracedSession(
            server=info.server, default_namespace=info.default_namespace, credentials=info, aiohttp_session=session
        )

    async def _answered(
        self, _: aiohttp.ClientSession, __: SimpleNamespace, answered: aiohttp.TraceRequestEndParams
    ) -> None:
        if answered.response.status == 200 and "watch" in answered.url.query and answered.url.name in self._alive_at:
            self._alive_at[answered.url.name] = self._clock()
            self._silent.discard(answered.url.name)

    def _age_of(self, resource: str) -> Callable[[], float]:
        return lambda: max(0.0, self._clock() - self._alive_at[resource])


class StorePulse:
    """The availability of the store, for readiness.

    A pod that is not ready gets no requests at all. A ready pod without a store answers 503 with a reason and
    Retry-After. If replicas share a database, all of them would become unready at once. So readiness ignores short
    interruptions, such as a failover or a long lock. The store counts as unavailable when it has not answered for
    ``patience``, and as available again when it has answered twice in a row.

    Args:
        ping: returns when the store has answered.
        patience: in seconds.
        pause: seconds between two pings; at most one ping is in progress.
    """

    def __init__(
        self,
        ping: Callable[[], Awaitable[None]],
        *,
        patience: float = 10.0,
        pause: float = 3.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ping, self._patience, self._pause, self._clock = ping, patience, pause, clock
        self._answered_at = clock()
        self._answers = 0
        self._away_since: float | None = None

    def away(self) -> str | None:
        """Return a sentence about the unavailable store, None if the store is available."""
        if self._away_since is None:
            return None
        return f"the store has not answered for {self._clock() - self._away_since:.0f} s"

    async def run(self) -> None:
        """Ping repeatedly, until cancelled."""
        while True:
            pinging = asyncio.ensure_future(self._answered())
            try:
                while not (await asyncio.wait([pinging], timeout=self._pause))[0]:
                    self._note(answered=False)
            finally:
                pinging.cancel()
            self._note(answered=pinging.result())
            await asyncio.sleep(self._pause)

    async def _answered(self) -> bool:
        try:
            await self._ping()
        except StoreError:
            return False
        return True

    def _note(self, *, answered: bool) -> None:
        now = self._clock()
        self._answers = self._answers + 1 if answered else 0
        if answered:
            self._answered_at = now
        if self._away_since is None:
            if now - self._answered_at >= self._patience:
                self._away_since = self._answered_at
                log.warning("store does not answer, replica not ready", seconds=round(now - self._answered_at))
        elif self._answers >= _BACK:
            log.info("store answers again, replica ready", seconds=round(now - self._away_since))
            self._away_since = None

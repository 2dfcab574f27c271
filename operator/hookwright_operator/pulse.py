"""Tells when the API server last answered a watch, and whether the store answers.

kopf renews a watch when it has run for `RENEWED`, and sooner where it fell silent; each renewal that is answered is a
sign of life here. kopf takes an HTTP session that somebody else made, and the session tells of its answers.
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
"""Seconds after which the API server ends a watch, for kopf to renew it; whole, for kopf hands the number on."""
_BACK: Final = 2
"""Answers in a row by which the store counts as back."""


@dataclass(frozen=True, kw_only=True)
class TracedSession(kopf.AiohttpSession):
    """A session that is equal to another one with the same credentials: so kopf takes none twice that were refused."""

    credentials: kopf.ConnectionInfo = field(repr=False)
    aiohttp_session: aiohttp.ClientSession = field(compare=False)


class Pulse:
    """Signs of life of watches by resource, in its plural; of one resource in several namespaces, the latest counts.

    kopf's thread writes it and the scrape reads it: one assignment and one look-up.
    """

    def __init__(self, resources: Iterable[str], clock: Callable[[], float] = time.monotonic) -> None:
        """Begin now: a watch that is never answered grows old from here."""
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
        """Return a session for kopf, with these credentials, that tells of its watches; kopf closes it."""
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
    """Whether the store answers, for readiness.

    A pod that is not ready gets no requests at all, while a ready one whose store is away answers 503 with a reason and
    Retry-After; and where replicas share a database, they would all go at once. So what passes in moments, such as a
    failover or a long lock, is not told here: the store counts as away when it has not answered for ``patience``, and
    as back when it has answered twice in a row.

    Args:
        ping: returns when the store has answered.
        patience: in seconds.
        pause: seconds between two pings; there is never more than one under way.
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
        """Return in a sentence that the store is away, None where it is not."""
        if self._away_since is None:
            return None
        return f"the store has not answered for {self._clock() - self._away_since:.0f} s"

    async def run(self) -> None:
        """Ping again and again, until cancelled."""
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
                log.warning("not ready: the store does not answer", seconds=round(now - self._answered_at))
        elif self._answers >= _BACK:
            log.info("the store answers again", seconds=round(now - self._away_since))
            self._away_since = None

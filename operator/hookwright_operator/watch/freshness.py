"""Records when the API server last answered each watch.

kopf renews a watch after `WATCH_SECONDS` seconds, and earlier if the watch is silent. This module records the time of
each answered renewal. kopf accepts an HTTP session from outside, and the session reports its answers here.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Final

import aiohttp
import kopf
import structlog

from hookwright_operator import metrics
from hookwright_runtime.kubernetes_pages import Page, Pager

log = structlog.get_logger(__name__)

WATCH_SECONDS: Final = 120
"""Seconds after which the API server ends a watch, so that kopf renews it; an integer, because kopf passes it on."""


@dataclass(frozen=True, kw_only=True)
class TracedSession(kopf.AiohttpSession):
    """A session that equals another session with the same credentials, so kopf never retries refused credentials."""

    credentials: kopf.ConnectionInfo = field(repr=False)
    aiohttp_session: aiohttp.ClientSession = field(compare=False)


class WatchFreshness:
    """Times of the last answer to a watch by plural resource name; of one resource in several namespaces, the latest.

    kopf's thread writes it and the scrape reads it: one assignment and one look-up.
    """

    def __init__(self, resources: Iterable[str], clock: Callable[[], float] = time.monotonic) -> None:
        """Begin now: the age of a watch that is never answered counts from here."""
        self._clock = clock
        self._answered_at = dict.fromkeys(resources, clock())
        self._silent_resources = set(self._answered_at)
        for resource in self._answered_at:
            metrics.WATCH_AGE.labels(resource).set_function(self._age_of(resource))

    @property
    def complete(self) -> bool:
        """Whether every watch was answered at least once."""
        return not self._silent_resources

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
        self, _: aiohttp.ClientSession, __: SimpleNamespace, answer: aiohttp.TraceRequestEndParams
    ) -> None:
        if answer.response.status == 200 and "watch" in answer.url.query and answer.url.name in self._answered_at:
            self._answered_at[answer.url.name] = self._clock()
            self._silent_resources.discard(answer.url.name)

    def _age_of(self, resource: str) -> Callable[[], float]:
        return lambda: max(0.0, self._clock() - self._answered_at[resource])

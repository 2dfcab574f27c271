"""The threads and event loops of kopf, and its handlers: each stores an object in the cache and enqueues keys.

In its own threads, kopf cannot delay deliveries. When it ends, it cancels all tasks of its loop, which must not be
tasks of the rest of the process. It also does not install signal handlers there.

kopf watches, lists and logs in. `watch.work_queue` decides when a key is reconciled. No key is reconciled before every
existing object was seen (`Resync.until_shown`), because a plan from incomplete data would be wrong. kopf's own barrier,
its index functions, wakes every listed object for every other one: with 10,000 endpoints that took minutes. Only event
handlers are used, so kopf itself writes nothing: no finalizer, no annotation.
"""

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final

import aiohttp
import kopf
import structlog
import uvloop

from hookwright_crds import API_VERSION, GROUP, VERSION
from hookwright_crds.trimming import trimmed_secret
from hookwright_operator import metrics
from hookwright_operator.watch.changes import Changes
from hookwright_operator.watch.objects import CREDENTIALS, MODELS, SELECTORS, WATCHED_KINDS, WatchedKind, plural
from hookwright_runtime.errors import KubeError
from hookwright_runtime.kubernetes import KubernetesClient
from hookwright_runtime.kubernetes_pages import MOST_OBJECTS, Page, Pager

log = structlog.get_logger(__name__)

WATCH_SECONDS: Final = 120
"""Seconds after which the API server ends a watch, so that kopf renews it; an integer, because kopf passes it on."""
_STOP_SECONDS: Final = 5.0
_SERVED_SECONDS: Final = 0.5
_IDLE_SECONDS: Final = 0.1


@dataclass(frozen=True, kw_only=True)
class TracedSession(kopf.AiohttpSession):
    """A session that equals another session with the same credentials, so kopf never retries refused credentials."""

    credentials: kopf.ConnectionInfo = field(repr=False)
    aiohttp_session: aiohttp.ClientSession = field(compare=False)


class WatchFreshness:
    """Times of the last answer to a watch by plural name or `CREDENTIALS`; of several namespaces, the latest.

    kopf renews a watch after `WATCH_SECONDS`, and earlier if the watch is silent. It accepts an HTTP session from
    outside, and the session reports each answered renewal here.

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

    def session(self, info: kopf.ConnectionInfo, known: set[str] | None = None) -> kopf.AiohttpSession:
        """Return a session for kopf with these credentials that reports its watches; kopf sees no ``known`` version."""
        trace = aiohttp.TraceConfig()
        trace.on_request_end.append(self._answered)
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=info.as_ssl_context()),
            headers=info.as_http_headers(),
            proxy=info.proxy_url,
            trace_configs=[trace],
            middlewares=[Pager(known=known)],
            response_class=Page,
        )
        return TracedSession(
            server=info.server, default_namespace=info.default_namespace, credentials=info, aiohttp_session=session
        )

    async def _answered(
        self, _: aiohttp.ClientSession, __: SimpleNamespace, answer: aiohttp.TraceRequestEndParams
    ) -> None:
        query, name = answer.url.query, answer.url.name
        if name == "secrets" and query.get("labelSelector") == SELECTORS[1]:
            name = CREDENTIALS
        if answer.response.status == 200 and "watch" in query and name in self._answered_at:
            self._answered_at[name] = self._clock()
            self._silent_resources.discard(name)

    def _age_of(self, resource: str) -> Callable[[], float]:
        return lambda: max(0.0, self._clock() - self._answered_at[resource])


def own(change: str | None, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object that shares no memory with others; an object of a watch event is already alone.

    The cache keeps some strings of an object. Strings of a list would keep the whole list in memory: 11 KiB for each
    endpoint.
    """
    return json.loads(json.dumps(trimmed_secret(body))) if change is None else dict(body)


class NoDiffBase(kopf.MultiDiffBaseStorage):
    """A diff base that compares nothing, because no handler needs to know what changed."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        """Return nothing to compare; kopf would copy each object."""
        return {}


def register(
    changes: Changes,
    freshness: WatchFreshness,
    loop: asyncio.AbstractEventLoop,
    kinds: Iterable[WatchedKind] = WATCHED_KINDS,
) -> kopf.OperatorRegistry:
    """Return kopf's registry with a handler for each kind.

    Args:
        changes: applies what the handlers get.
        freshness: makes the HTTP session of kopf.
        loop: the event loop of ``changes``; kopf has its own thread and loop.
        kinds: the watched kinds.
    """
    registry = kopf.OperatorRegistry()
    for kind in kinds:
        resource = (GROUP, VERSION, plural(kind)) if kind in MODELS else ("v1", plural(kind))

        @kopf.on.event(*resource, registry=registry, id=f"{kind}-event", param=kind)
        async def show(event: kopf.RawEvent, param: WatchedKind = kind, **_: Any) -> None:
            loop.call_soon_threadsafe(changes.apply, param, event["type"], own(event["type"], event["object"]))

    @kopf.on.login(registry=registry)
    async def login(**arguments: Any) -> kopf.AiohttpSession | None:
        connection = kopf.login_with_service_account(**arguments) or kopf.login_with_kubeconfig(**arguments)
        return freshness.session(connection, changes.cache.answered) if connection else None

    return registry


def kopf_settings(selector: str = SELECTORS[0]) -> kopf.OperatorSettings:
    """Return kopf's settings: watch only objects of Hookwright and others with a selector's labels, write nothing."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.watching.label_selectors["v1", "secrets"] = selector
    settings.watching.label_selectors["v1", "configmaps"] = selector
    settings.watching.server_timeout = WATCH_SECONDS
    settings.watching.chunk_size = MOST_OBJECTS
    settings.networking.trust_env = False
    settings.persistence.diffbase_storage = NoDiffBase([])
    settings.persistence.progress_storage = kopf.MultiProgressStorage([])
    # kopf starts one worker per listed object. The workers need not stay for kopf's 5 s.
    settings.queueing.idle_timeout = _IDLE_SECONDS
    return settings


async def _until_served(kube: KubernetesClient) -> None:
    """Return when the API server announces every kind.

    kopf reads the kinds once, at its start. It would not watch a kind that is announced later, which happens for a
    moment after the CRDs were applied.
    """
    plurals = {plural(kind) for kind in MODELS}
    is_logged = False
    while True:
        try:
            groups = {group["name"] for group in (await kube.get("/apis"))["groups"]}
            resources = {resource["name"] for resource in (await kube.get(f"/apis/{API_VERSION}"))["resources"]}
            missing = plurals - resources if GROUP in groups else plurals
        except KubeError as error:
            if error.status != 404:
                raise
            missing = plurals
        if not missing:
            return
        if not is_logged:
            log.warning(
                "CustomResourceDefinitions missing, waiting until crds/*.yaml are applied", missing=sorted(missing)
            )
            is_logged = True
        await asyncio.sleep(_SERVED_SECONDS)


async def watch_cluster(
    kube: KubernetesClient, changes: Changes, freshness: WatchFreshness, namespaces: Collection[str]
) -> None:
    """List and watch all kinds until cancelled.

    Args:
        kube: used to wait until every kind is served.
        changes: applies what the watches show, on the calling event loop.
        freshness: records when the watches are answered.
        namespaces: the namespaces to watch; empty: all.
    """
    await _until_served(kube)
    stop, loop = threading.Event(), asyncio.get_running_loop()

    def start(selector: str, kinds: Iterable[WatchedKind]) -> asyncio.Future[None]:
        registry, end = register(changes, freshness, loop, kinds), Future[None]()
        # A stop that takes longer than its time does not cancel it, so that the thread can still set its result.
        end.set_running_or_notify_cancel()

        def run() -> None:
            try:
                uvloop.run(
                    kopf.operator(
                        registry=registry,
                        settings=kopf_settings(selector),
                        clusterwide=not namespaces,
                        namespaces=namespaces,
                        stop_flag=stop,
                        memo=(),  # kopf keeps a copy for each object, and an empty tuple needs none
                        # Without an identity, kopf asks for the user name, and an unprivileged uid has no name.
                        identity="hookwright-operator",  # type: ignore[arg-type]
                    )
                )
            except BaseException as error:  # noqa: BLE001 - passed to the waiting caller
                end.set_exception(error)
            else:
                end.set_result(None)

        threading.Thread(target=run, name="kopf", daemon=True).start()
        return asyncio.wrap_future(end)

    # kopf has one selector for each resource, so a second instance watches the Secrets with the other labels.
    waiters = [start(SELECTORS[0], (*MODELS, None)), start(SELECTORS[1], (None, "ConfigMap"))]
    try:
        ended_waiters, _ = await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
        ended_waiters.pop().result()
    finally:
        stop.set()
        with contextlib.suppress(Exception):
            await asyncio.wait_for(asyncio.gather(*waiters, return_exceptions=True), _STOP_SECONDS)

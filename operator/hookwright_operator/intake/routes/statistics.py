"""Statistics of one endpoint, and of all endpoints of a project."""

from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from hookwright_operator.intake.asgi import client_of
from hookwright_operator.intake.auth import Access, ReviewAuth
from hookwright_operator.intake.routes.endpoints import ENDPOINT, NAMESPACE, permitted_endpoint
from hookwright_operator.intake.timestamps import timestamp
from hookwright_operator.services import IntakeServices
from hookwright_operator.services.messages import MessageCounts
from hookwright_operator.store.latency_classes import percentile
from hookwright_operator.store.records import Bucket, Series, Window
from hookwright_runtime.places import Places
from hookwright_runtime.problems import FieldFault, ProblemError, not_found

DEFAULT_WINDOW: Final = Window.DAY


class StatisticsRoutes:
    """Routes of statistics; a namespace reads them in turn with its delivery log."""

    def __init__(self, services: IntakeServices, auth: ReviewAuth, reads: Places) -> None:
        self._services, self._auth, self._reads = services, auth, reads

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route(f"{ENDPOINT}/statistics", self.of_endpoint),
            Route(f"{NAMESPACE}/projects/{{project}}/statistics", self.of_project),
        ]

    async def of_endpoint(self, request: Request) -> JSONResponse:
        """Return the statistics of an endpoint (``?window=1h|24h|7d``)."""
        endpoint, _ = await permitted_endpoint(self._services, self._auth, request, "get", "deliveries")
        window = window_of(request.query_params.get("window"))
        with await self._reads.acquire(endpoint.namespace):
            found = document(await self._services.statistics.of(endpoint.uid, window))
            counts = await self._services.messages.counts(endpoint.uid) if endpoint.pulled else None
        return JSONResponse({**found, "messages": counts and _messages(counts)})

    async def of_project(self, request: Request) -> JSONResponse:
        """Return the statistics of all endpoints of a project, also of deleted ones (``?window=1h|24h|7d``)."""
        namespace, project = request.path_params["namespace"], request.path_params["project"]
        access = Access("get", "webhookendpoints", "deliveries", namespace, "")
        await self._auth.permit(request.headers, access, client_of(request.scope))
        if not self._services.registry.has_project(namespace, project):
            raise not_found(f'Project "{project}" in namespace "{namespace}"')
        window = window_of(request.query_params.get("window"))
        uid = self._services.registry.project_uid(namespace, project)
        with await self._reads.acquire(namespace):
            return JSONResponse(document(await self._services.statistics.of(uid, window)))


def window_of(given: str | None) -> Window:
    """Return the window of a query, `DEFAULT_WINDOW` if it has none.

    Raises:
        ProblemError: 422, there is no such window.
    """
    if not given:
        return DEFAULT_WINDOW
    if given not in set(Window):
        fault = FieldFault("window", f"is unknown; send one of {', '.join(Window)}")
        raise ProblemError(422, "the query is wrong", errors=(fault,))
    return Window(given)


def document(series: Series) -> dict[str, object]:
    """Return statistics in the form of the answer."""
    width, begins = series.window.width_s, [begin for begin, _ in series.buckets]
    return {
        "window": series.window,
        "bucket_seconds": width,
        "since": timestamp(begins[0] * 1000),
        "until": timestamp((begins[-1] + width) * 1000),
        "total": _numbers(series.total),
        "buckets": [{"since": timestamp(begin * 1000), **_numbers(bucket)} for begin, bucket in series.buckets],
    }


def _messages(counts: MessageCounts) -> dict[str, object]:
    return {
        "waiting": counts.waiting,
        "oldest_waiting_since": None if counts.oldest_ms is None else timestamp(counts.oldest_ms),
        "leased": counts.leased,
        "delayed": counts.delayed,
    }


def _numbers(bucket: Bucket) -> dict[str, object]:
    return {
        "delivered": bucket.delivered,
        "failed": bucket.failed,
        "attempts": bucket.attempts,
        # Each successful attempt has a latency.
        "failed_attempts": bucket.attempts - sum(bucket.latencies),
        "latency_p50_ms": percentile(bucket.latencies, 0.50),
        "latency_p95_ms": percentile(bucket.latencies, 0.95),
    }

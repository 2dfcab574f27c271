"""Statistics of one endpoint, and of all endpoints of a project; a namespace reads them in turn with its log."""

from typing import Any

from starlette.requests import Request

from hookwright_crds.documents.statistics_bodies import (
    BucketAnswer,
    MessageCountsAnswer,
    NumbersAnswer,
    StatisticsAnswer,
    StatisticsQuery,
    WebhookStatisticsAnswer,
)
from hookwright_crds.operations import Right
from hookwright_crds.timestamps import timestamp
from hookwright_operator.intake.context import IntakeContext
from hookwright_operator.store.latency_classes import percentile
from hookwright_operator.store.message_leases import MessageCounts
from hookwright_operator.store.records import Bucket, Series, Window
from hookwright_operator.store.sql.pull import count_messages
from hookwright_runtime.problems import not_found
from hookwright_runtime.validation import query_of


async def of_endpoint(intake: IntakeContext, request: Request, right: Right) -> WebhookStatisticsAnswer:
    """Return the statistics of an endpoint."""
    endpoint, _ = await intake.endpoint(request, right)
    window = _window(request)
    with await intake.reads.acquire(endpoint.namespace):
        series = await intake.services.store.statistics.of(endpoint.uid, window)
        counts = None
        if endpoint.pulled:
            now_ms = intake.services.messages.clock_ms()
            counts = await intake.services.store.read_log(count_messages, endpoint.uid, now=now_ms)
    return WebhookStatisticsAnswer(**_fields(series), messages=_messages(counts) if counts else None)


async def of_project(intake: IntakeContext, request: Request, right: Right) -> StatisticsAnswer:
    """Return the statistics of all endpoints of a project, also of deleted ones."""
    namespace, project = request.path_params["namespace"], request.path_params["project"]
    await intake.permit(request, right)
    settings = intake.services.registry.project(namespace, project)
    if settings is None:
        raise not_found(f'Project "{project}" in namespace "{namespace}"')
    window = _window(request)
    with await intake.reads.acquire(namespace):
        return StatisticsAnswer(**_fields(await intake.services.store.statistics.of(settings.uid, window)))


def _window(request: Request) -> Window:
    return Window(query_of(StatisticsQuery, request.query_params).window)


def _fields(series: Series) -> dict[str, Any]:
    width, begins = series.window.width_s, [begin for begin, _ in series.buckets]
    return {
        "window": series.window.value,
        "bucket_seconds": width,
        "since": timestamp(begins[0] * 1000),
        "until": timestamp((begins[-1] + width) * 1000),
        "total": NumbersAnswer(**_numbers(series.total)),
        "buckets": [
            BucketAnswer(since=timestamp(begin * 1000), **_numbers(bucket)) for begin, bucket in series.buckets
        ],
    }


def _messages(counts: MessageCounts) -> MessageCountsAnswer:
    return MessageCountsAnswer(
        waiting=counts.waiting,
        oldest_waiting_since=None if counts.oldest_ms is None else timestamp(counts.oldest_ms),
        leased=counts.leased,
        delayed=counts.delayed,
    )


def _numbers(bucket: Bucket) -> dict[str, Any]:
    return {
        "delivered": bucket.delivered,
        "failed": bucket.failed,
        "attempts": bucket.attempts,
        # Each successful attempt has a latency.
        "failed_attempts": bucket.attempts - sum(bucket.latencies),
        "latency_p50_ms": percentile(bucket.latencies, 0.50),
        "latency_p95_ms": percentile(bucket.latencies, 0.95),
    }

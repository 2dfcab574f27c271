"""Pure: the bodies of statistics."""

from typing import Literal

from pydantic import Field

from hookwright_crds.documents.forms import TIME_EXAMPLE, Answer, Request

Window = Literal["1h", "24h", "7d"]


class StatisticsQuery(Request):
    """The query for statistics."""

    window: Window = Field(
        default="24h",
        description="60 buckets of a minute, 96 of 15 minutes, or 84 of two hours. The last bucket is the present.",
    )


class NumbersAnswer(Answer):
    """The numbers of a span of time."""

    delivered: int = Field(description="Deliveries that became delivered within this time.", examples=[120])
    failed: int = Field(description="Deliveries that became failed within this time: no attempt follows.", examples=[1])
    attempts: int = Field(description="All attempts, successful or not.", examples=[126])
    failed_attempts: int = Field(
        description="Attempts without success. An outage of a receiver is visible here at once.", examples=[6]
    )
    latency_p50_ms: int | None = Field(
        description="Half of the successful attempts took this many milliseconds or less; null if there was none.",
        examples=[84],
    )
    latency_p95_ms: int | None = Field(
        description="95 % of the successful attempts took this many milliseconds or less; null if there was none.",
        examples=[410],
    )


class BucketAnswer(NumbersAnswer):
    """The numbers of one bucket."""

    since: str = Field(description="The begin of the bucket.", examples=[TIME_EXAMPLE])


class StatisticsAnswer(Answer):
    """The statistics of a window of time."""

    window: Window
    bucket_seconds: int = Field(description="The length of each bucket.", examples=[900])
    since: str = Field(description="The begin of the first bucket.", examples=[TIME_EXAMPLE])
    until: str = Field(description="The end of the last bucket, which is not complete.", examples=[TIME_EXAMPLE])
    total: NumbersAnswer
    buckets: list[BucketAnswer] = Field(description="All buckets of the window, the oldest first.")


class MessageCountsAnswer(Answer):
    """The messages of a webhook with pull that are not settled; of each kind at most 10,000 are counted."""

    waiting: int = Field(description="Messages that are due, and that no consumer has.", examples=[12])
    oldest_waiting_since: str | None = Field(
        description="Since when the oldest of them waits; null if none waits.", examples=[TIME_EXAMPLE]
    )
    leased: int = Field(description="Messages that a consumer has and has not settled.", examples=[3])
    delayed: int = Field(
        description="Messages that were refused, or whose lease ended, and that are due later.", examples=[1]
    )


class WebhookStatisticsAnswer(StatisticsAnswer):
    """The statistics of a webhook."""

    messages: MessageCountsAnswer | None = Field(description="The state of its messages now; null without pull.")

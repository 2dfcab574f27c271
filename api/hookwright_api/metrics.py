"""Every metric of the API, with its labels and help.

Labels are bounded: never a URL, never an id, and no namespace, project or endpoint; the label of a route is its
template.
"""

from importlib.metadata import version
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

from hookwright_runtime import refusals

_FAST: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

REQUESTS: Final = Counter(
    "hookwright_api_requests", "Requests answered, by route template, method and status.", ["route", "method", "status"]
)
REQUEST_DURATION: Final = Histogram(
    "hookwright_api_request_duration_seconds", "Duration of one request.", ["route"], buckets=_FAST
)
REJECTIONS: Final = Counter(
    "hookwright_rate_limit_rejections", "Requests answered 429, by the exceeded limit.", ["scope"]
)
LIMITS_AVAILABLE: Final = Gauge(
    "hookwright_rate_limit_storage_available", "1 while the counters' server answers, 0 while it is unavailable."
)
VIEW_AGE: Final = Gauge(
    "hookwright_api_view_age_seconds",
    "Seconds since the last data of the API server on a watch; idle watches send a bookmark about every minute.",
    ["resource"],
)
VIEW_LISTS: Final = Counter("hookwright_api_view_lists", "Lists that rebuilt a part of the view.", ["resource"])
HTTP_REFUSALS: Final = refusals.HTTP_REFUSALS
BUILD_INFO: Final = Gauge("hookwright_api_build_info", "1, with the API's version.", ["version"])

BUILD_INFO.labels(version("hookwright")).set(1)

"""Pure: the types of an endpoint's fields that people set, by YAML or `/v1`, with their limits."""

from collections.abc import Iterable
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, StrictInt, StringConstraints

from hookwright_crds.base import Duration, Timestamp, parse_duration
from hookwright_crds.events import SUBSCRIPTIONS
from hookwright_crds.urls import MAX_URL_LENGTH, check_url

MAX_HEADERS: Final = 32
TIMEOUT_BOUNDS: Final = ("1s", "30s")
OVERLAP_BOUNDS: Final = ("0s", "168h")
LEASE_BOUNDS: Final = ("1s", "1h")
DEFAULT_LEASE: Final = "30s"
DEFAULT_TIMEOUT: Final = "15s"
DEFAULT_MAX_IN_FLIGHT: Final = 8
"""Of an endpoint that sets neither; ``DEFAULT_LEASE`` is that of one with pull and without a lease."""
URL_OR_PULL_SENTENCE: Final = "exactly one of url and pull must be set"
PUSH_ONLY_SENTENCE: Final = (
    "timeout, maxInFlight and rateLimit limit requests to a url; omit them for an endpoint with pull"
)
RESERVED_HEADERS: Final = frozenset(
    {
        "connection", "content-encoding", "content-length", "content-type", "expect", "host", "keep-alive",
        "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "user-agent",
        "webhook-id", "webhook-signature", "webhook-timestamp", "x-service-signature",
    }
)  # fmt: skip
"""Header names, lower case, that Hookwright or HTTP itself sets (RFC 9110, Standard Webhooks)."""
HEADER_NAME_PATTERN: Final = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}$"
HEADER_VALUE_PATTERN: Final = r"^[\x20-\x7e\x80-\xff]*$"
CLOUDEVENTS: Final = "cloudevents"
"""The format in which deliveries have ``ce-`` headers."""
CLOUDEVENT_HEADERS_SENTENCE: Final = "headers must not set ce- headers, which Hookwright sets if format is cloudevents"


def _known_event(name: str) -> str:
    if name not in SUBSCRIPTIONS:
        raise ValueError(f"unknown event type; known are {', '.join(SUBSCRIPTIONS)}")
    return name


def _each_once(events: tuple[str, ...]) -> tuple[str, ...]:
    if repeated := [event for event in dict.fromkeys(events) if events.count(event) > 1]:
        raise ValueError(f"events must not name an event type twice: {', '.join(repeated)}")
    return events


def _timeout_within_bounds(timeout: str) -> str:
    low, high = (parse_duration(bound) for bound in TIMEOUT_BOUNDS)
    if not low <= parse_duration(timeout) <= high:
        raise ValueError(f"timeout must be from {TIMEOUT_BOUNDS[0]} to {TIMEOUT_BOUNDS[1]}")
    return timeout


def _not_reserved(headers: dict[str, str]) -> dict[str, str]:
    reserved = sorted(name for name in headers if name.lower() in RESERVED_HEADERS)
    if reserved:
        raise ValueError(f"headers must not set {', '.join(reserved)}, which Hookwright or HTTP itself sets")
    return headers


def check_format(sent_as: str, headers: Iterable[str]) -> None:
    """Return if an endpoint of a format may have these headers, raise ValueError otherwise."""
    if sent_as == CLOUDEVENTS and any(name.lower().startswith("ce-") for name in headers):
        raise ValueError(CLOUDEVENT_HEADERS_SENTENCE)


def check_target(url: object, pull: object, *, timeout: str, max_in_flight: int, rate_limit: object) -> None:
    """Return if an endpoint has either a url or pull, raise ValueError otherwise.

    With pull, the fields that limit requests to a url must have their defaults.

    Args:
        url: None if it is not set.
        pull: None if it is not set.
        timeout: of a request.
        max_in_flight: requests at once.
        rate_limit: None if it is not set.
    """
    if (url is None) == (pull is None):
        raise ValueError(URL_OR_PULL_SENTENCE)
    if pull is not None and (timeout, max_in_flight, rate_limit) != (DEFAULT_TIMEOUT, DEFAULT_MAX_IN_FLIGHT, None):
        raise ValueError(PUSH_ONLY_SENTENCE)


def lease_within_bounds(lease: str) -> str:
    """Return the lease of a message, raise ValueError if it is too short or too long."""
    low, high = (parse_duration(bound) for bound in LEASE_BOUNDS)
    if not low <= parse_duration(lease) <= high:
        raise ValueError(f"lease must be from {LEASE_BOUNDS[0]} to {LEASE_BOUNDS[1]}")
    return lease


def overlap_within_bounds(overlap: str) -> str:
    """Return an overlap of a rotation, raise ValueError if it is too long."""
    if parse_duration(overlap) > parse_duration(OVERLAP_BOUNDS[1]):
        raise ValueError(f"overlap must be from {OVERLAP_BOUNDS[0]} to {OVERLAP_BOUNDS[1]}")
    return overlap


HeaderName = Annotated[str, StringConstraints(pattern=HEADER_NAME_PATTERN)]
HeaderValue = Annotated[str, StringConstraints(max_length=4096, pattern=HEADER_VALUE_PATTERN)]


Url = Annotated[
    str,
    Field(
        description="URL of the receiver: an absolute https URL without userinfo or fragment "
        "(http only if the installation allows it).",
        min_length=1,
        max_length=MAX_URL_LENGTH,
    ),
    AfterValidator(check_url),
]
Subscription = Annotated[str, AfterValidator(_known_event), Field(json_schema_extra={"enum": [*SUBSCRIPTIONS]})]
Events = Annotated[
    tuple[Subscription, ...],
    Field(
        description="Event types to deliver, each once. * means every type, wa_* and sms_* every type of a channel, "
        "also types that a later version adds.",
        min_length=1,
        max_length=len(SUBSCRIPTIONS),
    ),
    AfterValidator(_each_once),
]
Description = Annotated[str, Field(description="Text for people.", max_length=1024)]
Timeout = Annotated[
    Duration, Field(description="Timeout of one whole attempt, from 1s to 30s."), AfterValidator(_timeout_within_bounds)
]
MaxInFlight = Annotated[
    StrictInt,
    Field(
        description="Maximum attempts in flight at once, from 1 to 64. After an attempt timed out, "
        "at most 2 are in flight until one succeeds.",
        ge=1,
        le=64,
    ),
]
Headers = Annotated[
    dict[HeaderName, HeaderValue],
    Field(
        description="Static headers of every delivery: at most 32, each value at most 4,096 characters. "
        "Headers that HTTP or Hookwright sets are refused. "
        "Do not put secrets here: everyone who can read this object, as with kubectl describe, sees the values.",
        max_length=MAX_HEADERS,
    ),
    AfterValidator(_not_reserved),
]
Format = Annotated[
    Literal["json", "cloudevents"],
    Field(
        description="json: the event is the body. cloudevents: the same body, as a CloudEvent in binary mode: id, "
        "source, type, time, subject and extensions are ce- headers."
    ),
]
PerMinute = Annotated[
    StrictInt, Field(description="Maximum attempts per minute, evenly spaced, from 1 to 60000.", ge=1, le=60_000)
]
Lease = Annotated[
    Duration,
    Field(
        description="How long a consumer may keep a message before it acknowledges it, if it requests no other time: "
        "from 1s to 1h."
    ),
    AfterValidator(lease_within_bounds),
]
Overlap = Annotated[
    Duration,
    Field(description="How long a replaced secret still signs beside the new one, from 0s to 168h."),
    AfterValidator(overlap_within_bounds),
]
ExpiresAt = Annotated[
    Timestamp,
    Field(
        description="When the endpoint expires; never, if not set. Then it gets no more events, its pending deliveries "
        "are discarded, and the operator deletes it if /v1 or the command line created it."
    ),
]

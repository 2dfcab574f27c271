"""Pure: the fields of an endpoint that people set, by YAML, `/v1`, console or command line, each written once."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated, Final, Literal, Self, TypeVar

from pydantic import AfterValidator, Field, StrictInt, StringConstraints, model_validator

from hookwright_crds.base import Duration, Model, Timestamp, at_most, parse_duration, within
from hookwright_crds.events import MAX_SUBSCRIPTIONS, MAX_TYPE_LENGTH, SUBSCRIPTION_PATTERN
from hookwright_crds.urls import MAX_URL_LENGTH, check_url

MAX_HEADERS: Final = 32
TIMEOUT_BOUNDS: Final = ("1s", "30s")
OVERLAP_BOUNDS: Final = ("0s", "168h")
LEASE_BOUNDS: Final = ("1s", "1h")
SCHEDULE_BOUNDS: Final = ("1s", "168h")
"""The shortest delay of a retry schedule, and the longest sum of its delays."""
RETRY_AFTER_BOUNDS: Final = ("0s", "24h")
MAX_ENTRIES: Final = 20
SCHEDULE_SENTENCE: Final = "schedule must have delays of at least 1s, such as 30s or 2h, and at most 168h in all"
URL_OR_PULL_SENTENCE: Final = "exactly one of url and pull must be set"
PUSH_ONLY_SENTENCE: Final = "{} limits requests to a url; omit it for an endpoint with pull"
PUSH_FIELDS: Final = ("timeout", "max_in_flight", "rate_limit", "max_attempts", "retry", "suspend_after")
"""Fields that limit requests to a url."""
HIDDEN_FIELDS: Final = ("headers",)
"""Fields that no answer shows, because a receiver may use a value as a credential."""
RESERVED_HEADERS: Final = frozenset(
    {
        "connection", "content-encoding", "content-length", "content-type", "expect", "host", "keep-alive",
        "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "user-agent",
        "webhook-id", "webhook-signature", "webhook-timestamp", "x-service-signature",
    }
)  # fmt: skip
"""Header names, lower case, that Hookwright or HTTP itself sets (RFC 9110, Standard Webhooks)."""
SIGNATURE_RESERVED: Final = RESERVED_HEADERS | {"accept", "accept-encoding", "traceparent", "tracestate"}
"""Names that the extra signature cannot have: unlike a static header, it replaces no header that Hookwright sends."""
SIGNATURE_HEADER_SENTENCE: Final = (
    "the extra signature needs a header of its own, which neither headers nor Hookwright or HTTP itself sets"
)
DAYS_PATTERN: Final = r"^([1-9]|[12][0-9]|30)d$"
HEADER_NAME_PATTERN: Final = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}$"
HEADER_VALUE_PATTERN: Final = r"^[\x20-\x7e\x80-\xff]*$"
CLOUDEVENTS: Final = "cloudevents"
"""The format in which deliveries have ``ce-`` headers."""
CLOUDEVENT_HEADERS_SENTENCE: Final = "headers must not set ce- headers, which Hookwright sets if format is cloudevents"


def _each_once(events: tuple[str, ...]) -> tuple[str, ...]:
    if duplicates := [event for event in dict.fromkeys(events) if events.count(event) > 1]:
        raise ValueError(f"events must not name an event type twice: {', '.join(duplicates)}")
    return events


def _within_a_week(schedule: tuple[str, ...]) -> tuple[str, ...]:
    shortest, longest = map(parse_duration, SCHEDULE_BOUNDS)
    delays = [*map(parse_duration, schedule)]
    if min(delays, default=shortest) < shortest or sum(delays, timedelta()) > longest:
        raise ValueError(SCHEDULE_SENTENCE)
    return schedule


def _not_reserved(headers: dict[str, str]) -> dict[str, str]:
    names = sorted(name for name in headers if name.lower() in RESERVED_HEADERS)
    if names:
        raise ValueError(f"headers must not set {', '.join(names)}, which Hookwright or HTTP itself sets")
    return headers


HeaderName = Annotated[str, StringConstraints(pattern=HEADER_NAME_PATTERN)]
HeaderValue = Annotated[str, StringConstraints(max_length=4096, pattern=HEADER_VALUE_PATTERN)]
FinalStatus = Annotated[StrictInt, Field(ge=300, le=599)]
Subscription = Annotated[str, StringConstraints(max_length=MAX_TYPE_LENGTH, pattern=SUBSCRIPTION_PATTERN)]
Overlap = Annotated[
    Duration,
    Field(
        description="How long a replaced secret still signs: webhook-signature beside the new one, and "
        "X-Service-Signature alone. From 0s to 168h; 0s ends all replaced secrets at once, as after a leak."
    ),
    within("overlap", OVERLAP_BOUNDS),
]


F = TypeVar("F", bound="EndpointFields")
T = TypeVar("T")
Entries = Annotated[tuple[T, ...], Field(min_length=1, max_length=MAX_ENTRIES), at_most(MAX_ENTRIES)]


class RateLimit(Model):
    """The rate limit of an endpoint."""

    per_minute: StrictInt = Field(
        title="Rate limit, attempts a minute",
        description="Maximum attempts per minute, evenly spaced, from 1 to 60000.",
        ge=1,
        le=60_000,
        examples=[600],
    )


class Pull(Model):
    """How consumers take the messages of an endpoint without a URL."""

    lease: Annotated[Duration, within("lease", LEASE_BOUNDS)] = Field(
        default="30s",
        title="Lease of a message",
        description="How long a consumer may keep a message before it acknowledges it, if it requests no other time: "
        "from 1s to 1h.",
        examples=["30s"],
    )


class Retry(Model):
    """How failed attempts of an endpoint are repeated; a field that is not set is as in the installation."""

    schedule: Annotated[Entries[Duration], AfterValidator(_within_a_week)] | None = Field(
        default=None,
        title="Delays before retries",
        description="The delay before each retry, in place of the installation's schedule: 1 to 20 delays, each at "
        "least 1s, 168h in all. A delivery has one attempt more than there are delays.",
        examples=[["30s", "10m", "2h"]],
    )
    retry_after_max: Annotated[Duration, within("retryAfterMax", RETRY_AFTER_BOUNDS)] | None = Field(
        default=None,
        title="Longest Retry-After",
        description="The longest delay that a 429 or 503 may ask for by Retry-After, from 0s to 24h. Without it, this "
        "is the next delay of the schedule, or the double of the last one.",
        examples=["1h"],
    )
    end_on: Entries[FinalStatus] | None = Field(
        default=None,
        title="Statuses without a retry",
        description="Statuses of HTTP that end a delivery at once as failed, from 300 to 599, at most 20.",
        examples=[[410]],
    )


class ExtraSignature(Model):
    """One more signature header, as another sender signs, for receivers that verify that."""

    form: Literal["github", "stripe", "hex"] = Field(
        title="Form of an extra signature",
        description="github: sha256= and the HMAC-SHA256 of the body in hex. stripe: t= and v1=, which signs the time "
        "too. hex: the HMAC-SHA256 of the body alone. The key is the secret's text.",
        examples=["github"],
    )
    header: Annotated[HeaderName, Field(max_length=256)] = Field(
        title="Header of an extra signature",
        description="Name of the header; no other one may have it.",
        examples=["X-Hub-Signature-256"],
    )


class EndpointFields(Model):
    """The fields of an endpoint that have the same form on every surface; it has either a url or pull."""

    url: Annotated[str, AfterValidator(check_url)] | None = Field(
        default=None,
        title="URL of your receiver",
        description="URL of the receiver: an absolute https URL without userinfo or fragment "
        "(http only if the installation allows it). Not set for an endpoint with pull.",
        min_length=1,
        max_length=MAX_URL_LENGTH,
        examples=["https://example.com/hooks"],
    )
    pull: Pull | None = Field(
        default=None,
        description="Instead of a url: messages wait until a consumer takes and acknowledges them. "
        "Fields that limit requests to a url do not apply.",
    )
    events: Annotated[tuple[Subscription, ...], at_most(MAX_SUBSCRIPTIONS), AfterValidator(_each_once)] = Field(
        description="Event types to deliver, each once: built-in ones, and names of EventTypes. * means "
        "every type, own ones too, wa_* and sms_* every type of a channel, also types that a later version adds, "
        "except hookwright.* types, which are about another endpoint of the project. A type that you remove gets no "
        "new deliveries; pending ones are still sent.",
        min_length=1,
        max_length=MAX_SUBSCRIPTIONS,
        examples=[["delivered", "bounced"]],
    )
    description: str = Field(default="", description="Text for people.", max_length=1024, examples=["Orders"])
    headers: Annotated[dict[HeaderName, HeaderValue], at_most(MAX_HEADERS), AfterValidator(_not_reserved)] = Field(
        default_factory=dict,
        title="Static headers",
        description="Static headers of every delivery: at most 32, each value at most 4,096 characters. "
        "Headers that HTTP or Hookwright sets are refused. "
        "Do not put secrets here: everyone who can read this object, as with kubectl describe, sees the values.",
        max_length=MAX_HEADERS,
    )
    extra_signature: ExtraSignature | None = Field(
        default=None,
        description="One more signature header, for receivers that verify the signature of another sender.",
    )
    timeout: Annotated[Duration, within("timeout", TIMEOUT_BOUNDS)] = Field(
        default="15s",
        title="Timeout of an attempt",
        description="Timeout of one whole attempt, from 1s to 30s; an installation can have a shorter maximum.",
        examples=["15s"],
    )
    max_in_flight: StrictInt = Field(
        default=8,
        title="Attempts in flight at once",
        description="Maximum attempts in flight at once, from 1 to 64. After an attempt timed out, "
        "at most 2 are in flight until one succeeds.",
        ge=1,
        le=64,
        examples=[8],
    )
    rate_limit: RateLimit | None = Field(
        default=None, description="Maximum rate of attempts to this endpoint; no limit if not set."
    )
    max_attempts: StrictInt | None = Field(
        default=None,
        title="Attempts of a delivery",
        description="Maximum attempts of one delivery, from 1 to 100; 1 means no retries. It shortens the retry "
        "schedule of the installation, which has 6 attempts by default, and never lengthens it.",
        ge=1,
        le=100,
        examples=[3],
    )
    retry: Retry | None = Field(default=None, description="How failed attempts are repeated.")
    suspend_after: Annotated[str, StringConstraints(max_length=18, pattern=DAYS_PATTERN)] | None = Field(
        default=None,
        title="Suspend after days without a success",
        description="The operator suspends the endpoint if an attempt fails this time (1d to 30d) after the first "
        "failure, without a success between them. Deliveries wait until a test succeeds, one is retried by hand, or "
        "the endpoint changes.",
        examples=["5d"],
    )
    format: Literal["json", "cloudevents"] = Field(
        default="json",
        description="json: the event is the body. cloudevents: the same body, as a CloudEvent in binary mode: id, "
        "source, type, time, subject and extensions are ce- headers.",
        examples=["json"],
    )
    expires_at: Timestamp | None = Field(
        default=None,
        title="Expires",
        description="When the endpoint expires; never, if not set. Then it gets no more events, its pending deliveries "
        "are discarded, and the operator deletes it if /v1 or the command line created it. The annotation "
        'hookwright.dev/deletion-protection: "true" keeps pending deliveries.',
        examples=["2026-01-31T12:00:00Z"],
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        return check_consistent(self)


def check_consistent(fields: F) -> F:
    """Return the fields of an endpoint if each fits the others, raise ValueError otherwise."""
    if fields.format == CLOUDEVENTS and any(name.lower().startswith("ce-") for name in fields.headers):
        raise ValueError(CLOUDEVENT_HEADERS_SENTENCE)
    if fields.extra_signature is not None:
        name, own_names = fields.extra_signature.header.lower(), map(str.lower, fields.headers)
        if name in SIGNATURE_RESERVED or name.startswith("ce-") or name in own_names:
            raise ValueError(SIGNATURE_HEADER_SENTENCE)
    if (fields.url is None) == (fields.pull is None):
        raise ValueError(URL_OR_PULL_SENTENCE)
    check_push_only(fields, PUSH_FIELDS)
    return fields


def check_push_only(fields: EndpointFields, names: Iterable[str]) -> None:
    """Return if an endpoint with ``pull`` has the defaults of these fields, raise ValueError otherwise."""
    for name in names:
        info = type(fields).model_fields[name]
        if fields.pull is not None and getattr(fields, name) != info.get_default(call_default_factory=True):
            raise ValueError(PUSH_ONLY_SENTENCE.format(info.alias or name))

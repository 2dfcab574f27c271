"""Pure: the event catalogue, the only place that names every built-in event type, and the names of own types.

Source: the wire contract, section "Event types". A type is the string that producers send, that endpoints subscribe to
and that receivers see in the payload's ``type``. An own type is an EventType of the organization; its name is the type.
"""

import re
from bisect import bisect
from collections.abc import Collection, Iterable
from enum import StrEnum
from heapq import nlargest
from itertools import pairwise
from typing import Any, Final

from hookwright_crds.base import NAME_PATTERN

CLOUDEVENT_PREFIX: Final = "dev.hookwright."
"""The prefix that a CloudEvent's ``type`` may have."""
OPERATIONAL_PREFIX: Final = "hookwright."
"""The beginning of the types of operational events."""
MAX_EVENTS: Final = 1000
"""Most events in one request."""
MAX_TYPE_LENGTH: Final = 128
"""Most characters of an event type."""
MAX_SUBSCRIPTIONS: Final = 100
"""Most event types and wildcards that an endpoint names, and most types of a replay."""
_NEIGHBOURS: Final = 5
"""Own types before and after a wrong name, in the order of the alphabet, that are compared with it."""
_MOST_SORTED: Final = 1000
"""Own types that are sorted for that; if there are more, none is compared."""

_NAMES_AT_MOST: Final = 3
_LEAST_LIKENESS: Final = 0.5
"""How many of the nearest names a message has, and how alike they are at least."""


class Channel(StrEnum):
    """The messaging channel that an event type belongs to, Hookwright itself, or the organization."""

    EMAIL = "email"
    WHATSAPP = "whatsapp"
    SMS = "sms"
    HOOKWRIGHT = "hookwright"
    OWN = "own"


class Operational(StrEnum):
    """The types of operational events: the operator sends them about one endpoint to others of its project."""

    FAILING = "hookwright.endpoint.failing"
    RECOVERED = "hookwright.endpoint.recovered"
    SUSPENDED = "hookwright.endpoint.suspended"
    SECRET_ROTATED = "hookwright.endpoint.secret_rotated"  # noqa: S105 - the name of a type
    CREDENTIALS_REFUSED = "hookwright.endpoint.credentials_refused"
    DELIVERY_FAILED = "hookwright.delivery.failed"


CATALOGUE: Final[dict[Channel, dict[str, str]]] = {
    Channel.EMAIL: {
        "delivered": "The recipient's mail server accepted the message.",
        "bounced": "The recipient's mail server refused the message for ever, for example an unknown address.",
        "soft_bounce": "The recipient's mail server refused the message for now, for example a full mailbox.",
        "complained": "The recipient reported the message as spam.",
        "opened": "The recipient opened the message. Some mail programs load images without a reader.",
        "clicked": "The recipient followed a link of the message.",
        "failed": "All providers are exhausted; the message was moved to the dead-letter queue.",
    },
    Channel.WHATSAPP: {
        "wa_sent": "WhatsApp accepted the message.",
        "wa_delivered": "The message is on the recipient's phone.",
        "wa_read": "The recipient read the message.",
        "wa_failed": "WhatsApp delivery failed after all provider retries.",
        "wa_replied": "The recipient answered the message.",
    },
    Channel.SMS: {
        "sms_sent": "The operator of the mobile network accepted the message.",
        "sms_delivered": "The message is on the recipient's phone.",
        "sms_failed": "The message could not be sent or delivered.",
        "sms_replied": "The recipient answered the message.",
    },
    Channel.HOOKWRIGHT: {
        Operational.FAILING: "Attempts of an endpoint have failed for more than 5 minutes, and none succeeded.",
        Operational.RECOVERED: "An attempt of a failing endpoint succeeded.",
        Operational.SUSPENDED: "The operator suspended an endpoint without a success, by spec.suspendAfter; deliveries "
        "wait.",
        Operational.SECRET_ROTATED: "An endpoint has a new signing secret; its receiver needs it.",
        Operational.CREDENTIALS_REFUSED: "A credential of an endpoint is missing, cannot be used, or may not go to "
        "its host; deliveries wait.",
        Operational.DELIVERY_FAILED: "Deliveries failed after their last retry: at most one event a minute for each "
        "endpoint, with their number.",
    },
}
"""The meaning of each event type, by channel."""

_FIELDS: Final[dict[Channel, dict[str, Any]]] = {
    Channel.EMAIL: {"recipient": "ada@example.com"},
    Channel.WHATSAPP: {"recipient": "+15550100"},
    Channel.SMS: {"recipient": "+15550100"},
    Channel.HOOKWRIGHT: {
        "project": "billing",
        "endpoint": "orders",
        "at": "2026-01-31T12:00:00Z",
        "reason": "Failing",
        "message": "No attempt has succeeded since 2026-01-31T11:54:00Z. Last error: HTTP 500 Internal Server Error",
    },
}
_OWN_FIELDS: Final[dict[str, dict[str, Any]]] = {
    "bounced": {"reason": "550 5.1.1 The mailbox does not exist."},
    "soft_bounce": {"reason": "452 4.2.2 The mailbox is full."},
    "clicked": {"url": "https://example.com/offer"},
    "failed": {"reason": "All providers are exhausted. The last one answered: 421 4.3.2 The service is not available."},
    "wa_failed": {"reason": "All provider retries failed. The last one answered: 131026 The message is undeliverable."},
    "wa_replied": {"text": "Thank you"},
    "sms_failed": {"reason": "The number is not in use."},
    "sms_replied": {"text": "STOP"},
    Operational.RECOVERED: {"reason": "Delivered", "message": "The last attempt was answered 2xx."},
    Operational.SUSPENDED: {
        "reason": "SuspendedAfterFailures",
        "message": "No attempt has succeeded since 2026-01-26T12:00:00Z, so the operator suspended the endpoint.",
    },
    Operational.SECRET_ROTATED: {
        "reason": "SigningSecretRotated",
        "message": "Secret 'orders-signing' has a new signing secret. Give it to the receiver.",
    },
    Operational.CREDENTIALS_REFUSED: {
        "reason": "CredentialsRefused",
        "message": "spec.secretHeaders: Secret 'billing-api' may not go to 'example.com'.",
    },
    Operational.DELIVERY_FAILED: {
        "reason": "DeliveryFailed",
        "message": "3 deliveries failed after the last retry; last error: HTTP 500 Internal Server Error.",
        "count": 3,
    },
}
"""Fields of the examples after `type` and `messageId`: those of the channel, then those of the type."""

EVENT_TYPES: Final[tuple[str, ...]] = tuple(
    name for channel, names in CATALOGUE.items() if channel is not Channel.HOOKWRIGHT for name in names
)
"""Every built-in event type that producers send, in the catalogue's order."""
OPERATIONAL_TYPES: Final[tuple[str, ...]] = tuple(kind.value for kind in Operational)
ALL_TYPES: Final[tuple[str, ...]] = (*EVENT_TYPES, *OPERATIONAL_TYPES)
"""Every built-in event type that receivers get."""

EVERY_TYPE: Final = "*"
"""The wildcard for every event type that producers send, own ones too."""
CHANNEL_WILDCARDS: Final[dict[str, Channel]] = {"wa_*": Channel.WHATSAPP, "sms_*": Channel.SMS}
"""The wildcard of each channel whose event types have a common prefix."""
SUBSCRIPTIONS: Final[tuple[str, ...]] = (*EVENT_TYPES, EVERY_TYPE, *CHANNEL_WILDCARDS, *OPERATIONAL_TYPES)
"""Every built-in event type and wildcard; an endpoint may also subscribe to own types."""


def _pattern(names: Iterable[str]) -> str:
    special_names = [re.escape(name) for name in names if not re.fullmatch(NAME_PATTERN, name)]
    return f"^({'|'.join([*special_names, NAME_PATTERN[1:-1]])})$"


TYPE_PATTERN: Final = _pattern(ALL_TYPES)
"""The form of an event type: a built-in one, or the name of an EventType, whether it exists or not."""
SUBSCRIPTION_PATTERN: Final = _pattern(SUBSCRIPTIONS)
"""The same or a wildcard."""
RESERVED_TYPES: Final = (*EVENT_TYPES, *(name.removeprefix(OPERATIONAL_PREFIX) for name in OPERATIONAL_TYPES))
"""Names that no EventType has: as CloudEvents, the last ones would have the types of operational events."""
OWN_TYPE_SENTENCE: Final = (
    "the name of an EventType has at most 128 characters, is no built-in type, such as delivered or endpoint.failing, "
    f"and does not begin with {OPERATIONAL_PREFIX} or {CLOUDEVENT_PREFIX}"
)

_SENT_TYPES: Final = frozenset(EVENT_TYPES)
_BUILT_IN: Final = frozenset(SUBSCRIPTIONS)
_CHANNEL_OF: Final = {name: channel for channel, names in CATALOGUE.items() for name in names}


class UnknownEventTypeError(ValueError):
    """An event type that is neither built in nor an own type; the message names the nearest types.

    Args:
        name: the unknown type.
        own_types: those of the organization.
        built_in: the built-in types and wildcards that would be right.
    """

    def __init__(self, name: str, own_types: Collection[str] = (), built_in: Iterable[str] = EVENT_TYPES) -> None:
        excerpt = name if len(name) <= 64 else f"{name[:64]}…"
        super().__init__(f"unknown event type {excerpt!r}; {nearest_types(name, own_types, built_in)}")


def nearest_types(name: str, own_types: Collection[str], built_in: Iterable[str]) -> str:
    """Return the part of a sentence that names the types nearest to an unknown one, or all that are built in."""
    bare_name = name.removeprefix(CLOUDEVENT_PREFIX)[:MAX_TYPE_LENGTH]
    ordered_types = sorted(own_types) if len(own_types) <= _MOST_SORTED else []
    place = bisect(ordered_types, bare_name)
    candidates = [*built_in, *ordered_types[max(0, place - _NEIGHBOURS) : place + _NEIGHBOURS]]
    ratios = nlargest(_NAMES_AT_MOST, ((_likeness(bare_name, candidate), candidate) for candidate in candidates))
    if names := [candidate for ratio, candidate in ratios if ratio >= _LEAST_LIKENESS]:
        return f"the nearest {'is' if len(names) == 1 else 'are'} {', '.join(names)}"
    return f"built in are {', '.join(built_in)}"


def _likeness(name: str, candidate: str) -> float:
    """Return the share of equal pairs of letters; `difflib` takes 1 ms for names that a tenant makes for this."""
    pairs, other_pairs = (set(pairwise(text)) for text in (name, candidate))
    return 2 * len(pairs & other_pairs) / max(1, len(pairs) + len(other_pairs))


def event_type(name: str, own_types: Collection[str] = ()) -> str:
    """Return the event type of a producer for ``name``, which may have the CloudEvents prefix.

    Raises:
        UnknownEventTypeError: producers send no such type, and it is none of the organization's own types.
    """
    bare_name = name.removeprefix(CLOUDEVENT_PREFIX)
    if bare_name not in _SENT_TYPES and bare_name not in own_types:
        raise UnknownEventTypeError(name, own_types)
    return bare_name


def delivered_type(name: str) -> str:
    """Return the event type for ``name`` as `event_type`, also an operational one and any own one, for a search.

    Raises:
        UnknownEventTypeError: no event type has this form.
    """
    bare_name = name if is_operational(name) else name.removeprefix(CLOUDEVENT_PREFIX)
    if not _has_form(bare_name, TYPE_PATTERN):
        raise UnknownEventTypeError(name, built_in=ALL_TYPES)
    return bare_name


def is_subscription(name: object) -> bool:
    """Return whether a value has the form of an entry of ``spec.events``; the type need not exist."""
    return isinstance(name, str) and _has_form(name, SUBSCRIPTION_PATTERN)


def _has_form(name: str, pattern: str) -> bool:
    return len(name) <= MAX_TYPE_LENGTH and re.fullmatch(pattern, name) is not None


def is_own_type(name: str) -> bool:
    """Return whether a type or a subscription is in the form of an own type: neither built in nor a wildcard."""
    return name not in _BUILT_IN


def may_name_own_type(name: str) -> bool:
    """Return whether an EventType may have a name, which has the form of an object's name."""
    is_reserved = name in RESERVED_TYPES or name.startswith((OPERATIONAL_PREFIX, CLOUDEVENT_PREFIX))
    return len(name) <= MAX_TYPE_LENGTH and not is_reserved


def is_operational(name: str) -> bool:
    """Return whether an event type is one of Hookwright, and not of a producer."""
    return name.startswith(OPERATIONAL_PREFIX)


def expanded(subscriptions: Iterable[str]) -> frozenset[str]:
    """Return the event types of subscriptions, with the built-in types of this version in place of each wildcard.

    `EVERY_TYPE` stays beside them, because own types come and go.
    """
    types: set[str] = set()
    for name in subscriptions:
        if name == EVERY_TYPE:
            types.update((EVERY_TYPE, *EVENT_TYPES))
        else:
            types.update(CATALOGUE[CHANNEL_WILDCARDS[name]] if name in CHANNEL_WILDCARDS else (name,))
    return frozenset(types)


def example(name: str) -> dict[str, Any]:
    """Return an example of the body that receivers get for an event type of the catalogue."""
    message = {} if is_operational(name) else {"messageId": "m-42"}
    return {"type": name, **message, **_FIELDS[_CHANNEL_OF[name]], **_OWN_FIELDS.get(name, {})}


def described_types() -> list[dict[str, Any]]:
    """Return every built-in event type as `/v1` shows it: channel, meaning, an example and wildcards."""
    return [
        {
            "type": name,
            "channel": channel.value,
            "meaning": meaning,
            "example": example(name),
            "wildcards": [wildcard for wildcard in (EVERY_TYPE, *CHANNEL_WILDCARDS) if name in expanded([wildcard])],
            "deprecated": False,
            "payload_schema": None,
        }
        for channel, names in CATALOGUE.items()
        for name, meaning in names.items()
    ]

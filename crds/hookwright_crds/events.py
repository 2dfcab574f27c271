"""Pure: the event catalogue, the only place that names every event type.

Source: the wire contract, section "Event types". A type is the string that producers send, that endpoints subscribe to
and that receivers see in the payload's ``type``.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final

CLOUDEVENT_PREFIX: Final = "dev.hookwright."
"""The prefix that a CloudEvent's ``type`` may have."""
OPERATIONAL_PREFIX: Final = "hookwright."
"""The beginning of the types of operational events."""
MAX_EVENTS: Final = 1000
"""Most events in one request."""


class Channel(StrEnum):
    """The messaging channel that an event type belongs to, or Hookwright itself."""

    EMAIL = "email"
    WHATSAPP = "whatsapp"
    SMS = "sms"
    HOOKWRIGHT = "hookwright"


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
"""Every event type that producers send, in the catalogue's order."""
OPERATIONAL_TYPES: Final[tuple[str, ...]] = tuple(kind.value for kind in Operational)
ALL_TYPES: Final[tuple[str, ...]] = (*EVENT_TYPES, *OPERATIONAL_TYPES)
"""Every event type that receivers get."""

EVERY_TYPE: Final = "*"
"""The wildcard for every event type that producers send."""
CHANNEL_WILDCARDS: Final[dict[str, Channel]] = {"wa_*": Channel.WHATSAPP, "sms_*": Channel.SMS}
"""The wildcard of each channel whose event types have a common prefix."""
SUBSCRIPTIONS: Final[tuple[str, ...]] = (*EVENT_TYPES, EVERY_TYPE, *CHANNEL_WILDCARDS, *OPERATIONAL_TYPES)
"""Everything that an endpoint may subscribe to: event types and wildcards."""

_SENT_TYPES: Final = frozenset(EVENT_TYPES)
_CHANNEL_OF: Final = {name: channel for channel, names in CATALOGUE.items() for name in names}


class UnknownEventTypeError(ValueError):
    """An event type that is not known."""

    def __init__(self, name: str, known_types: Iterable[str]) -> None:
        excerpt = name if len(name) <= 64 else f"{name[:64]}…"
        super().__init__(f"unknown event type {excerpt!r}; known are {', '.join(known_types)}")


def event_type(name: str) -> str:
    """Return the event type of a producer for ``name``, which may have the CloudEvents prefix.

    Raises:
        UnknownEventTypeError: producers send no such type.
    """
    bare = name.removeprefix(CLOUDEVENT_PREFIX)
    if bare not in _SENT_TYPES:
        raise UnknownEventTypeError(name, EVENT_TYPES)
    return bare


def delivered_type(name: str) -> str:
    """Return the event type for ``name`` as `event_type`, also that of an operational event."""
    if name in ALL_TYPES:
        return name
    try:
        return event_type(name)
    except UnknownEventTypeError:
        raise UnknownEventTypeError(name, ALL_TYPES) from None


def is_operational(name: str) -> bool:
    """Return whether an event type is one of Hookwright, and not of a producer."""
    return name.startswith(OPERATIONAL_PREFIX)


def expanded(subscriptions: Iterable[str]) -> frozenset[str]:
    """Return the event types of subscriptions, with the types of this version in place of each wildcard."""
    types: set[str] = set()
    for name in subscriptions:
        if name == EVERY_TYPE:
            types.update(EVENT_TYPES)
        else:
            types.update(CATALOGUE[CHANNEL_WILDCARDS[name]] if name in CHANNEL_WILDCARDS else (name,))
    return frozenset(types)


def example(name: str) -> dict[str, Any]:
    """Return an example of the body that receivers get for an event type of the catalogue."""
    message = {} if is_operational(name) else {"messageId": "m-42"}
    return {"type": name, **message, **_FIELDS[_CHANNEL_OF[name]], **_OWN_FIELDS.get(name, {})}


def described_types() -> list[dict[str, Any]]:
    """Return every event type as `/v1` shows it: with its channel, its meaning, an example and its wildcards."""
    return [
        {
            "type": name,
            "channel": channel.value,
            "meaning": meaning,
            "example": example(name),
            "wildcards": [wildcard for wildcard in (EVERY_TYPE, *CHANNEL_WILDCARDS) if name in expanded([wildcard])],
        }
        for channel, names in CATALOGUE.items()
        for name, meaning in names.items()
    ]

"""Pure: the event catalogue, the only place that names every event type.

Source: the wire contract, section "Event types". A type is the string that producers send, that endpoints subscribe to
and that receivers see in the payload's ``type``.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, Final

CLOUDEVENT_PREFIX: Final = "dev.hookwright."
"""The prefix that a CloudEvent's ``type`` may have."""
MAX_EVENTS: Final = 1000
"""Most events in one request."""


class Channel(StrEnum):
    """The messaging channel that an event type belongs to."""

    EMAIL = "email"
    WHATSAPP = "whatsapp"
    SMS = "sms"


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
}
"""The meaning of each event type, by channel."""

_FIELDS: Final[dict[Channel, dict[str, str]]] = {
    Channel.EMAIL: {"recipient": "ada@example.com"},
    Channel.WHATSAPP: {"recipient": "+15550100"},
    Channel.SMS: {"recipient": "+15550100"},
}
_OWN_FIELDS: Final[dict[str, dict[str, str]]] = {
    "bounced": {"reason": "550 5.1.1 The mailbox does not exist."},
    "soft_bounce": {"reason": "452 4.2.2 The mailbox is full."},
    "clicked": {"url": "https://example.com/offer"},
    "failed": {"reason": "All providers are exhausted. The last one answered: 421 4.3.2 The service is not available."},
    "wa_failed": {"reason": "All provider retries failed. The last one answered: 131026 The message is undeliverable."},
    "wa_replied": {"text": "Thank you"},
    "sms_failed": {"reason": "The number is not in use."},
    "sms_replied": {"text": "STOP"},
}
"""Fields of the examples after `type` and `messageId`: those of the channel, then those of the type."""

EVENT_TYPES: Final[tuple[str, ...]] = tuple(name for names in CATALOGUE.values() for name in names)
"""Every event type, in the catalogue's order."""

EVERY_TYPE: Final = "*"
"""The wildcard for every event type."""
CHANNEL_WILDCARDS: Final[dict[str, Channel]] = {"wa_*": Channel.WHATSAPP, "sms_*": Channel.SMS}
"""The wildcard of each channel whose event types have a common prefix."""
SUBSCRIPTIONS: Final[tuple[str, ...]] = (*EVENT_TYPES, EVERY_TYPE, *CHANNEL_WILDCARDS)
"""Everything that an endpoint may subscribe to: event types and wildcards."""

_KNOWN_TYPES: Final = frozenset(EVENT_TYPES)
_CHANNEL_OF: Final = {name: channel for channel, names in CATALOGUE.items() for name in names}


class UnknownEventTypeError(ValueError):
    """An event type that is not in the catalogue."""

    def __init__(self, name: str) -> None:
        excerpt = name if len(name) <= 64 else f"{name[:64]}…"
        super().__init__(f"unknown event type {excerpt!r}; known are {', '.join(EVENT_TYPES)}")


def event_type(name: str) -> str:
    """Return the event type for ``name``, which may have the CloudEvents prefix.

    Raises:
        UnknownEventTypeError: the type is not in the catalogue.
    """
    bare = name.removeprefix(CLOUDEVENT_PREFIX)
    if bare not in _KNOWN_TYPES:
        raise UnknownEventTypeError(name)
    return bare


def expanded(subscriptions: Iterable[str]) -> frozenset[str]:
    """Return the event types of subscriptions, with the types of this version in place of each wildcard."""
    types: set[str] = set()
    for name in subscriptions:
        if name == EVERY_TYPE:
            return frozenset(EVENT_TYPES)
        types.update(CATALOGUE[CHANNEL_WILDCARDS[name]] if name in CHANNEL_WILDCARDS else (name,))
    return frozenset(types)


def example(name: str) -> dict[str, str]:
    """Return an example of the body that receivers get for an event type of the catalogue."""
    return {"type": name, "messageId": "m-42", **_FIELDS[_CHANNEL_OF[name]], **_OWN_FIELDS.get(name, {})}


def described_types() -> list[dict[str, Any]]:
    """Return every event type as `/v1` shows it: with its channel, its meaning, an example and its wildcards."""
    return [
        {
            "type": name,
            "channel": channel.value,
            "meaning": meaning,
            "example": example(name),
            "wildcards": [EVERY_TYPE, *(wildcard for wildcard, owner in CHANNEL_WILDCARDS.items() if owner is channel)],
        }
        for channel, names in CATALOGUE.items()
        for name, meaning in names.items()
    ]

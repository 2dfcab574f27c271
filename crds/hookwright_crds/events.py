"""Pure: the event catalogue, the only place that names every event type.

Source: the wire contract, section "Event types". A type is the string that producers send, that endpoints subscribe to
and that receivers see in the payload's ``type``.
"""

from enum import StrEnum
from typing import Final

CLOUDEVENT_PREFIX: Final = "dev.hookwright."
"""The prefix that a CloudEvent's ``type`` may have."""


class Channel(StrEnum):
    """The messaging channel that an event type belongs to."""

    EMAIL = "email"
    WHATSAPP = "whatsapp"
    SMS = "sms"


CATALOGUE: Final[dict[Channel, tuple[str, ...]]] = {
    Channel.EMAIL: ("delivered", "bounced", "soft_bounce", "complained", "opened", "clicked", "failed"),
    Channel.WHATSAPP: ("wa_sent", "wa_delivered", "wa_read", "wa_failed", "wa_replied"),
    Channel.SMS: ("sms_sent", "sms_delivered", "sms_failed", "sms_replied"),
}

EVENT_TYPES: Final[tuple[str, ...]] = tuple(name for names in CATALOGUE.values() for name in names)
"""Every event type, in the catalogue's order."""

_KNOWN: Final = frozenset(EVENT_TYPES)


class UnknownEventTypeError(ValueError):
    """An event type that is not in the catalogue."""

    def __init__(self, name: str) -> None:
        shown = name if len(name) <= 64 else f"{name[:64]}…"
        super().__init__(f"unknown event type {shown!r}; known are {', '.join(EVENT_TYPES)}")


def event_type(name: str) -> str:
    """Return the event type for ``name``, which may have the CloudEvents prefix.

    Raises:
        UnknownEventTypeError: the type is not in the catalogue.
    """
    bare = name.removeprefix(CLOUDEVENT_PREFIX)
    if bare not in _KNOWN:
        raise UnknownEventTypeError(name)
    return bare

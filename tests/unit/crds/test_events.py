"""The event catalogue contains exactly the types of the wire contract."""

import pytest

from hookwright_crds.events import CATALOGUE, CLOUDEVENT_PREFIX, EVENT_TYPES, Channel, UnknownEventTypeError, event_type


def test_the_catalogue_is_that_of_the_wire_contract() -> None:
    """No type is renamed or removed, because that breaks producers and receivers."""
    assert {channel.value: set(names) for channel, names in CATALOGUE.items()} == {
        "email": {"delivered", "bounced", "soft_bounce", "complained", "opened", "clicked", "failed"},
        "whatsapp": {"wa_sent", "wa_delivered", "wa_read", "wa_failed", "wa_replied"},
        "sms": {"sms_sent", "sms_delivered", "sms_failed", "sms_replied"},
    }


def test_every_channel_has_types_and_every_type_one_channel() -> None:
    """A type determines its channel."""
    assert set(CATALOGUE) == set(Channel)
    assert len(set(EVENT_TYPES)) == len(EVENT_TYPES) == 16


@pytest.mark.parametrize("name", EVENT_TYPES)
def test_a_type_is_known_with_and_without_the_prefix(name: str) -> None:
    """A CloudEvent may have the type with or without the prefix."""
    assert event_type(name) == name
    assert event_type(CLOUDEVENT_PREFIX + name) == name


@pytest.mark.parametrize(
    "name",
    ["", "deliverd", "Delivered", " delivered", "delivered\n", CLOUDEVENT_PREFIX, CLOUDEVENT_PREFIX * 2 + "delivered"],
)
def test_an_unknown_type_is_refused_with_the_known_ones(name: str) -> None:
    """The error message names the known types."""
    with pytest.raises(UnknownEventTypeError, match="known are delivered, bounced, soft_bounce"):
        event_type(name)


def test_an_endless_name_is_not_repeated_whole() -> None:
    """The error message shortens the producer's text, so that 100 kB do not reach the log."""
    with pytest.raises(UnknownEventTypeError) as error:
        event_type("x" * 100_000)
    assert len(str(error.value)) < 500

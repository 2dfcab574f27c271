"""The event catalogue contains exactly the types of the wire contract."""

import time

import pytest

from hookwright_crds.events import (
    CATALOGUE,
    CHANNEL_WILDCARDS,
    CLOUDEVENT_PREFIX,
    EVENT_TYPES,
    OPERATIONAL_TYPES,
    Channel,
    UnknownEventTypeError,
    delivered_type,
    described_types,
    event_type,
    example,
    expanded,
)


def test_the_catalogue_is_that_of_the_wire_contract() -> None:
    """No type is renamed or removed, because that breaks producers and receivers."""
    assert {channel.value: set(names) for channel, names in CATALOGUE.items()} == {
        "email": {"delivered", "bounced", "soft_bounce", "complained", "opened", "clicked", "failed"},
        "whatsapp": {"wa_sent", "wa_delivered", "wa_read", "wa_failed", "wa_replied"},
        "sms": {"sms_sent", "sms_delivered", "sms_failed", "sms_replied"},
        "hookwright": {
            "hookwright.endpoint.failing",
            "hookwright.endpoint.recovered",
            "hookwright.endpoint.suspended",
            "hookwright.endpoint.secret_rotated",
            "hookwright.endpoint.credentials_refused",
            "hookwright.delivery.failed",
        },
    }


def test_a_failure_is_the_end_of_the_messaging_services_own_retries() -> None:
    """A receiver of `failed` or `wa_failed` need not wait for another provider; the example says the same."""
    email, whatsapp = CATALOGUE[Channel.EMAIL]["failed"], CATALOGUE[Channel.WHATSAPP]["wa_failed"]
    assert "All providers are exhausted; the message was moved to the dead-letter queue" in email
    assert whatsapp == "WhatsApp delivery failed after all provider retries."
    assert "All providers are exhausted" in example("failed")["reason"]
    assert "All provider retries failed" in example("wa_failed")["reason"]


def test_every_channel_has_types_and_every_type_one_channel() -> None:
    """A type determines its channel."""
    assert {*CATALOGUE, Channel.OWN} == set(Channel)
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
def test_an_unknown_type_is_refused_with_the_nearest_or_all_built_in_ones(name: str) -> None:
    """The error message names what would be right."""
    with pytest.raises(UnknownEventTypeError, match=r"; (the nearest (is|are) delivered|built in are delivered, boun)"):
        event_type(name)


def test_an_own_type_is_known_to_its_organization() -> None:
    """An own type is sent with and without the prefix, and its near misses name it."""
    own_types = {"invoice.paid", "invoice.sent"}
    assert event_type("invoice.paid", own_types) == event_type("dev.hookwright.invoice.paid", own_types)
    with pytest.raises(UnknownEventTypeError, match=r"'invoice.payed'; the nearest are invoice.paid, invoice.sent$"):
        event_type("invoice.payed", own_types)
    with pytest.raises(UnknownEventTypeError, match=r"'invoice.paid'; built in are delivered"):
        event_type("invoice.paid")


def test_the_nearest_of_many_own_types_are_those_with_the_same_beginning() -> None:
    """The number of names that are compared is bounded."""
    own_types = {f"order-{number}.created" for number in range(1000)}
    with pytest.raises(UnknownEventTypeError, match=r"order-471\.created"):
        event_type("order-471.create", own_types)


@pytest.mark.parametrize("number", [100, 50_000])
def test_names_made_for_it_cost_no_time(number: int) -> None:
    """A tenant chooses its own types and the wrong names, and other tenants wait while names are compared."""
    own_types = {f"{'a' * (127 - place % 100)}{'b' * (place % 100)}{place}"[-128:] for place in range(number)}
    begin = time.process_time()
    for _ in range(10):
        with pytest.raises(UnknownEventTypeError):
            event_type("a" * 128, own_types)
    assert time.process_time() - begin < 0.5


@pytest.mark.parametrize("name", ["invoice.paid", "delivered", "wa_read", "hookwright.delivery.failed", "a" * 128])
def test_a_search_takes_every_name_in_the_form_of_a_type(name: str) -> None:
    """Deliveries of a type whose EventType is deleted are found."""
    assert delivered_type(name) == name


@pytest.mark.parametrize("name", ["", "wa_*", "*", "rcs_read", "Invoice", "invoice.paid\n", "a" * 129])
def test_a_search_refuses_what_no_type_can_be(name: str) -> None:
    """A misspelt built-in type is refused instead of found nowhere."""
    with pytest.raises(UnknownEventTypeError):
        delivered_type(name)


def test_an_endless_name_is_not_repeated_whole() -> None:
    """The error message shortens the producer's text, so that 100 kB do not reach the log."""
    with pytest.raises(UnknownEventTypeError) as error:
        event_type("x" * 100_000)
    assert len(str(error.value)) < 500


def test_a_wildcard_is_what_it_looks_like() -> None:
    """The wildcard of a channel means exactly the types with its prefix, so its name explains it."""
    for wildcard, channel in CHANNEL_WILDCARDS.items():
        with_prefix = {name for name in EVENT_TYPES if name.startswith(wildcard.removesuffix("*"))}
        assert expanded([wildcard]) == with_prefix == set(CATALOGUE[channel])


def test_subscriptions_are_expanded() -> None:
    """Types stay, a wildcard adds its types, and the wildcard for all includes the rest."""
    assert expanded(["delivered", "bounced"]) == {"delivered", "bounced"}
    assert expanded(["delivered", "sms_*"]) == {"delivered", "sms_sent", "sms_delivered", "sms_failed", "sms_replied"}
    assert expanded(["delivered", "*"]) == {*EVENT_TYPES, "*"}
    assert expanded(["*", "invoice.paid"]) == {*EVENT_TYPES, "*", "invoice.paid"}
    assert expanded(["*", "hookwright.delivery.failed"]) == {*EVENT_TYPES, "*", "hookwright.delivery.failed"}
    assert expanded([]) == frozenset()


@pytest.mark.parametrize("name", ["*", *CHANNEL_WILDCARDS, *OPERATIONAL_TYPES])
def test_a_wildcard_and_an_operational_event_are_no_types_of_a_producer(name: str) -> None:
    """A producer names the type of its event, and cannot forge one of Hookwright."""
    with pytest.raises(UnknownEventTypeError):
        event_type(name)
    with pytest.raises(UnknownEventTypeError):
        event_type(CLOUDEVENT_PREFIX + name.removeprefix("hookwright."))


@pytest.mark.parametrize("name", OPERATIONAL_TYPES)
def test_an_operational_event_is_about_an_endpoint_and_no_message(name: str) -> None:
    """The log can be searched for it, no wildcard includes it, and its body has no messageId."""
    assert delivered_type(name) == name
    assert name not in expanded(["*", *CHANNEL_WILDCARDS])
    assert list(example(name))[:6] == ["type", "project", "endpoint", "at", "reason", "message"]


@pytest.mark.parametrize("name", EVENT_TYPES)
def test_an_example_has_the_promised_fields_first(name: str) -> None:
    """A reader sees the two fields that every body has, and at least one that the producer chose."""
    body = example(name)
    assert list(body)[:2] == ["type", "messageId"]
    assert body["type"] == name
    assert len(body) > 2


def test_the_wildcards_of_a_type_are_those_that_include_it() -> None:
    """The catalogue of the API and the subscriptions of endpoints agree."""
    for described in described_types():
        including = [wildcard for wildcard in ("*", *CHANNEL_WILDCARDS) if described["type"] in expanded([wildcard])]
        assert described["wildcards"] == including

"""Operational events go to other endpoints of the project that name them, signed, and once."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.attempts import SECRET
from support.dispatcher import Engine, subscriber

from hookwright_crds.events import Operational, expanded
from hookwright_dev.receiver import Receiver
from hookwright_operator.delivery.http.signatures import signature_headers
from hookwright_operator.services.events import MAX_OPERATIONAL, IncomingEvent

FAILING = Operational.FAILING.value
BODY = json.dumps({"type": FAILING, "endpoint": "orders"}).encode()
EVENT = IncomingEvent("\norders/failing/1", FAILING, "", BODY)


@pytest.fixture
async def engine(database: Path) -> AsyncIterator[Engine]:
    """Yield a running engine."""
    running = await Engine.start(database)
    yield running
    await running.stop()


async def test_an_operational_event_goes_to_the_other_endpoints_that_name_it(
    engine: Engine, receiver: Receiver
) -> None:
    """The endpoint that it is about, one with every type of producers, and another project get none."""
    named, every = frozenset({FAILING}), expanded(["*"])
    for name, events, project in (
        ("orders", named, "billing"),
        ("every", every, "billing"),
        ("other", named, "shop"),
        ("on-call", named, "billing"),
    ):
        engine.registry.put(subscriber(name, receiver.url, events=events, project=project))
    for _ in range(2):
        await engine.events.accept_operational("acme", "billing", EVENT, about="orders")
    await engine.ended("on-call", 1)
    [request] = receiver.received
    assert request.body == BODY
    signed_at = int(request.headers["webhook-timestamp"])
    expected = signature_headers((SECRET,), request.headers["webhook-id"], signed_at, BODY, by_newest=False)
    assert request.headers["webhook-signature"] == expected["webhook-signature"]
    [record] = await engine.log("on-call")
    assert (record.event_type, record.message_id) == (FAILING, "")
    assert [await engine.log(name) for name in ("orders", "every", "other")] == [[], [], []]


async def test_an_operational_event_has_a_bounded_number_of_deliveries(engine: Engine, receiver: Receiver) -> None:
    """A project with many failing endpoints that all subscribe does not write their square."""
    for number in range(MAX_OPERATIONAL + 5):
        engine.registry.put(subscriber(f"watch-{number:02}", receiver.url, events=frozenset({FAILING})))
    await engine.events.accept_operational("acme", "billing", EVENT, about="watch-00")
    logs = [len(await engine.log(f"watch-{number:02}")) for number in range(MAX_OPERATIONAL + 5)]
    assert logs == [0, *[1] * MAX_OPERATIONAL, *[0] * 4]

"""A tenant that sends many events, or whose attempts fail, fills neither the log nor the lines of other tenants."""

import logging
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs
from support.dispatcher import Engine, Plan, subscriber

from hookwright_dev.receiver import Receiver
from hookwright_operator.delivery.attempt_log import A_SECOND, AT_ONCE
from hookwright_operator.services.acceptance_log import LISTED_A_SECOND, LISTED_AT_ONCE
from hookwright_operator.services.events import IncomingEvent

SECONDS = 60
"""More than the time of a test: what the allowance adds meanwhile."""


@pytest.fixture
async def engine(database: Path) -> AsyncIterator[Engine]:
    """Yield an engine with a project in each of two namespaces."""
    engine = await Engine.start(database, Plan(schedule="1ms", window=512))
    engine.registry.put_project("hostile", "billing")
    yield engine
    await engine.stop(grace=1)


def having(logs: list[Any], event: str, namespace: str) -> list[dict[str, Any]]:
    """Return a namespace's lines with this event."""
    return [line for line in logs if (line["event"], line.get("namespace")) == (event, namespace)]


async def test_a_tenant_cannot_fill_the_log_with_failed_attempts(engine: Engine) -> None:
    """Its lines are bounded, the number of the others is reported, and another tenant's failure has its line."""
    async with Receiver() as receiver:
        receiver.answer = lambda _: 500
        for namespace in ("hostile", "acme"):
            endpoint = subscriber(namespace, receiver.url, max_in_flight=64)
            engine.registry.put(replace(endpoint, namespace=namespace))
        many = [IncomingEvent(None, "delivered", "m", b"{}") for _ in range(900)]
        with capture_logs() as logs:
            await engine.events.accept("hostile", "billing", many)
            await engine.ended("hostile", len(many), within=60)
            await engine.events.accept("acme", "billing", many[:1])
            await engine.ended("acme", 1)
            for bound in (engine.dispatcher._attempts._log.retried, engine.dispatcher._attempts._log.failed):
                bound.flush()
    for event in ("attempt failed", "delivery failed"):
        assert AT_ONCE <= len(having(logs, event, "hostile")) <= AT_ONCE + A_SECOND * SECONDS
        assert len(having(logs, event, "acme")) == 1
    unlogged = having(logs, "failed attempts not logged, the namespace has used up its lines", "hostile")
    log_text = sum(len(having(logs, event, "hostile")) for event in ("attempt failed", "delivery failed"))
    assert sum(line["attempts"] for line in unlogged) + log_text == 2 * len(many)
    assert len(unlogged) <= 2 * SECONDS


@pytest.fixture
def level_info() -> Iterator[None]:
    """Log at the level info, as an installation does by default."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    yield
    structlog.reset_defaults()


@pytest.mark.usefixtures("level_info")
async def test_a_tenant_cannot_fill_the_log_with_events(engine: Engine) -> None:
    """All events are counted, a bounded number is listed, and another tenant's event is listed."""
    name = "x" * 256
    many = [IncomingEvent(f"{number}{name}", "delivered", "m", b"{}", number) for number in range(1000)]
    with capture_logs() as lines:
        for _ in range(5):
            await engine.events.accept("hostile", "billing", many)
        await engine.events.accept("acme", "billing", many[:1])
        engine.events.acceptance_log.flush()
    hostile = having(lines, "events accepted", "hostile")
    listing = sum(len(line["events"]) for line in hostile)
    assert LISTED_AT_ONCE <= listing <= LISTED_AT_ONCE + LISTED_A_SECOND * SECONDS
    assert sum(line.get("unlisted", 0) for line in hostile) + listing == 5000
    assert sum(line.get("accepted", 0) for line in hostile) == 1000
    assert [len(line["events"]) for line in having(lines, "events accepted", "acme")] == [1]

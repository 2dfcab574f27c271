"""docs/logs.md names the lines that the code writes, and their fields and bounds."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.dispatcher import Engine, Plan, subscriber

from hookwright_dev.receiver import Received, Receiver
from hookwright_operator.delivery import attempt_log
from hookwright_operator.services import acceptance_log
from hookwright_operator.services.events import IncomingEvent
from hookwright_runtime import audit
from hookwright_runtime.audit import AuditLog

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "logs.md").read_text()
GENERAL = {"event", "log_level"}


def named() -> set[str]:
    """Return every word in code style in the first column of a table."""
    cells = re.findall(r"^\| ((?:`[^`]+`(?:, )?)+) \|", PAGE, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def _answer(status: int, _: Received) -> int:
    return status


@pytest.fixture
async def lines(database: Path) -> list[Any]:
    """Return every kind of line about events and attempts."""
    engine = await Engine.start(database, Plan(schedule="1ms"))
    cloud = '{"id":"c-1","source":"/mailer","type":"delivered"}'
    with capture_logs() as logs:
        async with Receiver() as receiver:
            engine.registry.put(subscriber("orders", receiver.url))
            for status in (500, 200):
                receiver.answer = partial(_answer, status)
                event = IncomingEvent(f"/mailer\nc-{status}", "delivered", "m", b"{}", attributes=cloud)
                await engine.events.accept("acme", "billing", [event, event])
                await engine.ended("orders", 1 if status == 500 else 2)
        engine.events.acceptance_log.flush()
        await engine.stop()
    return logs


def test_every_line_of_an_event_and_every_field_is_on_the_page(lines: list[Any]) -> None:
    """The page has no field that no line has, and no line has a field that the page does not have."""
    events = {line["event"] for line in lines}
    assert {"events accepted", "attempt failed", "delivery failed", "attempt delivered"} <= events
    assert events <= named()
    fields = {name for line in lines for name in (line, *line.get("events", ())) for name in name}
    assert fields - GENERAL - {"events"} <= named()


async def test_every_audit_line_is_on_the_page() -> None:
    """The page has each action in the code, and each field of a line."""
    with capture_logs() as logs:
        log = AuditLog()
        log.record("key.create", actor="user:a", client="c", organization="acme", project="billing", target="k")
        log.login_failed(email="a", client="c")
    assert {name for line in logs for name in line} - GENERAL - {"action"} <= named()
    root = Path(audit.__file__).parents[2]
    patterns = ("api/*/routes/*.py", "operator/*/intake/routes/*.py", "crds/*/operations.py")
    sources = [path for pattern in patterns for path in root.glob(pattern)]
    code = "".join(path.read_text() for path in sources)
    kinds, acts = "key|webhook|secret|delivery|endpoint|replay", "create|delete|read|retry|replay|cancel"
    actions = set(re.findall(rf'"((?:{kinds})\.(?:{acts}))"', code))
    assert len(actions) == 9
    assert actions <= named()


def test_the_bounds_are_on_the_page() -> None:
    """The numbers are those of the code."""
    sentences = [
        f"lists {acceptance_log.LISTED_AT_ONCE:,} events at once, and {acceptance_log.LISTED_A_SECOND} a second",
        f"one for each {acceptance_log.LINE} listed events",
        f"has {attempt_log.AT_ONCE} lines of failed attempts at once and {attempt_log.A_SECOND} a second",
        f"has {audit.AT_ONCE} lines at once, and {audit.A_SECOND} a second",
    ]
    assert [sentence for sentence in sentences if sentence not in PAGE] == []

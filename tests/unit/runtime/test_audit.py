"""The audit log: its lines at every log level, and their bounds."""

import json
import subprocess
import sys
from typing import Any

from structlog.testing import capture_logs

from hookwright_runtime.audit import A_SECOND, ANONYMOUS, AT_ONCE, AuditLog

SECONDS = 30
"""More than the time of a test: what the allowance adds meanwhile."""


def create(audit: AuditLog, organization: str = "acme") -> None:
    """Record the creation of a key."""
    audit.record("key.create", actor="user:ada", client="192.0.2.1", organization=organization, target="k1")


PROGRAM = """
import structlog
from hookwright_runtime import logs
from hookwright_runtime.audit import AuditLog

logs.configure(form="json", level="error")
structlog.get_logger("other").warning("not logged")
AuditLog().record("key.create", actor="user:ada", client="192.0.2.1", organization="acme", target="k1")
"""


def test_an_audit_line_is_json_and_is_written_at_every_log_level() -> None:
    """An installation that logs only errors has its audit log."""
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    (line,) = map(json.loads, ran.stderr.splitlines())
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "audit",
        "level": "info",
        "logger": "hookwright.audit",
        "action": "key.create",
        "outcome": "success",
        "actor": "user:ada",
        "client": "192.0.2.1",
        "organization": "acme",
        "target": "k1",
    }


CONSOLE = """
from hookwright_runtime import logs
from hookwright_runtime.audit import AuditLog

logs.configure(form="console", level="info")
for email in ("\\x1b[2J\\u202e\\x9b", "a\\x1b[2J\\r\\n2026 [info] audit actor=user:ada"):
    AuditLog().login_failed(email=email, client="192.0.2.1")
"""


def test_the_email_of_a_failed_login_controls_no_terminal() -> None:
    """A console entry is one line without control characters or those that change the direction of text."""
    ran = subprocess.run([sys.executable, "-c", CONSOLE], capture_output=True, text=True, check=True, timeout=60)
    lines = ran.stderr.splitlines()
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)
    assert r"actor=user:\x1b[2J\u202e\x9b " in lines[0]


def told(lines: list[Any], **fields: str) -> int:
    """Return how many audit lines have these fields."""
    return sum(1 for line in lines if line["event"] == "audit" and fields.items() <= line.items())


async def test_an_organization_cannot_fill_the_log_and_uses_up_only_its_own_lines() -> None:
    """The others are counted, and another organization's act has its line."""
    audit = AuditLog()
    with capture_logs() as lines:
        for _ in range(3000):
            create(audit, "hostile")
        create(audit)
        audit._bound.flush()
    assert AT_ONCE <= told(lines, organization="hostile") <= AT_ONCE + A_SECOND * SECONDS
    assert told(lines, organization="acme") == 1
    omissions = [line for line in lines if line["event"] != "audit"]
    assert sum(line["lines"] for line in omissions) + told(lines, organization="hostile") == 3000
    assert {line["holder"] for line in omissions} == {"hostile"}


async def test_failed_logins_have_a_bound_of_their_own() -> None:
    """Guesses from many addresses do not use up the lines of any organization."""
    audit = AuditLog()
    with capture_logs() as lines:
        for number in range(3000):
            audit.login_failed(email=f"nobody-{number}@example.com", client=f"192.0.2.{number}")
        create(audit)
        audit._bound.flush()
    assert AT_ONCE <= told(lines, outcome="failure") <= AT_ONCE + A_SECOND * SECONDS
    assert told(lines, outcome="success") == 1
    assert {line["holder"] for line in lines if line["event"] != "audit"} == {ANONYMOUS}


async def test_lines_of_messages_are_short_and_leave_the_lines_of_other_acts() -> None:
    """A busy consumer does not hide who made a key; a line has at most 50 ids, because runtimes split longer lines."""
    audit, ids = AuditLog(), [f"dlv_{number}" for number in range(120)]
    consumer = {"actor": "key:c", "client": "192.0.2.1", "organization": "acme", "target": "inbox"}
    with capture_logs() as lines:
        audit.record("message.ack", **consumer, deliveries=ids)
        listing = [line["deliveries"] for line in lines]
        for _ in range(3000):
            audit.record("message.ack", **consumer, deliveries=["dlv_x"])
        create(audit)
    assert listing == [ids[:50], ids[50:100], ids[100:]]
    assert told(lines, action="message.ack") < 3000
    assert told(lines, action="key.create") == 1

"""The log of what the server refuses."""

from structlog.testing import capture_logs
from support.polling import until

from hookwright_runtime import refusals
from hookwright_runtime.refusals import RefusalLog


async def test_every_refusal_of_a_burst_is_logged_without_a_later_one() -> None:
    """The counts do not wait for the next refusal, which may come hours later."""
    refused = RefusalLog()
    with capture_logs() as entries:
        for _ in range(1000):
            refused.note(refusals.MALFORMED.reason)
        refused.note(refusals.HEAD_TOO_SLOW.reason)
        await until(lambda: len(entries) == 2)
    assert [(entry["event"], entry["reason"], entry["requests"]) for entry in entries] == [
        ("http requests refused by the server", "malformed", 1000),
        ("http requests refused by the server", "head_too_slow", 1),
    ]

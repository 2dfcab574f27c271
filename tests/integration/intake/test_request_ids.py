"""Every answer has the request's id, and every log line of the request has it too."""

import logging
from collections.abc import Iterator

import pytest
import structlog
from support.api_processes import problem_of
from support.dispatcher import locked
from support.intake import Intake, fails

from hookwright_operator.intake.app import IntakeApp
from hookwright_operator.services.events import Events
from hookwright_runtime import logs

ROUTE = "/projects/billing/events"
EVENT = {"type": "delivered", "messageId": "m-1"}


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Yield logs in the operator's format."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    logs.configure(form="json", level="info")
    root.addHandler(caplog.handler)
    yield caplog
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


async def test_a_caller_s_id_is_taken_and_answered(intake: Intake) -> None:
    """An acceptance and a refusal have the id."""
    for request_id in ("a", "4bf92f35-77b3-4da6-a3ce-929d0e0e4736", "Root=1-67:a/b+c~d_e.f@g", "x" * 128):
        for route, status in ((ROUTE, 202), ("/projects/ghost/events", 404), ("/nowhere", 404)):
            answer = await intake.client.post(route, json=EVENT, headers={"X-Request-Id": request_id})
            assert (answer.status_code, answer.headers["x-request-id"]) == (status, request_id)


async def test_an_id_that_is_not_fit_for_logs_is_replaced(intake: Intake) -> None:
    """The given id appears neither in the answer nor in the log."""
    for request_id in ("", "two words", 'quo"te', "x" * 129, "ünï".encode().decode("latin-1"), "a\tb"):
        headers = [(b"X-Request-Id", request_id.encode("latin-1"))]
        answer = await intake.client.post(ROUTE, json=EVENT, headers=headers)
        assert answer.status_code == 202
        assert answer.headers["x-request-id"] == "request-1"


async def test_an_id_is_drawn_for_each_request_that_has_none(intake: Intake) -> None:
    """A new id is 128 random bits as hexadecimal digits."""
    entries: list[bytes] = []

    async def send(message: dict[str, object]) -> None:
        entries.extend(value for name, value in message.get("headers", ()) if name == b"x-request-id")  # type: ignore[attr-defined]

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b""}

    app = IntakeApp(intake.services, intake.auth, ready=lambda: "starting")
    for _ in range(2):
        await app({"type": "http", "method": "GET", "path": "/", "headers": []}, receive, send)  # type: ignore[arg-type]
    first, second = entries
    assert first != second
    assert len(first) == 32
    assert int(first, 16)


async def test_every_line_of_a_request_s_log_has_its_id(
    intake: Intake, logged: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines of an error and of an unavailable store have the id; the line of another request has another id."""
    with monkeypatch.context() as broken:
        broken.setattr(Events, "accept", fails)
        answer = await intake.client.post(ROUTE, json=EVENT, headers={"X-Request-Id": "first"})
    assert problem_of(answer, 500)["trace_id"] == "first"
    async with locked(intake.database):
        problem_of(await intake.client.post(ROUTE, json=EVENT, headers={"X-Request-Id": "second"}), 503)
    lines = [record.msg for record in logged.records if isinstance(record.msg, dict)]
    assert [(line["event"], line["request_id"]) for line in lines if line["level"] == "error"] == [
        ("unexpected fault", "first"),
        ("store failed", "second"),
    ]

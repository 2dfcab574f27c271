"""Parts of `hookwright listen`: the local receiver, and the lines of events."""

import base64
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.api_receiver import receiving

from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.durations import seconds_of
from hookwright_cli.local_receiver import LocalReceiver, body_of
from hookwright_cli.terminal.event_lines import event_text
from hookwright_cli.terminal.event_list import EventList, ListedEvent, keys_of
from hookwright_cli.terminal.screen import Screen
from hookwright_cli.ways.cluster_client import ClusterClient
from hookwright_cli.ways.kubeconfig_way import KubeconfigWay

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def message(**fields: Any) -> dict[str, Any]:
    """Return a message in the form of ``/v1``."""
    headers = {"Content-Type": "application/json", "webhook-id": "msg_1", "X-Service-Signature": "ab"}
    record = {"id": "dlv_1.l", "delivery_id": "dlv_1", "type": "delivered", "attempt": 1, "headers": headers}
    return {**record, "body": '{"size":1.50}', "body_encoding": "utf-8", **fields}


@pytest.mark.parametrize("url", ["localhost:3000/hooks", "3000", "ftp://localhost/", "http://", "http://[::1/"])
def test_another_url_is_refused_with_the_correct_form(url: str) -> None:
    """The message names the option and an example."""
    with pytest.raises(CommandError, match=r"--forward .*http://localhost:3000/hooks") as error:
        LocalReceiver(url, 1)
    assert error.value.code is ExitCode.USAGE


@pytest.mark.parametrize(("written", "seconds"), [("15s", 15), ("1m30s", 90)])
def test_a_duration_has_seconds(written: str, seconds: int) -> None:
    """Parts are added."""
    assert seconds_of(written, "--timeout") == seconds
    with pytest.raises(CommandError, match=r"--timeout '15' must be a duration such as 15s"):
        seconds_of("15", "--timeout")


def test_the_receiver_gets_the_exact_bytes_and_headers() -> None:
    """Bytes that are no text come in base64; the beginning of a refusal is kept."""
    raw = b"\xff\x00{"
    binary = message(body=base64.b64encode(raw).decode(), body_encoding="base64")
    assert body_of(binary) == raw
    with receiving() as received:
        receiver = LocalReceiver(f"{received.url}/hooks", 60)
        assert receiver.post(message()).accepted
        received.status, received.body = 503, b"x" * 5000
        refusal = receiver.post(binary)
        receiver.close()
    assert (refusal.status, refusal.accepted, refusal.words, refusal.body) == (503, False, "HTTP 503", "x" * 2000)
    (path, headers, body), (_, _, second) = received.requests
    assert (path, body, second) == ("/hooks", b'{"size":1.50}', raw)
    assert (headers["webhook-id"], headers["x-service-signature"]) == ("msg_1", "ab")


def test_a_receiver_that_is_away_is_an_answer_with_an_error() -> None:
    """The command goes on, and the event is refused."""
    with socket.socket() as closed_socket:
        closed_socket.bind(("127.0.0.1", 0))
        receiver = LocalReceiver(f"http://127.0.0.1:{closed_socket.getsockname()[1]}/", 60)
        answer = receiver.post(message())
        receiver.close()
    assert not answer.accepted
    assert answer.error


@pytest.mark.parametrize(
    ("told", "end"),
    [
        ({"result": "acked", "status": "delivered"}, "delivered  HTTP 200  7 ms"),
        (
            {"result": "nacked", "status": "pending", "next_attempt_at": "2026-01-31T12:00:05Z", "attempt": 2},
            "delivered  attempt 2  HTTP 200  7 ms  retry in 5s",
        ),
        ({"result": "nacked", "status": "failed"}, "no more retries"),
        ({"result": "lease_ended", "status": "pending"}, "not acknowledged, comes again"),
        ({}, "sent again"),
    ],
)
def test_an_event_is_one_line(told: dict[str, Any], end: str) -> None:
    """It has the answer, the duration, and what follows."""
    header = {"status": 200, "duration_ms": 7, "error": None}
    line = event_text(Screen(), {**message(), "forwarded": header, **told}, "", NOW)
    assert line.startswith("12:00:00Z  delivered  ")
    assert line.endswith(f"{end}  msg_1")
    assert "\n" not in line


def test_the_bytes_of_others_cannot_control_the_terminal() -> None:
    """Control characters of bodies and answers are replaced."""
    record = {**message(body="\x1b[2J"), "result": "acked", "status": "delivered"}
    assert "\x1b" not in event_text(Screen(), record, "\x1b]0;title\x07", NOW)


def test_the_list_is_walked_in_by_keys() -> None:
    """The last event is selected until the user moves; then new ones do not move the selection."""
    events = EventList(["heading"])
    for number in range(30):
        events.events.append(ListedEvent(f"event {number}", f"body {number}", {}))
        assert f"> event {number}" in events.lines(8, 80)
    for key in keys_of("\x1bOA\x1b[Ak"):
        events.press(key)
    events.events.append(ListedEvent("event 30", "", {}))
    assert events.selected == events.events[26]
    assert (len(events.lines(8, 80)), [line for line in events.lines(8, 80) if line[0:1] == ">"]) == (8, ["> event 26"])
    for key in keys_of("\x1b[C\x1b[B\x1b[B"):
        events.press(key)
    assert events.lines(8, 80)[1:3] == ["event 26", "body 26"], "what fits is not scrolled"
    for key in keys_of("\x1b[D/Y 2x\x7fr\x7f\r"):
        events.press(key)
    assert events.selected == events.events[26], "the filter shows it too"
    assert (events.press("\x1b[5~"), events.selected) == (False, events.events[2])
    assert [events.press(key) for key in "q/r\x1b"] == [False, False, True, True]
    assert EventList([]).lines(24, 80)[:22] == [""] * 22
    assert EventList(["a signing secret"]).lines(24, 10)[:2] == ["a signing ", "secret"], "nothing of it is cut"


def test_a_new_token_replaces_one_that_has_expired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token for the intake is valid for ten minutes, and `listen` runs longer."""
    kubeconfig = tmp_path / "config"
    kubeconfig.write_text(
        "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], "
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: u, user: {}}]}"
    )
    monkeypatch.setenv("HOOKWRIGHT_INTAKE_TOKEN", "old")
    with receiving() as intake:
        intake.body = b'{"data": []}'
        monkeypatch.setenv("HOOKWRIGHT_INTAKE_URL", intake.url)
        way = KubeconfigWay(ClusterClient(str(kubeconfig)), namespace="acme")
        assert way.call_endpoint("POST", "inbox", "messages", "ack", body={"ids": ["a"]}) == {"data": []}
        monkeypatch.setenv("HOOKWRIGHT_INTAKE_TOKEN", "new")
        intake.status = 401
        with pytest.raises(CommandError) as error:
            way.call_endpoint("POST", "inbox", "messages", "ack", body={"ids": ["a"]})
        way.close()
    assert error.value.code is ExitCode.FORBIDDEN
    assert [headers["authorization"] for _, headers, _ in intake.requests] == ["Bearer old", "Bearer old", "Bearer new"]

"""Events of ``hookwright listen`` for people: one line, and the request below it if it is wanted."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from hookwright_cli.durations import age
from hookwright_cli.terminal.screen import Screen, plain


def event_text(screen: Screen, message: Mapping[str, Any], answer: str, now: datetime) -> str:
    """Return an event below other ones: its line, and its details as far as nobody else shows them.

    Args:
        screen: its colours; with ``-o wide`` the text has headers and body.
        message: the message, with ``forwarded`` if it was sent, and with the result of its settlement.
        answer: the beginning of the receiver's body if it did not accept the event.
        now: present time.
    """
    is_wide = screen.form == "wide"
    details = event_details(message, answer, headers=is_wide, body=is_wide or not message.get("forwarded"))
    return "\n".join([event_line(screen, message, now), *details])


def event_line(screen: Screen, message: Mapping[str, Any], now: datetime) -> str:
    """Return the time and the type of an event, the answer of the receiver, what follows, and the id."""
    forwarding = message.get("forwarded")
    parts = [clock_time(now), screen.style(str(message["type"]), "bold")]
    if message["attempt"] > 1:
        parts.append(f"attempt {message['attempt']}")
    if forwarding:
        status = forwarding["status"] or 0
        words = plain(forwarding["error"] or f"HTTP {status}")
        parts.append(screen.style(words, "green" if 200 <= status < 300 else "red"))
        parts.append(f"{forwarding['duration_ms']} ms")
    # The id is the last part, because a narrow terminal cuts the line.
    parts += [_result(message, now), webhook_id_of(message)]
    return "  ".join(part for part in parts if part)


def clock_time(time: datetime) -> str:
    """Return the time of the day in UTC."""
    return time.astimezone(UTC).strftime("%H:%M:%SZ")


def webhook_id_of(message: Mapping[str, Any]) -> str:
    """Return the id of the event of a message, empty if it has none."""
    return next((str(value) for name, value in message["headers"].items() if name.lower() == "webhook-id"), "")


def event_details(message: Mapping[str, Any], answer: str, *, headers: bool = True, body: bool = True) -> list[str]:
    """Return the lines below that of an event."""
    lines = [plain(f"  {name}: {value}") for name, value in message["headers"].items()] if headers else []
    if body:
        lines += _indented(body_text(message["body"], message.get("body_encoding")))
    if answer.strip():
        lines += ["  the receiver answered:", *_indented(answer.strip())]
    return lines


def _result(message: Mapping[str, Any], now: datetime) -> str:
    match message.get("result"), message.get("status"):
        case None, _:
            return "sent again"
        case (("lease_ended" | "unknown"), status):
            return "not acknowledged, comes again" if status == "pending" else "not acknowledged"
        case "nacked", "pending":
            due = age(message.get("next_attempt_at"), now)
            return f"retry {due}" if due.startswith("in ") else "retry now"
        case "nacked", _:
            return "no more retries"
    return ""


def body_text(body: str, encoding: str | None = None) -> str:
    """Return the body of a request, JSON with indentation."""
    if encoding == "base64":
        return f"(binary, in base64) {body}"
    try:
        return json.dumps(json.loads(body), indent=2, ensure_ascii=False)
    except ValueError:
        return body


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in plain(text).splitlines()]

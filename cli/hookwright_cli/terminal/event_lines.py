"""Events of ``hookwright listen`` for people: one line, and the request below it if it is wanted."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from hookwright_cli.durations import age
from hookwright_cli.terminal.screen import Screen, plain


def event_text(screen: Screen, message: Mapping[str, Any], answer: str, now: datetime) -> str:
    """Return an event: its time, type and id, the answer of the receiver, and what follows.

    Args:
        screen: its colours; with ``-o wide`` the text has headers and body.
        message: the message, with ``forwarded`` if it was sent, and with the result of its settlement.
        answer: the beginning of the receiver's body if it did not accept the event.
        now: present time.
    """
    forwarding, headers = message.get("forwarded"), message["headers"]
    webhook_id = next((str(value) for name, value in headers.items() if name.lower() == "webhook-id"), "")
    parts = [now.astimezone(UTC).strftime("%H:%M:%SZ"), screen.style(str(message["type"]), "bold"), webhook_id]
    if message["attempt"] > 1:
        parts.append(f"attempt {message['attempt']}")
    if forwarding:
        status = forwarding["status"] or 0
        words = plain(forwarding["error"] or f"HTTP {status}")
        parts.append(screen.style(words, "green" if 200 <= status < 300 else "red"))
        parts.append(f"{forwarding['duration_ms']} ms")
    parts.append(_result(message, now))
    lines = ["  ".join(part for part in parts if part)]
    if screen.form == "wide":
        lines += [f"  {name}: {value}" for name, value in headers.items()]
    if screen.form == "wide" or not forwarding:
        lines += _indented(body_text(message["body"], message.get("body_encoding")))
    if answer.strip():
        lines += ["  the receiver answered:", *_indented(answer.strip())]
    return "\n".join(lines)


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

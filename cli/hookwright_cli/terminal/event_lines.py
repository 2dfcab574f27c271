"""Events of ``hookwright listen`` for people: one line, and the request below it if it is wanted."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from hookwright_cli.durations import age
from hookwright_cli.terminal.screen import Screen


def event_text(screen: Screen, message: Mapping[str, Any], answer: str, now: datetime) -> str:
    """Return an event: its time, type and id, the answer of the receiver, and what follows.

    Args:
        screen: its colours; with ``-o wide`` the text has headers and body.
        message: the message, with ``forwarded`` if it was sent, and with the result of its settlement.
        answer: the beginning of the receiver's body if it did not accept the event.
        now: present time.
    """
    forwarded = message.get("forwarded")
    webhook_id = {name.lower(): value for name, value in message["headers"].items()}.get("webhook-id", "")
    parts = [now.astimezone(UTC).strftime("%H:%M:%SZ"), screen.style(str(message["type"]), "bold"), str(webhook_id)]
    if message["attempt"] > 1:
        parts.append(f"attempt {message['attempt']}")
    if forwarded:
        status = forwarded["status"] or 0
        words = forwarded["error"] or f"HTTP {status}"
        parts.append(screen.style(printable(words), "green" if 200 <= status < 300 else "red"))
        parts.append(f"{forwarded['duration_ms']} ms")
    parts.append(_result(message, now))
    lines = ["  ".join(part for part in parts if part)]
    if screen.form == "wide":
        lines += [f"  {name}: {value}" for name, value in message["headers"].items()]
    if screen.form == "wide" or not forwarded:
        lines += _indented(_body(message))
    if answer.strip():
        lines += ["  the receiver answered:", *_indented(answer.strip())]
    return "\n".join(lines)


def _result(message: Mapping[str, Any], now: datetime) -> str:
    if "result" not in message:
        return "sent again"
    if message["result"] in {"lease_ended", "unknown"}:
        return "not acknowledged, comes again" if message["status"] == "pending" else "not acknowledged"
    if message["result"] == "nacked":
        if message["status"] != "pending":
            return "no more retries"
        due = age(message.get("next_attempt_at"), now)
        return f"retry {due}" if due.startswith("in ") else "retry now"
    return ""


def _body(message: Mapping[str, Any]) -> str:
    if message.get("body_encoding") == "base64":
        return f"(binary, in base64) {message['body']}"
    try:
        return json.dumps(json.loads(message["body"]), indent=2, ensure_ascii=False)
    except ValueError:
        return str(message["body"])


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in printable(text).splitlines()]


def printable(text: str) -> str:
    """Return a text that cannot control the terminal: each control character but line feeds is replaced."""
    return "".join(one if one.isprintable() or one == "\n" else "\N{REPLACEMENT CHARACTER}" for one in text)

"""Events: ``send`` one from arguments, or many from a file of JSON lines; ``event-types`` shows their types."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO
from uuid import uuid4

from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.deadline import DEADLINE
from hookwright_cli.parameters import argument, type_names
from hookwright_cli.terminal.columns import EVENT_TYPES as EVENT_TYPE_COLUMNS
from hookwright_cli.terminal.columns import deliveries_text, shown
from hookwright_cli.verbs import Invocation
from hookwright_cli.way_choice import option

if TYPE_CHECKING:
    from hookwright_cli.way_choice import Way

_MOST_EVENTS = 500
_MOST_BYTES = 900_000
"""Of one request; the service takes 1,000 events and 1 MiB."""
_TRIES = 8


def send_events(
    invocation: Invocation,
    kind: Annotated[str, argument("TYPE", "Event type of one event.", autocompletion=type_names)] = "",
    fields: Annotated[
        list[str] | None, argument("FIELD=VALUE...", "Its fields; FIELD:=JSON for other than text.")
    ] = None,
    file: Annotated[str, option("--file -f", "FILE", "JSON lines; - is standard input.")] = "",
) -> None:
    """Send events. An event without an id gets one, so a repetition after a lost answer sends nothing twice."""
    if bool(kind) == bool(file):
        raise CommandError(
            "send one event, `hookwright send delivered messageId=m-1`, or a file, `hookwright send -f events.jsonl`",
            ExitCode.USAGE,
        )
    if kind:
        answer = _patiently(invocation.way, [_event(kind, fields or [])])
        invocation.screen.one(answer, _summary(answer), name=",".join(answer["event_ids"]))
        return
    DEADLINE.lift()
    total: dict[str, Any] = {"accepted": 0, "duplicates": 0, "deliveries": 0, "event_ids": []}
    with nullcontext(sys.stdin) if file == "-" else Path(file).open(encoding="utf-8") as lines:
        size = None if file == "-" else Path(file).stat().st_size
        with invocation.screen.progress("sending (bytes)", size) as report:
            for events, position in _requests(lines):
                answer = _send_of_file(invocation.way, events)
                total = {name: value + answer.get(name, type(value)()) for name, value in total.items()}
                report(position)
    invocation.screen.one(total, _summary(total), name="\n".join(total["event_ids"]))


def _summary(answer: dict[str, Any]) -> str:
    ids = answer["event_ids"]
    duplicates = f", {answer['duplicates']} repeated" if answer["duplicates"] else ""
    name = f": {ids[0]}" if len(ids) == 1 else ""
    return f"{answer['accepted']} accepted{duplicates}, {deliveries_text(answer['deliveries'])}{name}"


def _event(kind: str, fields: list[str]) -> dict[str, Any]:
    event: dict[str, Any] = {"type": kind}
    for pair in fields:
        name, separator, value = pair.partition("=")
        if not separator or not name.removesuffix(":"):
            raise CommandError(f"{pair!r} must be FIELD=VALUE, or FIELD:=JSON", ExitCode.USAGE)
        try:
            event[name.removesuffix(":")] = json.loads(value) if name.endswith(":") else value
        except ValueError as error:
            raise CommandError(f"{pair!r}: the value is not JSON: {error}", ExitCode.USAGE) from None
    return {**event, **{name: event.get(name, f"cli-{uuid4()}") for name in ("messageId", "id")}}


def _send_of_file(way: "Way", events: list[tuple[int, dict[str, Any]]]) -> dict[str, Any]:
    """Send events of a file, each with its line; in halves, if one request would have too many deliveries."""
    try:
        return _patiently(way, [event for _, event in events])
    except CommandError as error:
        if error.problem == "too_many_deliveries" and len(events) > 1:
            middle = len(events) // 2
            first, second = _send_of_file(way, events[:middle]), _send_of_file(way, events[middle:])
            return {name: first[name] + second[name] for name in first}
        error.args = (f"{error}\nno event after line {events[0][0] - 1} was accepted; those before were",)
        raise


def _requests(lines: TextIO) -> Iterator[tuple[list[tuple[int, dict[str, Any]]], int]]:
    """Yield the events of each request with their lines, and the bytes up to its end."""
    events: list[tuple[int, dict[str, Any]]] = []
    size = position = 0
    for number, line in enumerate(lines, 1):
        length = len(line.encode())
        if events and (len(events) == _MOST_EVENTS or size + length > _MOST_BYTES):
            yield events, position
            events, size = [], 0
        position += length
        if line.strip():
            events.append((number, _parsed(line, number)))
            size += length + 50
    if events:
        yield events, position


def _parsed(line: str, number: int) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError as error:
        raise CommandError(f"line {number} is not JSON: {error}", ExitCode.INVALID) from None
    if not isinstance(event, dict):
        raise CommandError(f"line {number} must be a JSON object, one event", ExitCode.INVALID)
    event.setdefault("id", f"cli-{uuid4()}")
    return event


def _patiently(way: "Way", events: list[dict[str, Any]]) -> dict[str, Any]:
    """Send events; after a lost answer or a limit, send the same request again. Their ids prevent duplicates."""
    for number in range(1, _TRIES + 1):
        try:
            return way.send(events)
        except CommandError as error:
            if error.code is not ExitCode.UNAVAILABLE or number == _TRIES or DEADLINE.has_passed:
                raise
            time.sleep(error.retry_after if error.retry_after is not None else min(0.25 * 2**number, 10.0))
    raise AssertionError


def list_event_types(invocation: Invocation) -> None:
    """List the event types: the built-in ones, and the own ones of the organization."""
    invocation.screen.rows(invocation.way.event_types(), EVENT_TYPE_COLUMNS, none="")


def get_event_type(
    invocation: Invocation, kind: Annotated[str, argument("EVENT-TYPE", autocompletion=type_names)]
) -> None:
    """Show an event type: its meaning, an example, the schema of its payload, and the wildcards that include it."""
    event_types = {document["type"]: document for document in invocation.way.event_types()}
    if kind not in event_types:
        names = ", ".join(get_close_matches(kind, event_types)) or "none"
        text = f"unknown event type {kind!r}; the nearest: {names}"
        raise CommandError(text, ExitCode.NOT_FOUND, hint="hookwright event-types list")
    event_type = event_types[kind]
    pairs = [(name.capitalize(), shown(event_type[name])) for name in ("type", "channel", "meaning", "deprecated")]
    pairs.append(("Wildcards", ", ".join(event_type["wildcards"]) or "none"))
    documents = [event_type[name] for name in ("example", "payload_schema") if event_type[name]]
    texts = [json.dumps(document, indent=2, ensure_ascii=False) for document in documents]
    invocation.screen.one(event_type, "\n\n".join([invocation.screen.pairs(pairs), *texts]), name=kind)

"""Events: ``send`` one from arguments, or many from a file of JSON lines; ``explain`` their types."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO
from uuid import uuid4

import typer

from hookwright_cli import live_names
from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.contract import event_types
from hookwright_cli.deadline import DEADLINE
from hookwright_cli.terminal.columns import EVENT_TYPES
from hookwright_cli.verbs import Invocation

if TYPE_CHECKING:
    from hookwright_cli.way_choice import Way

_MOST_EVENTS = 500
_MOST_BYTES = 900_000
"""Of one request; the service takes 1,000 events and 1 MiB."""
_TRIES = 8


def send_events(
    invocation: Invocation,
    kind: Annotated[
        str, typer.Argument(metavar="TYPE", autocompletion=live_names.type_names, help="Event type of one event.")
    ] = "",
    fields: Annotated[
        list[str] | None, typer.Argument(metavar="FIELD=VALUE...", help="Its fields; FIELD:=JSON for other than text.")
    ] = None,
    file: Annotated[str, typer.Option("--file", "-f", metavar="FILE", help="JSON lines; - is standard input.")] = "",
) -> None:
    """Send events. An event without an id gets one, so a repetition after a lost answer sends nothing twice."""
    if bool(kind) == bool(file):
        raise CommandError(
            "send one event, `hookwright send delivered messageId=m-1`, or a file, `hookwright send -f events.jsonl`",
            ExitCode.USAGE,
        )
    if kind:
        answer = _patiently(invocation.way, [_event(kind, fields or [])])
        invocation.screen.one(answer, lambda: _summary(answer), name=",".join(answer["event_ids"]))
        return
    DEADLINE.lift()
    total: dict[str, Any] = {"accepted": 0, "duplicates": 0, "deliveries": 0, "event_ids": []}
    for answer in _sent(invocation, file):
        for name, value in answer.items():
            if name in total:
                total[name] += value
    invocation.screen.one(total, lambda: _summary(total), name="\n".join(total["event_ids"]))


def _summary(answer: dict[str, Any]) -> str:
    ids = answer["event_ids"]
    repeated = f", {answer['duplicates']} repeated" if answer["duplicates"] else ""
    named = f": {ids[0]}" if len(ids) == 1 else ""
    number = answer["deliveries"]
    return f"{answer['accepted']} accepted{repeated}, {number} {'delivery' if number == 1 else 'deliveries'}{named}"


def _event(kind: str, fields: list[str]) -> dict[str, Any]:
    event: dict[str, Any] = {"type": kind}
    for written in fields:
        name, separator, value = written.partition("=")
        if not separator or not name.removesuffix(":"):
            raise CommandError(f"{written!r} must be FIELD=VALUE, or FIELD:=JSON", ExitCode.USAGE)
        if name.endswith(":"):
            try:
                event[name[:-1]] = json.loads(value)
            except ValueError as error:
                raise CommandError(f"{written!r}: the value is not JSON: {error}", ExitCode.USAGE) from None
        else:
            event[name] = value
    event.setdefault("messageId", f"cli-{uuid4()}")
    event.setdefault("id", f"cli-{uuid4()}")
    return event


def _sent(invocation: Invocation, file: str) -> Iterator[dict[str, Any]]:
    """Send a file in requests of a bounded size, and yield the answers."""
    if file == "-":
        yield from _sent_from(invocation, sys.stdin, None)
        return
    path = Path(file)
    with path.open(encoding="utf-8") as lines:
        yield from _sent_from(invocation, lines, path.stat().st_size)


def _sent_from(invocation: Invocation, lines: TextIO, size: int | None) -> Iterator[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    waiting = read = 0
    last = 0
    with invocation.screen.progress("sending (bytes)", size) as report:
        for number, line in enumerate(lines, 1):
            read += len(line.encode())
            if not line.strip():
                continue
            if events and (len(events) == _MOST_EVENTS or waiting + len(line.encode()) > _MOST_BYTES):
                yield _sent_with_place(invocation.way, events, last)
                last, events, waiting = number - 1, [], 0
                report(read)
            events.append(_parsed(line, number))
            waiting += len(line.encode()) + 50
        if events:
            yield _sent_with_place(invocation.way, events, last)
            report(read)


def _parsed(line: str, number: int) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError as error:
        raise CommandError(f"line {number} is not JSON: {error}", ExitCode.INVALID) from None
    if not isinstance(event, dict):
        raise CommandError(f"line {number} must be a JSON object, one event", ExitCode.INVALID)
    event.setdefault("id", f"cli-{uuid4()}")
    return event


def _sent_with_place(way: "Way", events: list[dict[str, Any]], lines_before: int) -> dict[str, Any]:
    try:
        return _patiently(way, events)
    except CommandError as error:
        place = f"the {len(events)} events after line {lines_before} were not accepted; those before were"
        raise CommandError(
            f"{error}\n{place}", error.code, problem=error.problem, status=error.status, hint=error.hint
        ) from None


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


def explain_type(
    invocation: Invocation,
    kind: Annotated[
        str, typer.Argument(metavar="EVENT-TYPE", autocompletion=live_names.type_names, help="All, if left out.")
    ] = "",
) -> None:
    """Explain an event type: its meaning, an example, and the wildcards that include it."""
    if not kind:
        invocation.screen.rows(event_types(), EVENT_TYPES, none="")
        return
    found = next((one for one in event_types() if one["type"] == kind), None)
    if found is None:
        known = ", ".join(str(one["type"]) for one in event_types())
        raise CommandError(f"unknown event type {kind!r}; known types: {known}", ExitCode.NOT_FOUND)
    pairs = [(name.capitalize(), str(found[name])) for name in ("type", "channel", "meaning")]
    pairs.append(("Wildcards", ", ".join(found["wildcards"])))
    example = json.dumps(found["example"], indent=2, ensure_ascii=False)
    invocation.screen.one(found, lambda: f"{invocation.screen.pairs(pairs)}\n\n{example}", name=kind)

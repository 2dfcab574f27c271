"""``hookwright explain``: the meaning of event types, and of exit codes."""

import json
from typing import Annotated

import typer

from hookwright_cli import live_names
from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.contract import event_types
from hookwright_cli.terminal.columns import EVENT_TYPES
from hookwright_cli.verbs import Invocation


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

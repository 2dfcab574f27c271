"""``hookwright explain``: the meaning of event types, and of exit codes."""

import json
from typing import Annotated

import typer

from hookwright_cli import live_names
from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.terminal.columns import EVENT_TYPES
from hookwright_cli.verbs import Invocation, command_of


def explain_type(
    invocation: Invocation,
    kind: Annotated[
        str, typer.Argument(metavar="EVENT-TYPE", autocompletion=live_names.type_names, help="All, if left out.")
    ] = "",
) -> None:
    """Explain an event type: its meaning, an example, and the wildcards that include it."""
    if not kind:
        invocation.screen.rows(live_names.event_catalogue(), EVENT_TYPES, none="")
        return
    found = next((one for one in live_names.event_catalogue() if one["type"] == kind), None)
    if found is None:
        known = ", ".join(str(one["type"]) for one in live_names.event_catalogue())
        raise CommandError(f"unknown event type {kind!r}; known types: {known}", ExitCode.NOT_FOUND)
    pairs = [(name.capitalize(), str(found[name])) for name in ("type", "channel", "meaning")]
    pairs.append(("Wildcards", ", ".join(found["wildcards"])))
    example = json.dumps(found["example"], indent=2, ensure_ascii=False)
    invocation.screen.one(found, lambda: f"{invocation.screen.pairs(pairs)}\n\n{example}", name=kind)


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("explain")(command_of(explain_type))

"""The reference of the command line."""

from collections.abc import Iterator
from typing import Any

import typer.main
from click import Context

from hookwright_cli.command_errors import ExitCode
from hookwright_cli.command_line import app
from hookwright_dev.markdown import GENERATED, table

_COMMON = "Way into Hookwright"
_LONG = 8
"""From this length on, a list of options that another command has too is not repeated."""


def commands_page() -> str:
    """Return docs/cli-reference.md."""
    root: Any = typer.main.get_command(app)
    introduction = (
        "Every command of `hookwright` and of `kubectl hookwright`. [The command line](cli.md) is the guide. The "
        "options of the last section belong to every command."
    )
    parts = [GENERATED, "# Commands", introduction]
    commands = list(_commands(root, "hookwright"))
    options = {path: list(_options(command, common=False)) for path, command in commands}
    for path, command in commands:
        parts += _section(path, command, options)
    parts += ["## Options of every command", "\n".join(_options(commands[0][1], common=True))]
    meanings = [(f"`{int(code)}`", code.meaning) for code in ExitCode]
    parts += ["## Exit codes", table(("Code", "Meaning"), meanings)]
    return "\n\n".join(parts) + "\n"


def _commands(group: Any, path: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def _section(path: str, command: Any, options: dict[str, list[str]]) -> Iterator[str]:
    context = Context(command, info_name=path)
    arguments = " ".join(command.collect_usage_pieces(context)).removeprefix("[OPTIONS]")
    yield f"## {path}"
    if arguments:
        yield f"`{path}{arguments}`"
    yield " ".join(command.help.split())
    own = set(options[path])
    wider = (name for name, lines in options.items() if len(own) >= _LONG and own < set(lines))
    if name := next(wider, ""):
        without = ", ".join(line.removeprefix("- ").partition(":")[0] for line in options[name] if line not in own)
        yield f"The options are those of `{name}`, without {without}."
    elif own:
        yield "\n".join(options[path])


def _options(command: Any, *, common: bool) -> Iterator[str]:
    for option in command.params:
        if option.param_type_name != "option" or option.name == "help":
            continue
        if (getattr(option, "rich_help_panel", None) == _COMMON or option.name == "output") is not common:
            continue
        names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
        metavar = f" `{option.metavar}`" if option.metavar else ""
        yield f"- {names}{metavar}: " + (option.help or "").replace("<", "&lt;")

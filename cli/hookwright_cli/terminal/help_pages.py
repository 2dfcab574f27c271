"""Pages of ``--help``: commands in groups, each with a whole sentence, and options in sections."""

from collections.abc import Iterable
from typing import Any

from typer.core import TyperCommand, TyperGroup

Entry = tuple[str, str, str]
"""A section, a name and its meaning."""


def _write_sections(formatter: Any, entries: Iterable[Entry]) -> None:
    sections: dict[str, list[tuple[str, str]]] = {}
    for section, name, meaning in entries:
        sections.setdefault(section, []).append((name, meaning))
    for section, rows in sections.items():
        with formatter.section(section):
            formatter.write_dl(rows)


def _parameters(command: Any, ctx: Any) -> Iterable[Entry]:
    for parameter in command.get_params(ctx):
        if record := parameter.get_help_record(ctx):
            section = "Arguments" if parameter.param_type_name == "argument" else "Options"
            # Typer puts the Python type of an argument behind its name.
            yield getattr(parameter, "rich_help_panel", None) or section, record[0].partition(" <")[0], record[1]


def _commands(group: Any) -> Iterable[Entry]:
    for name, command in group.commands.items():
        summary = " ".join((command.help or "").split("\n\n", 1)[0].split())
        yield command.rich_help_panel or "Commands", name, summary.partition(". ")[0].rstrip(".") + "."


class HelpfulCommand(TyperCommand):
    """A command; its own options come before those of every command."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options."""
        _write_sections(formatter, _parameters(self, ctx))


class HelpfulGroup(TyperGroup):
    """A group; its commands come before the options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands by their groups, then the options."""
        _write_sections(formatter, [*_commands(self), *_parameters(self, ctx)])

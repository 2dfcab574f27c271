"""The output of a command: a table for people, or ``-o json|yaml|wide|name`` for scripts.

Standard output has the answer only. Progress, hints and errors go to standard error.
"""

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.deadline import DEADLINE
from hookwright_cli.terminal.columns import STYLES, Column

FORMATS = ("table", "wide", "json", "yaml", "name")
_SHOW_PROGRESS_AFTER = 2.0
_GAP = "   "
_NARROWEST = 6
_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_STYLE = r"\x1b\[(?:1;)?(?:0|1|2|31|32|33)m"
_PLAIN = re.compile(f"[{_CONTROLS}]")
_STYLED = re.compile(f"({_STYLE})|[{_CONTROLS}]")
"""Receivers and producers choose bodies, headers and errors, and none of these may control a terminal."""


def plain(text: str, *, styled: bool = False) -> str:
    """Return a text in which control characters, except ends of lines and tabs, are escaped as in JSON.

    Characters that change the direction of text are escaped too, because they change the order in which a line is read.
    In a styled text, the colours of a table stay.
    """
    return (_STYLED if styled else _PLAIN).sub(_escaped, text)


def _cut(line: str, width: int) -> str:
    """Return the beginning of a line that fits into a width, with all its colours."""
    parts = re.split(f"({_STYLE})", line)
    for place in range(0, len(parts), 2):
        parts[place] = parts[place][:width]
        width -= len(parts[place])
    return "".join(parts)


def _escaped(match: re.Match[str]) -> str:
    return match[0] if match.lastindex else f"\\u{ord(match[0]):04x}"


def fitting(widths: Sequence[int], room: int) -> list[int]:
    """Return the widths of columns in a room: the widest become smaller; the first column, which has names, last."""
    result = list(widths)
    while sum(result) > room and max(result) > _NARROWEST:
        others = result[1:] if max(result[1:], default=0) > _NARROWEST else result
        result[result.index(max(others), len(result) - len(others))] -= 1
    return result


class Screen:
    """The terminal or the pipes of this process; its form is one of `FORMATS`."""

    def __init__(self, form: str = "table") -> None:
        if form not in FORMATS:
            raise CommandError(f"-o {form!r} must be one of {', '.join(FORMATS)}", ExitCode.USAGE)
        self.form = form

    @property
    def for_people(self) -> bool:
        """Whether the answer is a table."""
        return self.form in {"table", "wide"}

    @property
    def coloured(self) -> bool:
        """Whether standard output is a terminal on which colours are wanted (https://no-color.org)."""
        return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def rows(self, documents: Iterable[Mapping[str, Any]], columns: Sequence[Column], *, none: str) -> None:
        """Print a list, whose first column has the names, or for people the sentence for an empty list."""
        items = [dict(document) for document in documents]
        if not self.for_people:
            self._structured({"data": items}, [columns[0].text(document, datetime.now(UTC)) for document in items])
        elif not items:
            self.note(none)
        else:
            self.line(self.table(items, columns))

    def one(self, document: Mapping[str, Any], text: str, *, name: str = "") -> None:
        """Print one object: for people the text."""
        if self.for_people:
            self.line(text)
        else:
            self._structured(dict(document), [name or str(document.get("id", ""))])

    def _structured(self, document: Any, names: Sequence[str]) -> None:
        if self.form == "name":
            for name in names:
                self.line(name)
        elif self.form == "json":
            self.line(json.dumps(document, indent=2, ensure_ascii=False))
        else:
            self._write(yaml_of(document))

    def follow(self, document: Mapping[str, Any], text: str, *, name: str) -> None:
        """Print one of many objects that follow each other: JSON on one line, or a YAML document."""
        if self.form == "json":
            self.line(json.dumps(document, ensure_ascii=False))
        elif self.form == "yaml":
            self._write(f"---\n{yaml_of(document)}")
        else:
            self.line(name if self.form == "name" else text)

    def table(self, documents: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> str:
        """Return a table. On a terminal it is not wider than that, unless ``-o wide`` asks for whole cells."""
        now = datetime.now(UTC)
        visible = [column for column in columns if self.form == "wide" or not column.wide]
        cells = [[column.title for column in visible]]
        cells += [[plain(column.text(document, now)) for column in visible] for document in documents]
        return self._aligned(cells)

    def pairs(self, pairs: Sequence[tuple[str, str]]) -> str:
        """Return names and values below each other."""
        width = max((len(name) for name, _ in pairs), default=0) + 2
        return "\n".join(f"{self.style(f'{name}:', 'bold')}{' ' * (width - len(name))}{value}" for name, value in pairs)

    def _aligned(self, cells: list[list[str]]) -> str:
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        if sys.stdout.isatty() and self.form != "wide":
            widths = fitting(widths, shutil.get_terminal_size().columns - len(_GAP) * (len(widths) - 1))
        lines = []
        for number, row in enumerate(cells):
            parts = []
            for title, cell, width in zip(cells[0], row, widths, strict=True):
                # An event type may have the name of a state.
                state = STYLES.get(cell, "") if title in {"STATUS", "STATE"} else ""
                text = cell if len(cell) <= width else f"{cell[: width - 1]}…"
                parts.append(self.style(text, state if number else "bold") + " " * (width - len(text)))
            lines.append(_GAP.join(parts).rstrip())
        return "\n".join(lines)

    def state(self, name: str) -> str:
        """Return the name of a state in its style."""
        return self.style(name, STYLES.get(name, ""))

    def style(self, text: str, style: str) -> str:
        """Return a text with the codes of a style, unchanged if colours are not wanted."""
        if not style or not text or not self.coloured:
            return text
        from rich.style import Style

        return Style.parse(style).render(text)

    def line(self, text: str) -> None:
        """Print a line of the answer, without control characters."""
        self._write(plain(text, styled=self.coloured))

    def _write(self, text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def note(self, text: str) -> None:
        """Print a sentence that is not part of the answer."""
        sys.stderr.write(f"{plain(text)}\n")
        sys.stderr.flush()

    @contextmanager
    def progress(self, label: str, total: float | None) -> Iterator[Callable[[float], None]]:
        """Yield a function that reports how much is done; a bar appears after two seconds, only on a terminal."""
        if not sys.stderr.isatty():
            yield lambda _done: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        bar = Progress(*columns, console=Console(stderr=True), transient=True)
        task = bar.add_task(label, total=total)
        start = time.monotonic()

        def report(amount: float) -> None:
            if time.monotonic() - start > _SHOW_PROGRESS_AFTER:
                bar.start()
            bar.update(task, completed=amount)

        try:
            yield report
        finally:
            if bar.live.is_started:
                bar.stop()

    @contextmanager
    def whole_terminal(self) -> Iterator[Callable[[Sequence[str]], None]]:
        """Yield a function that draws lines over the whole terminal, which is as before at the end."""

        def draw(lines: Sequence[str]) -> None:
            # The codes move to the beginning, clear the rest of each line, and all below the last one.
            width = shutil.get_terminal_size().columns
            text = "\x1b[K\r\n".join(_cut(plain(line, styled=self.coloured), width) for line in lines)
            sys.stdout.write(f"\x1b[H{text}\x1b[K\x1b[J")
            sys.stdout.flush()

        # The other screen of the terminal, without a cursor and without lines that wrap.
        sys.stdout.write("\x1b[?1049h\x1b[?25l\x1b[?7l")
        try:
            yield draw
        finally:
            sys.stdout.write("\x1b[?7h\x1b[?25h\x1b[?1049l")
            sys.stdout.flush()

    def again(self, text: str) -> None:
        """Print a text in place of the one before on a terminal, otherwise below it."""
        # Clear the screen and move to its beginning.
        clear = "\x1b[2J\x1b[H" if sys.stdout.isatty() else ""
        self._write(clear + plain(text, styled=self.coloured))

    def watch(
        self, read: Callable[[], list[dict[str, Any]]], columns: Sequence[Column], *, seconds: float = 2.0
    ) -> None:
        """Print a list again and again until Ctrl-C: changed rows below each other, or the whole list on a terminal."""
        DEADLINE.lift()
        printed_rows: dict[str, Any] = {}
        hidden_lines = 0
        while True:
            documents = {str(document["id"]): document for document in read()}
            changes = {name: document for name, document in documents.items() if printed_rows.get(name) != document}
            if sys.stdout.isatty() and self.for_people:
                self.again(self.table([*documents.values()], columns) if documents else "(none)")
                changes = {}
            for name, document in reversed(changes.items()):
                lines = self.table([document], columns).split("\n")
                self.follow(document, "\n".join(lines[hidden_lines:]), name=name)
                # The header is printed once.
                hidden_lines = 1
            printed_rows |= changes
            time.sleep(seconds)


def yaml_of(document: Any) -> str:
    """Return a document as YAML, without characters that can control a terminal."""
    import yaml

    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    if plain(text) != text:
        # YAML escapes control characters in its own way, but not the characters that change the direction of text.
        text = yaml.safe_dump(document, sort_keys=False)
    return text.rstrip("\n")

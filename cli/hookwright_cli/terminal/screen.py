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


def _escaped(match: re.Match[str]) -> str:
    return match[0] if match.lastindex else f"\\u{ord(match[0]):04x}"


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
        """Return a table in which each column is as wide as its longest cell."""
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
        *widths, _ = (max(map(len, column)) for column in zip(*cells, strict=True))
        room = shutil.get_terminal_size().columns - sum(widths) - len(_GAP) * len(widths)
        lines = []
        for number, row in enumerate(cells):
            texts = list(row)
            if sys.stdout.isatty() and len(row[-1]) > max(room, 8):
                texts[-1] = f"{row[-1][: max(room, 8) - 1]}…"
            parts = []
            for title, cell, text, width in zip(cells[0], row, texts, (*widths, 0), strict=True):
                # An event type may have the name of a state.
                state = STYLES.get(cell, "") if title in {"STATUS", "STATE"} else ""
                parts.append(self.style(text, state if number else "bold") + " " * (width - len(cell)))
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

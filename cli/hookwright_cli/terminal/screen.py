"""The output of a command: a table for people, or ``-o json|yaml|wide|name`` for scripts.

Standard output has the answer only. Progress, hints and errors go to standard error.
"""

import json
import os
import re
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

    Args:
        text: with parts that others have written.
        styled: whether the colours of a table stay.
    """
    return (_STYLED if styled else _PLAIN).sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return match[0] if match.lastindex else f"\\u{ord(match[0]):04x}"


class Screen:
    """The terminal or the pipes of this process.

    Args:
        form: one of `FORMATS`.
    """

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
        """Print a list.

        Args:
            documents: in the form of ``/v1``; the first column has the name.
            columns: of the table.
            none: a sentence for an empty list, for people.
        """
        listed = [dict(one) for one in documents]
        if self.form == "name":
            for one in listed:
                self.line(columns[0].text(one, datetime.now(UTC)))
        elif not self.for_people:
            self._structured({"data": listed})
        elif not listed:
            self.note(none)
        else:
            self.line(self.table(listed, columns))

    def one(self, document: Mapping[str, Any], text: Callable[[], str], *, name: str = "") -> None:
        """Print one object: for people the text."""
        if self.form == "name":
            self.line(name or str(document.get("id", "")))
        elif self.for_people:
            self.line(text())
        else:
            self._structured(dict(document))

    def _structured(self, document: Any) -> None:
        if self.form == "json":
            self.line(json.dumps(document, indent=2, ensure_ascii=False))
            return
        import yaml

        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
        if plain(text) != text:
            # YAML escapes control characters in its own way, but not the characters that change the direction of text.
            text = yaml.safe_dump(document, sort_keys=False)
        self._write(text.rstrip("\n"))

    def table(self, documents: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> str:
        """Return a table in which each column is as wide as its longest cell."""
        now = datetime.now(UTC)
        used = [one for one in columns if self.form == "wide" or not one.wide]
        cells = [[column.title for column in used]]
        cells += [[plain(column.text(document, now)) for column in used] for document in documents]
        return self._aligned(cells)

    def pairs(self, pairs: Sequence[tuple[str, str]]) -> str:
        """Return names and values below each other."""
        width = max((len(name) for name, _ in pairs), default=0) + 2
        return "\n".join(f"{self.style(f'{name}:', 'bold')}{' ' * (width - len(name))}{value}" for name, value in pairs)

    def _aligned(self, cells: list[list[str]]) -> str:
        widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
        room = _columns_of_terminal() if sys.stdout.isatty() else 0
        lines = []
        for number, row in enumerate(cells):
            parts, used = [], 0
            for at, cell in enumerate(row):
                text = cell if at < len(row) - 1 or not room else _cut(cell, max(room - used, 8))
                padding = " " * (widths[at] - len(cell)) if at < len(row) - 1 else ""
                # An event type may have the name of a state.
                state = STYLES.get(cell, "") if cells[0][at] in {"STATUS", "STATE"} else ""
                style = "bold" if number == 0 else state
                parts.append(self.style(text, style) + padding)
                used += widths[at] + len(_GAP)
            lines.append(_GAP.join(parts).rstrip())
        return "\n".join(lines)

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

    def done(self, text: str) -> None:
        """Print a sentence about a finished action, for people only."""
        if self.for_people:
            self.line(text)

    def note(self, text: str) -> None:
        """Print a sentence that is not part of the answer."""
        sys.stderr.write(f"{plain(text)}\n")
        sys.stderr.flush()

    @contextmanager
    def progress(self, what: str, total: float | None) -> Iterator[Callable[[float], None]]:
        """Yield a function that reports how much is done; a bar appears after two seconds, only on a terminal."""
        if not sys.stderr.isatty():
            yield lambda _done: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        bar = Progress(*columns, console=Console(stderr=True), transient=True)
        task = bar.add_task(what, total=total)
        begun = time.monotonic()
        started = False

        def report(done: float) -> None:
            nonlocal started
            if not started and time.monotonic() - begun > _SHOW_PROGRESS_AFTER:
                bar.start()
                started = True
            bar.update(task, completed=done)

        try:
            yield report
        finally:
            if started:
                bar.stop()

    def watch(
        self, read: Callable[[], list[dict[str, Any]]], columns: Sequence[Column], *, seconds: float = 2.0
    ) -> None:
        """Print a list again and again until Ctrl-C: changed rows below each other, or the whole list on a terminal."""
        DEADLINE.lift()
        if sys.stdout.isatty() and self.for_people:
            while True:
                documents = read()
                text = self.table(documents, columns) if documents else "(none)"
                # Clear the screen and move to its beginning.
                self._write(f"\x1b[2J\x1b[H{plain(text, styled=self.coloured)}")
                time.sleep(seconds)
        seen: dict[str, Any] = {}
        header = self.for_people
        while True:
            changed = [one for one in read() if seen.get(str(one.get("id"))) != one]
            seen |= {str(one.get("id")): one for one in changed}
            for one in reversed(changed):
                if self.form == "name":
                    self.line(str(one.get("id")))
                elif not self.for_people:
                    self.line(json.dumps(one, ensure_ascii=False))
                else:
                    text = self.table([one], columns)
                    self.line(text if header else text.split("\n", 1)[1])
                    header = False
            time.sleep(seconds)


def _columns_of_terminal() -> int:
    import shutil

    return shutil.get_terminal_size().columns


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"

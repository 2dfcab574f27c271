"""Pure: the events of ``hookwright listen`` as a list on the whole terminal. It gets keys and returns lines."""

import re
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

_MOST = 200
"""Events that the list keeps."""
_PAGE = 10
_KEY = re.compile(r"\x1b[\[O][0-9;]*[A-Za-z~]|.", re.DOTALL)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_NAMES = {
    "\x1b[A": "up", "k": "up", "\x1b[B": "down", "j": "down", "\x1b[5~": "page up", "\x1b[6~": "page down",
    "\x1b[H": "home", "g": "home", "\x1b[F": "end", "G": "end", "\x1b[C": "open", "\n": "open", "\r": "open",
    "\x1b[D": "close", "\x1b": "close", "q": "close", "\x7f": "backspace", "\b": "backspace",
}  # fmt: skip
"""What the keys mean, as terminals send them."""
_STEPS = {"up": -1, "down": 1, "page up": -_PAGE, "page down": _PAGE, "home": -_MOST, "end": _MOST}
_HELP = "Ctrl-C: end   up, down: move   enter: details   r: send again   /: filter"
_HELP_OF_DETAILS = "Ctrl-C: end   up, down: scroll   left: back to the list   r: send again"


class ListedEvent(NamedTuple):
    """An event that was received, or sent again: its line, all that is known of it, and its message."""

    line: str
    details: str
    message: Mapping[str, Any]


def keys_of(text: str) -> list[str]:
    """Return the single keys in what a terminal sent."""
    return [key.replace("\x1bO", "\x1b[") for key in _KEY.findall(text)]


class EventList:
    """The newest events, of which one is selected: the last one, until the user moves.

    Attributes:
        heading: lines above the list.
        notice: a line below the list, such as why no events arrive.
    """

    def __init__(self, heading: Sequence[str]) -> None:
        self.heading, self.notice = heading, ""
        self.events: deque[ListedEvent] = deque(maxlen=_MOST)
        self._chosen: ListedEvent | None = None
        self._filter, self._is_typing = "", False
        self._shows_details, self._offset = False, 0

    def _visible(self) -> list[ListedEvent]:
        text = self._filter.lower()
        return [event for event in self.events if text in _COLOUR.sub("", f"{event.line}\n{event.details}").lower()]

    def _position(self, events: Sequence[ListedEvent]) -> int:
        # The last one, if the chosen event is hidden or gone.
        return next((place for place, event in enumerate(events) if event is self._chosen), len(events) - 1)

    @property
    def selected(self) -> ListedEvent | None:
        """The selected event."""
        events = self._visible()
        return events[self._position(events)] if events else None

    def press(self, key: str) -> bool:
        """Move, open, close or filter; return whether the key was typed into the filter."""
        if self._is_typing:
            self._type(key)
            return True
        name = _NAMES.get(key, key)
        if name in _STEPS:
            self._move(_STEPS[name])
        elif name == "open" and (event := self.selected):
            # The event stays when others arrive.
            self._chosen, self._shows_details, self._offset = event, True, 0
        elif name == "close" and self._shows_details:
            self._shows_details = False
        elif name == "close":
            self._filter = ""
        elif name == "/":
            self._is_typing, self._shows_details, self._filter = True, False, ""
        return False

    def _type(self, key: str) -> None:
        name = _NAMES.get(key, key) if not key.isprintable() else key
        if name in {"open", "close"}:
            self._is_typing = False
            self._filter = self._filter if name == "open" else ""
        elif name == "backspace":
            self._filter = self._filter[:-1]
        elif name.isprintable() and len(name) == 1:
            self._filter += name

    def _move(self, step: int) -> None:
        if self._shows_details:
            self._offset = max(0, self._offset + step)
            return
        events = self._visible()
        place = min(max(self._position(events) + step, 0), len(events) - 1)
        # The last event is selected by no choice, so that the selection follows new ones.
        self._chosen = events[place] if 0 <= place < len(events) - 1 else None

    def lines(self, height: int, width: int) -> list[str]:
        """Return the lines of a terminal; the caller cuts those below the heading."""
        # The heading has the signing secret, which people copy.
        heading = [line[start : start + width] for line in self.heading for start in range(0, len(line), width)]
        room = max(height - len(heading) - 2, 1)
        if self._shows_details and (event := self.selected):
            body, help_line = self._details(event, room), _HELP_OF_DETAILS
        else:
            body, help_line = self._rows(room), _HELP
        if self._is_typing or self._filter:
            help_line = f"/{self._filter}   {'enter: keep' if self._is_typing else help_line}   Esc: all"
        return [*heading, *body, *[""] * (room - len(body)), self.notice, help_line]

    def _details(self, event: ListedEvent, room: int) -> list[str]:
        lines = [event.line, *event.details.splitlines()]
        self._offset = min(self._offset, max(len(lines) - room, 0))
        return lines[self._offset : self._offset + room]

    def _rows(self, room: int) -> list[str]:
        events = self._visible()
        position = self._position(events)
        first = max(min(position - room // 2, len(events) - room), 0)
        window = enumerate(events[first : first + room], first)
        return [f"{'>' if place == position else ' '} {event.line}" for place, event in window]

"""Pure: text that cannot control a terminal. Receivers and producers choose bodies, headers and errors."""

import re

_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_STYLE = r"\x1b\[(?:1;)?(?:0|1|2|31|32|33)m"
_PLAIN = re.compile(f"[{_CONTROLS}]")
_STYLED = re.compile(f"({_STYLE})|[{_CONTROLS}]")


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

"""Pure: the chart's README, from the comments in values.yaml: every value has one."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import yaml

_KEY: Final = re.compile(r"^(?P<indent> *)(?P<key>[A-Za-z][\w.-]*):(?P<rest>.*)$")


class UndocumentedError(ValueError):
    """A value without a comment above it."""


@dataclass(frozen=True, slots=True)
class Documented:
    """One line of values.yaml that sets a value.

    Attributes:
        path: its name with dots, as ``--set`` takes it.
        default: as YAML, on one line; empty for a section.
        comment: the comment above it.
    """

    path: str
    default: str
    comment: str

    @property
    def section(self) -> bool:
        """Whether other values are below it."""
        return not self.default


def documented(text: str) -> Iterator[Documented]:
    """Yield every key of a values.yaml in order.

    Raises:
        UndocumentedError: one has no comment.
    """
    comment: list[str] = []
    path: list[tuple[int, str]] = []
    for line in text.splitlines():
        content = line.strip()
        if content.startswith("#"):
            if not content.startswith(("# BEGIN ", "# END ")):
                comment.append(content.lstrip("# ").rstrip())
        elif match := _KEY.match(line):
            indent = len(match["indent"])
            path = [*((depth, key) for depth, key in path if depth < indent), (indent, match["key"])]
            name = ".".join(key for _, key in path)
            if not comment:
                raise UndocumentedError(f"values.yaml: {name} has no comment above it; write one that describes it")
            yield Documented(name, match["rest"].strip(), " ".join(comment))
            comment = []
        else:
            comment = []


def table(text: str) -> str:
    """Return the values as Markdown, one table for each section at the top."""
    lines: list[str] = []
    for value in documented(text):
        top = "." not in value.path
        if value.section and top:
            lines += ["", f"### {value.path}", "", value.comment, "", "| Value | Default | Meaning |", "|---|---|---|"]
        elif not value.section:
            if top:
                lines += ["", f"### {value.path}", "", "| Value | Default | Meaning |", "|---|---|---|"]
            default = yaml.safe_dump(yaml.safe_load(value.default), default_flow_style=True, width=1000)
            cell = default.removesuffix("\n").removesuffix("\n...").replace("|", "\\|")
            lines.append(f"| `{value.path}` | `{cell}` | {value.comment.replace('|', chr(92) + '|')} |")
    return "\n".join(lines).strip() + "\n"

"""Pure: the fields of a submitted form (application/x-www-form-urlencoded), and their bounds."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final
from urllib.parse import parse_qs

from pydantic import BaseModel

from hookwright_runtime.problems import FieldFault, ProblemError, invalid

MEDIA: Final = "application/x-www-form-urlencoded"
_MAX_FIELDS: Final = 500


class Form:
    """The fields of a form. Browsers omit unchecked boxes, so a missing field is empty."""

    def __init__(self, fields: Mapping[str, Sequence[str]] | None = None) -> None:
        self._fields = dict(fields or {})

    @classmethod
    def of(cls, body: bytes) -> "Form":
        """Read a body.

        Raises:
            ProblemError: 400, it is not a form.
        """
        try:
            fields = parse_qs(
                body.decode(), keep_blank_values=True, max_num_fields=_MAX_FIELDS, encoding="utf-8", errors="strict"
            )
        except ValueError:
            raise ProblemError(400, "the form cannot be read; reload the page and send it again") from None
        return cls(fields)

    def raw(self, name: str) -> str:
        """Return the value of a field unchanged, such as a password."""
        return next(iter(self._fields.get(name, ())), "")

    def text(self, name: str) -> str:
        """Return the value of a field without surrounding white space."""
        return self.raw(name).strip()

    def all(self, name: str) -> list[str]:
        """Return every value of a field, such as that of a group of boxes."""
        return list(self._fields.get(name, ()))

    def flag(self, name: str) -> bool:
        """Return whether a box is checked."""
        return name in self._fields

    def pairs(self, name: str, separator: str) -> dict[str, str]:
        """Return the pairs of a text area that has one pair on each line, such as ``Name: value``.

        Raises:
            ProblemError: 422, there are too many lines, a line has no separator, or two lines have the same name.
        """
        found: dict[str, str] = {}
        lines = self.raw(name).splitlines()
        if len(lines) > _MAX_FIELDS:
            raise invalid(FieldFault(name, f"must have at most {_MAX_FIELDS} lines"))
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            key, has_separator, value = line.partition(separator)
            if not has_separator or not key.strip():
                raise invalid(FieldFault(name, f"line {number} must have the form name{separator} value"))
            if key.strip() in found:
                raise invalid(FieldFault(name, f"line {number} repeats the name {key.strip()}"))
            found[key.strip()] = value.strip()
        return found


@cache
def schemas_of(model: type[BaseModel]) -> Mapping[str, Mapping[str, Any]]:
    """Return the JSON schema of each field of a request; that of a field that may be null is the one of its value."""
    fields: dict[str, dict[str, Any]] = model.model_json_schema(by_alias=False)["properties"]
    return {name: {**field, **field.get("anyOf", [{}])[0]} for name, field in fields.items()}


def faults_of(problem: ProblemError) -> dict[str, str]:
    """Return the messages of a refused form by the first part of each field's path."""
    found: dict[str, list[str]] = {}
    for fault in problem.errors:
        name = fault.field.partition(".")[0].partition("[")[0]
        found.setdefault(name, []).append(fault.message)
    return {name: "; ".join(dict.fromkeys(messages)) for name, messages in found.items()}

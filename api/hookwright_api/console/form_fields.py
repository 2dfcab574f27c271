"""Pure: the fields of a form, derived from the class of a request, and a submitted form with its faults."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import parse_qs

from pydantic import BaseModel, ValidationError

from hookwright_api.console.delivery_filters import moment_of
from hookwright_crds.derived_models import in_snake_case
from hookwright_runtime.problems import FieldFault, ProblemError, invalid
from hookwright_runtime.validation import from_validation

MEDIA: Final = "application/x-www-form-urlencoded"
_MAX_FIELDS: Final = 500
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")
_SEPARATOR: Final = re.compile("[:=]")
_KINDS: Final = {"boolean": "flag", "integer": "number", "object": "pairs", "array": "lines", "string": "text"}
_ATTRIBUTES: Final = {"min": "minimum", "max": "maximum", "minlength": "minLength", "maxlength": "maxLength"}
"""The attributes of HTML for the bounds of a schema."""

M = TypeVar("M", bound=BaseModel)


class Form(dict[str, list[str]]):
    """The values of a form, by the names of its fields. Browsers omit unchecked boxes, so a missing field is empty."""

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
        return next(iter(self.get(name, ())), "")

    def text(self, name: str) -> str:
        """Return the value of a field without surrounding white space."""
        return self.raw(name).strip()

    def all(self, name: str) -> list[str]:
        """Return every value of a field, such as that of a group of boxes."""
        return self.get(name, [])

    def lines(self, name: str) -> list[str]:
        """Return the lines of a text area, also empty ones.

        Raises:
            ProblemError: 422, there are too many.
        """
        lines = self.raw(name).splitlines()
        if len(lines) > _MAX_FIELDS:
            raise invalid(FieldFault(name, f"must have at most {_MAX_FIELDS} lines"))
        return lines

    def pairs(self, name: str) -> dict[str, str]:
        """Return the pairs of a text area that has one pair on each line: ``name: value`` or ``name=value``.

        Raises:
            ProblemError: 422, there are too many lines, a line is no pair, or two lines have the same name.
        """
        pairs: dict[str, str] = {}
        for number, line in enumerate(self.lines(name), 1):
            if not line.strip():
                continue
            key, *values = (part.strip() for part in _SEPARATOR.split(line, maxsplit=1))
            if not values or not key:
                raise invalid(FieldFault(name, f"line {number} must have the form name: value"))
            if key in pairs:
                raise invalid(FieldFault(name, f"line {number} repeats the name {key}"))
            pairs[key] = values[0]
        return pairs


class FormField(NamedTuple):
    """A field of a form, as the class of a request describes it.

    Attributes:
        name: of the field; that of a field of an object follows the object's name and a period.
        kind: ``text``, ``password``, ``pem``, ``number``, ``time``, ``choice``, ``choices``, ``flag``, ``lines`` or
            ``pairs``.
        help: the description.
        example: a JSON value; empty if there is none.
        bounds: attributes of HTML.
        options: of a choice.
        default: the JSON value of a field that is not set; None for an empty one.
        is_optional: the field may be empty, and then has no value.
        has_numbers: the value, or each entry of a list, is a number.
    """

    name: str
    kind: str
    label: str
    help: str
    example: Any
    bounds: Mapping[str, int]
    options: Sequence[str]
    default: Any
    is_optional: bool
    has_numbers: bool

    @property
    def placeholder(self) -> str:
        """An example of an empty field."""
        return next(iter(_lines(self.example)), "") if self.kind in ("lines", "pairs") else str(self.example)

    def value(self, document: Mapping[str, Any]) -> Any:
        """Return the JSON value of the field in a document; an absent field has its default."""
        value: Any = document
        for part in self.name.split("."):
            value = (value or {}).get(part)
        return self.default if value is None else value

    def values(self, document: Mapping[str, Any]) -> list[str]:
        """Return the values of the field in a form that shows a document."""
        value = self.value(document)
        match self.kind:
            case "choices":
                return [*(value or ())]
            case "flag":
                return ["on"] if value else []
            case "lines" | "pairs":
                return ["\n".join(_lines(value))]
            case "time":
                # A time in UTC, as the value of a field of the type datetime-local.
                return [(value or "").removesuffix("Z")]
        return ["" if value is None else str(value)]

    def read(self, form: Form) -> Any:
        """Return the value in a form as that of a request; None if it is empty.

        Raises:
            ProblemError: 422, a time or a line of a text area cannot be read.
        """
        match self.kind:
            case "choices":
                return form.all(self.name)
            case "lines":
                values = [self._entry(line.strip()) for line in form.lines(self.name) if line.strip()]
                return values if values or not self.is_optional else None
            case "flag":
                return bool(form.all(self.name))
            case "pairs":
                return form.pairs(self.name)
            case "time" if form.text(self.name):
                return moment_of(self.name, form.text(self.name), "0")
        value = form.raw(self.name) if self.kind in ("password", "pem") else form.text(self.name)
        return self._entry(value) if value else None

    def _entry(self, text: str) -> int | str:
        # Another text than a number stays, because the class of the request has the words for its fault.
        return int(text) if self.has_numbers and _NUMBER.fullmatch(text) else text


@cache
def fields_of(model: type[BaseModel]) -> Mapping[str, FormField]:
    """Return the fields of the form for a request, by name; those of an object are fields of the same form."""
    schema = model.model_json_schema(by_alias=False)
    return {field.name: field for field in _fields(schema, schema.get("$defs", {}), "", is_optional=False)}


def _lines(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [f"{name}: {text}" for name, text in value.items()]
    return [str(entry) for entry in value or ()]


def _fields(schema: Any, definitions: Any, path: str, *, is_optional: bool) -> Iterator[FormField]:
    for name, value in schema["properties"].items():
        node = _resolved(value, definitions)
        optional = is_optional or name not in schema.get("required", ())
        if "properties" in node:
            yield from _fields(node, definitions, f"{path}{name}.", is_optional=optional)
            continue
        items = _resolved(node.get("items", {}), definitions)
        options = items.get("enum", ()) or node.get("enum", ())
        kind = _KINDS[node["type"]]
        if options:
            kind = "choices" if kind == "lines" else "choice"
        elif node.get("format") == "date-time":
            kind = "time"
        elif node.get("format") in ("password", "pem"):
            kind = node["format"]
        words = name.replace("_", " ")
        # Pydantic makes a title from the name of a field that has none.
        title = value.get("title", words.title())
        yield FormField(
            name=path + name,
            kind=kind,
            label=words.capitalize() if title == words.title() else title,
            help=in_snake_case(node.get("description")) or "",
            example=node.get("examples", ("",))[0],
            bounds={attribute: node[keyword] for attribute, keyword in _ATTRIBUTES.items() if keyword in node},
            options=options,
            default=node.get("default"),
            is_optional=optional and kind != "flag" and not node.get("default"),
            has_numbers="integer" in (node["type"], items.get("type")),
        )


def _resolved(node: Any, definitions: Any) -> Any:
    """Return a schema with that of its value if it may be null, and with the schema that it refers to."""
    choice: dict[str, Any] = next((branch for branch in node.get("anyOf", ()) if branch.get("type") != "null"), {})
    schema = {**choice, **node}
    return {**definitions[schema["$ref"].rpartition("/")[2]], **schema} if "$ref" in schema else schema


def validated(model: type[M], document: Mapping[str, Any]) -> M:
    """Return a request or a merge patch.

    Raises:
        ProblemError: 422 that names each fault and its field.
    """
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise from_validation(error.errors(include_url=False, include_input=False)) from None


def read_request(model: type[M], form: Form) -> M:
    """Return the request of a form that has its fields and no others; an empty field is left out.

    Raises:
        ProblemError: 422.
    """
    values = {field.name: field.read(form) for field in fields_of(model).values()}
    return validated(model, {name: value for name, value in values.items() if value is not None})


def faults_of(problem: ProblemError | None, fields: Collection[str] = ()) -> dict[str, str]:
    """Return the messages of a refused form by its field; a fault of an entry belongs to the field that has it.

    Args:
        problem: the refusal, if any.
        fields: the names of fields of objects.
    """
    faults: dict[str, list[str]] = {}
    for fault in problem.errors if problem else ():
        name = fault.field.partition("[")[0]
        faults.setdefault(name if name in fields else name.partition(".")[0], []).append(fault.message)
    return {name: "; ".join(dict.fromkeys(messages)) for name, messages in faults.items()}

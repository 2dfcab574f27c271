"""Conversion of models to structural schemas; keywords without an equivalent are refused."""

import re
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, create_model

from hookwright_crds.base import Model, Timestamp
from hookwright_crds.structural_schema import SchemaError, cel_text, structural

SENTENCES = {"^[a-z]+$": {"message": "must be lower case"}}


class Colour(StrEnum):
    """Two colours."""

    RED = "red"
    BLUE = "blue"


class Inner(Model):
    """A nested model."""

    name: str = "x"


class Open(BaseModel):
    """A model that accepts any field."""

    model_config = ConfigDict(extra="allow")
    name: str


def field_schema(annotation: Any, default: Any = ..., *, defaults: bool = True) -> dict[str, Any]:
    """Return the structural schema of one field."""
    model: type[BaseModel] = create_model("Subject", field=(annotation, default))
    schema: dict[str, Any] = structural(model, sentences=SENTENCES, defaults=defaults)["properties"]["field"]
    return schema


def _name(value: object) -> str:
    """Return a test id without addresses of objects, which differ between processes."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (str, {"type": "string"}),
        (bool, {"type": "boolean"}),
        (str | None, {"type": "string"}),
        (tuple[str, ...], {"type": "array", "items": {"type": "string"}}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Timestamp, {"type": "string", "format": "date-time"}),
        (Timestamp | None, {"type": "string", "format": "date-time"}),
        (Colour, {"type": "string", "description": "Two colours.", "enum": ["red", "blue"]}),
        (Literal["on"], {"type": "string", "enum": ["on"]}),
        (Literal["on", "off"], {"type": "string", "enum": ["on", "off"]}),
        (Annotated[int, Field(ge=1, le=9)], {"type": "integer", "minimum": 1, "maximum": 9}),
        (Annotated[str, Field(min_length=1, max_length=9)], {"type": "string", "minLength": 1, "maxLength": 9}),
        (
            Annotated[tuple[str, ...], Field(min_length=1, max_length=9)],
            {"type": "array", "minItems": 1, "maxItems": 9, "items": {"type": "string"}},
        ),
        (
            Annotated[str, Field(pattern="^[a-z]+$")],
            {
                "type": "string",
                "x-kubernetes-validations": [{"rule": 'self.matches(r"^[a-z]+$")', "message": "must be lower case"}],
            },
        ),
        (
            Annotated[dict[Annotated[str, StringConstraints(pattern="^[a-z]+$")], str], Field(max_length=3)],
            {
                "type": "object",
                "maxProperties": 3,
                "additionalProperties": {"type": "string"},
                "x-kubernetes-validations": [
                    {"rule": 'self.all(name, name.matches(r"^[a-z]+$"))', "message": "must be lower case"}
                ],
            },
        ),
        (
            Inner | None,
            {
                "type": "object",
                "description": "A nested model.",
                "properties": {"name": {"type": "string", "default": "x"}},
            },
        ),
        (Annotated[str, Field(description="Is ``x`` or y.")], {"type": "string", "description": "Is 'x' or y."}),
        (
            Annotated[Inner, Field(description="The field's own words.")],
            {
                "type": "object",
                "description": "The field's own words.",
                "properties": {"name": {"type": "string", "default": "x"}},
            },
        ),
    ],
    ids=_name,
)
def test_a_field_becomes_its_structural_form(annotation: Any, expected: dict[str, Any]) -> None:
    """References are inlined, optional fields may be absent, patterns have messages, titles are removed."""
    assert field_schema(annotation) == expected


@pytest.mark.parametrize(
    ("annotation", "fault"),
    [
        (Annotated[int, Field(gt=0)], "exclusiveMinimum 0 has no equivalent"),
        (set[str], "uniqueItems True has no equivalent"),
        (tuple[int, str], "prefixItems"),
        (Annotated[str, Field(json_schema_extra={"nullable": True})], "nullable True has no equivalent"),
        (int | str, "anyOf must be 'a type or null'"),
        (int | str | None, "anyOf must be 'a type or null'"),
        (
            Annotated[Annotated[str, Field(max_length=5)] | None, Field(json_schema_extra={"maxLength": 9})],
            "given twice",
        ),
        (Any, "type None is none of"),
        (None, "type 'null' is none of"),
        (list[Any], "type None is none of"),
        (dict[str, Any], "additionalProperties True has no equivalent"),
        (Open, "additionalProperties True has no equivalent"),
        (Annotated[str, Field(pattern="^x$")], "pattern '^x$' has no error message"),
        (Annotated[str, Field(json_schema_extra={"format": "uuid"})], "format 'uuid' has no equivalent"),
    ],
    ids=_name,
)
def test_what_is_not_structural_raises_and_names_its_place(annotation: Any, fault: str) -> None:
    """No constraint of a model is omitted silently, because the API server would not enforce it."""
    with pytest.raises(SchemaError) as error:
        field_schema(annotation)
    assert str(error.value).startswith("field")
    assert fault in str(error.value)


def test_a_model_without_fields_raises() -> None:
    """An object of unknown content is refused, because the API server would prune all of it."""
    with pytest.raises(SchemaError, match=r"^the schema: type 'object' .* has unnamed contents"):
        structural(create_model("Empty"), sentences={}, defaults=True)


def test_defaults_are_written_only_where_they_are_wanted() -> None:
    """A spec has defaults, which the API server fills in; a status has none."""
    assert field_schema(int, 3, defaults=True) == {"type": "integer", "default": 3}
    assert field_schema(int, 3, defaults=False) == {"type": "integer"}
    assert field_schema(int | None, None) == {"type": "integer"}


def test_required_fields_are_named_as_in_kubernetes() -> None:
    """Property names are the aliases, and only fields without a default are required."""

    class Subject(Model):
        """A model with an alias and defaults."""

        first_name: str
        last_name: str = ""

    schema = structural(Subject, sentences={}, defaults=False)
    assert schema["required"] == ["firstName"]
    assert list(schema["properties"]) == ["firstName", "lastName"]


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        (r"a\.b", r'r"a\.b"'),
        ("it's", 'r"it\'s"'),
        ('"', "r'\"'"),
        ("'\"\\", '"\'\\"\\\\"'),
    ],
)
def test_cel_text_quotes_any_pattern(text: str, literal: str) -> None:
    """The literal is raw if one kind of quote is free, and escaped otherwise."""
    assert cel_text(text) == literal

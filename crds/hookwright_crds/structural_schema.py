"""Pure: conversion of a pydantic model to the structural OpenAPI v3 schema of a CustomResourceDefinition.

Source: Kubernetes, "Extend the Kubernetes API with CustomResourceDefinitions", section "Specifying a structural
schema". A keyword or form without an equivalent there raises an error. If it were omitted, the API server would not
enforce it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from pydantic import BaseModel

Schema: TypeAlias = dict[str, Any]
"""A JSON schema, or a part of one, as a JSON object."""

_DROPPED_KEYWORDS: Final = frozenset({"title", "$defs", "examples"})
_KEPT_KEYWORDS: Final = frozenset(
    {
        "type", "description", "enum", "required", "minLength", "maxLength", "minItems", "maxItems",
        "minProperties", "maxProperties", "minimum", "maximum", "multipleOf",
    }
)  # fmt: skip
_FIRST: Final = ("type", "description", "default")
"""The keys that come first in the YAML, because readers look for them first."""
_TYPES: Final = frozenset({"object", "array", "string", "integer", "number", "boolean"})
_FORMATS: Final = frozenset({"date-time"})
_NULL: Final[Schema] = {"type": "null"}


class SchemaError(ValueError):
    """A model that cannot be converted to a structural schema."""

    def __init__(self, path: str, fault: str) -> None:
        super().__init__(f"{path.lstrip('.') or 'the schema'}: {fault}")


def structural(model: type[BaseModel], *, sentences: Mapping[str, Mapping[str, str]], defaults: bool) -> Schema:
    """Return the structural schema of a model, with ``$ref`` inlined and optional fields not nullable.

    Args:
        model: the model; its aliases become the property names.
        sentences: for every ``pattern`` of the model, the ``message`` for values that do not match. It may have more
            fields of a CEL rule, such as ``reason``.
        defaults: whether the API server should fill in the models' defaults.

    Raises:
        SchemaError: the model uses a feature that a structural schema does not have, or a pattern has no message.
    """
    schema = model.model_json_schema(by_alias=True)
    return _Conversion(schema.get("$defs", {}), sentences, defaults=defaults).convert(schema, "")


class _Conversion:
    """One walk over a JSON schema; each handler converts one keyword of a node to its structural form."""

    def __init__(self, definitions: Schema, sentences: Mapping[str, Mapping[str, str]], *, defaults: bool) -> None:
        self._definitions = definitions
        self._sentences = sentences
        self._defaults = defaults
        self._open: list[str] = []
        self._handlers: dict[str, Callable[[Any, str], Schema]] = {
            "$ref": self._reference,
            "anyOf": self._optional,
            "additionalProperties": self._additional_properties,
            "const": lambda value, _: {"enum": [value]},
            "default": self._default,
            "format": self._format,
            "items": lambda items, path: {"items": self.convert(items, f"{path}[]")},
            "pattern": self._pattern,
            "patternProperties": self._pattern_properties,
            "properties": self._properties,
        }

    def convert(self, node: Schema, path: str) -> Schema:
        """Return the structural form of one node; ``path`` is its path for error messages."""
        result = {keyword: _kept(value) for keyword, value in node.items() if keyword in _KEPT_KEYWORDS}
        for keyword, value in node.items():
            if keyword in self._handlers:
                part = self._handlers[keyword](value, path)
                _refuse_clash(result, part, path)
                result = part | result
            elif keyword not in _KEPT_KEYWORDS | _DROPPED_KEYWORDS:
                raise SchemaError(path, f"keyword {keyword!r} has no equivalent in a structural schema")
        return _checked(result, path)

    def _reference(self, reference: str, path: str) -> Schema:
        name = reference.removeprefix("#/$defs/")
        if name in self._open:
            raise SchemaError(path, f"{name} contains itself; a structural schema cannot be recursive")
        self._open.append(name)
        definition = self.convert(self._definitions[name], path)
        self._open.pop()
        return definition

    def _optional(self, choices: list[Schema], path: str) -> Schema:
        alternatives = [choice for choice in choices if choice != _NULL]
        if len(alternatives) != 1 or len(alternatives) == len(choices):
            raise SchemaError(path, "anyOf must be 'a type or null', which means a field that may be absent")
        return self.convert(alternatives[0], path)

    def _additional_properties(self, value: Any, path: str) -> Schema:
        if value is False:
            return {}  # the API server refuses or prunes undeclared properties anyway
        if value is True:
            raise SchemaError(path, "values of any type are not structural; name their type")
        return {"additionalProperties": self.convert(value, f"{path}{{}}")}

    def _pattern_properties(self, patterns: dict[str, Schema], path: str) -> Schema:
        if len(patterns) != 1:
            raise SchemaError(path, "only one pattern can hold for all names of a map")
        [(pattern, value)] = patterns.items()
        return {
            "additionalProperties": self.convert(value, f"{path}{{}}"),
            **self._sentence(pattern, f"self.all(name, name.matches({cel_text(pattern)}))", path),
        }

    def _properties(self, properties: dict[str, Schema], path: str) -> Schema:
        return {"properties": {name: self.convert(node, f"{path}.{name}") for name, node in properties.items()}}

    def _default(self, value: Any, _path: str) -> Schema:
        if isinstance(value, dict):
            # The API server refuses a null for a field that is not set.
            value = {name: element for name, element in value.items() if element is not None}
        return {"default": value} if self._defaults and value is not None else {}

    def _format(self, value: str, path: str) -> Schema:
        if value not in _FORMATS:
            raise SchemaError(path, f"format {value!r} is not checked by the API server")
        return {"format": value}

    def _pattern(self, pattern: str, path: str) -> Schema:
        return self._sentence(pattern, f"self.matches({cel_text(pattern)})", path)

    def _sentence(self, pattern: str, rule: str, path: str) -> Schema:
        """Return a CEL rule for a pattern, because the server's own error message would be the bare pattern."""
        if pattern not in self._sentences:
            raise SchemaError(path, f"pattern {pattern!r} has no error message")
        return {"x-kubernetes-validations": [{"rule": rule, **self._sentences[pattern]}]}


def cel_text(text: str) -> str:
    r"""Return a CEL string literal; raw, because patterns are easier to read with single ``\`` characters."""
    if '"' not in text:
        return f'r"{text}"'
    if "'" not in text:
        return f"r'{text}'"
    literal = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{literal}"'


def _kept(value: Any) -> Any:
    """Return a value in its form for YAML: a new list (so no anchors), plain quotes instead of docstring markup."""
    if isinstance(value, str):
        return value.replace("``", "'")
    return list(value) if isinstance(value, list) else value


def _refuse_clash(outer: Schema, inner: Schema, path: str) -> None:
    """Refuse keywords that exist both beside a ``$ref`` or ``anyOf`` and inside; of two descriptions the outer wins."""
    clashes = (outer.keys() & inner.keys()) - {"description"}
    if clashes:
        raise SchemaError(path, f"{', '.join(sorted(clashes))} given twice; give it once")


def _checked(node: Schema, path: str) -> Schema:
    kind = node.get("type")
    if kind not in _TYPES:
        raise SchemaError(path, f"type {kind!r} is none of {', '.join(sorted(_TYPES))}")
    if kind == "object" and bool(node.get("properties")) == ("additionalProperties" in node):
        raise SchemaError(path, "an object must name either its properties or the type of any value")
    if kind == "array" and "items" not in node:
        raise SchemaError(path, "an array must name the type of its items")
    return {keyword: node[keyword] for keyword in (*_FIRST, *node) if keyword in node}

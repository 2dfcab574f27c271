"""Pure: conversion of a pydantic model to the structural OpenAPI v3 schema of a CustomResourceDefinition.

Source: Kubernetes, "Extend the Kubernetes API with CustomResourceDefinitions", section "Specifying a structural
schema". A keyword without an equivalent there raises an error. If it were omitted, the API server would not enforce it.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from pydantic import BaseModel

Schema: TypeAlias = dict[str, Any]
"""A JSON schema, or a part of one, as a JSON object."""

_DROPPED_KEYWORDS: Final = frozenset({"title", "$defs", "examples", "$ref", "anyOf"})
"""A ``$ref`` and an ``anyOf`` are replaced by the type that they name."""
_KEPT_KEYWORDS: Final = frozenset(
    {
        "type", "description", "enum", "required", "minLength", "maxLength", "minItems", "maxItems",
        "minProperties", "maxProperties", "minimum", "maximum", "multipleOf",
    }
)  # fmt: skip
_FIRST: Final = ("type", "description", "default")
"""The keys that come first in the YAML, because readers look for them first."""
_TYPES: Final = frozenset({"object", "array", "string", "integer", "number", "boolean"})
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
    return _Conversion(model.model_json_schema(by_alias=True), sentences, defaults=defaults).schema


class _Conversion:
    """One walk over a JSON schema; ``schema`` is its structural form."""

    def __init__(self, schema: Schema, sentences: Mapping[str, Mapping[str, str]], *, defaults: bool) -> None:
        self._definitions: Schema = schema.get("$defs", {})
        self._sentences = sentences
        self._dropped = _DROPPED_KEYWORDS if defaults else _DROPPED_KEYWORDS | {"default"}
        self.schema = self._convert(schema, "")

    def _convert(self, node: Schema, path: str) -> Schema:
        """Return the structural form of one node; ``path`` is its path for error messages."""
        node = self._resolved(node, path)
        result = {keyword: _kept(value) for keyword, value in node.items() if keyword in _KEPT_KEYWORDS}
        for keyword, value in node.items():
            if keyword not in _KEPT_KEYWORDS | self._dropped:
                result = self._part(keyword, value, path) | result
        kind = result.get("type")
        has_unnamed = kind == "object" and not (result.get("properties") or "additionalProperties" in result)
        if kind not in _TYPES or has_unnamed:
            raise SchemaError(path, f"type {kind!r} is none of {', '.join(sorted(_TYPES))}, or has unnamed contents")
        return {keyword: result[keyword] for keyword in (*_FIRST, *result) if keyword in result}

    def _resolved(self, node: Schema, path: str) -> Schema:
        """Return a node with the keywords of the type that it names; of two descriptions the outer wins."""
        if "$ref" in node:
            inner = self._definitions[node["$ref"].removeprefix("#/$defs/")]
        elif "anyOf" in node:
            alternatives = [choice for choice in node["anyOf"] if choice != _NULL]
            if len(alternatives) != 1 or len(alternatives) == len(node["anyOf"]):
                raise SchemaError(path, "anyOf must be 'a type or null', which means a field that may be absent")
            [inner] = alternatives
        else:
            return node
        inner, outer = self._resolved(inner, path), {name: node[name] for name in node if name not in ("$ref", "anyOf")}
        if twice := inner.keys() & outer.keys() - {"description", "title", "default", "examples"}:
            raise SchemaError(path, f"given twice: {', '.join(sorted(twice))}")
        return inner | outer

    def _part(self, keyword: str, value: Any, path: str) -> Schema:
        """Return the structural form of one keyword."""
        part: Schema
        match keyword, value:
            case "properties", {}:
                part = {keyword: {name: self._convert(node, f"{path}.{name}") for name, node in value.items()}}
            case "items" | "additionalProperties", {}:
                part = {keyword: self._convert(value, f"{path}[]")}
            case "additionalProperties", False:
                part = {}  # the API server refuses or prunes undeclared properties anyway
            case "patternProperties", {}:
                [(pattern, values)] = value.items()
                rule = self._rule(pattern, f"self.all(name, name.matches({cel_text(pattern)}))", path)
                part = {"additionalProperties": self._convert(values, f"{path}[]"), **rule}
            case "pattern", _:
                part = self._rule(value, f"self.matches({cel_text(value)})", path)
            case "const", _:
                part = {"enum": [value]}
            case "format", "date-time":
                part = {keyword: value}
            case "default", {}:
                # The API server refuses a null for a field that is not set.
                part = {keyword: {name: entry for name, entry in value.items() if entry is not None}}
            case "default", _:
                part = {keyword: value} if value is not None else {}
            case _:
                raise SchemaError(path, f"{keyword} {value!r} has no equivalent in a structural schema")
        return part

    def _rule(self, pattern: str, rule: str, path: str) -> Schema:
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

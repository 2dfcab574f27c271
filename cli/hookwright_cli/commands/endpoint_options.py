"""The options of ``endpoints create`` and ``edit``, which come from the contract, and their merge patch."""

import inspect
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer

from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.contract import ENDPOINT_FIELDS, EndpointField
from hookwright_cli.durations import moment
from hookwright_cli.parameters import type_names

_SYNTAX: dict[str, tuple[Any, str | None, str]] = {
    "number": (int, "N", ""),
    "object": (int, "N", " 0 removes it."),
    "group": (bool, None, ""),
    "list": (list[str], "TYPE", " Repeat the option."),
    "map": (list[str], "NAME=@FILE", " Each value is in a file. Repeat the option."),
    "time": (str, "DURATION|TIME|never", " A duration counts from now."),
}
"""The type, the metavar and a remark of an option, by the form of its field; other forms are texts."""


def with_field_options(function: Callable[..., None]) -> Callable[..., None]:
    """Let the function of a command have the options of all fields in place of ``**options``."""
    signature = inspect.signature(function)
    parameters = [item for item in signature.parameters.values() if item.kind is not inspect.Parameter.VAR_KEYWORD]
    fields = [item for field in ENDPOINT_FIELDS for item in (field, *_group(field))]
    function.__signature__ = signature.replace(parameters=[*parameters, *map(_option, fields)])  # type: ignore[attr-defined]
    return function


def _group(field: EndpointField) -> tuple[EndpointField, ...]:
    return field.fields if field.form == "group" else ()


def _option(field: EndpointField) -> inspect.Parameter:
    kind, metavar, remark = _SYNTAX.get(field.form, (str, "|".join(field.choices) or field.form.upper(), ""))
    option = typer.Option(
        None,
        *field.options,
        metavar=metavar,
        help=(field.fields[0] if field.form == "object" else field).description + remark,
        autocompletion=type_names if field.form == "list" else None,
    )
    return inspect.Parameter(field.parameter, inspect.Parameter.KEYWORD_ONLY, default=option, annotation=kind | None)


def merge_patch(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch for the options of fields."""
    patch: dict[str, Any] = {}
    for field in ENDPOINT_FIELDS:
        value = options.get(field.parameter)
        group = {
            part.name: options[part.parameter] for part in _group(field) if options.get(part.parameter) is not None
        }
        if value is not None or group:
            patch[field.name] = group if field.form == "group" else _value(field, value)
    if "url" in patch and "pull" in patch:
        raise CommandError("--to URL sends requests; --pull and --lease are for an endpoint without it", ExitCode.USAGE)
    if "url" in patch:
        patch["pull"] = None
    if options.get("pull"):
        patch["url"] = None
    return patch


def _value(field: EndpointField, value: Any) -> Any:
    match field.form:
        case "list":
            return [item for part in value for item in part.split(",")]
        case "map":
            return dict(map(_header, value))
        case "object":
            return {field.fields[0].name: value} if value else None
        case "time":
            return None if value == "never" else moment(value, field.options[0], datetime.now(UTC), ahead=True)
    return value


def _header(value: str) -> tuple[str, str]:
    """Return a header; its value is in a file, because other users of the machine can read the command line."""
    name, separator, path = value.partition("=@")
    if not separator or not name:
        raise CommandError(f"--header {value.partition('=')[0]!r} must be NAME=@FILE", ExitCode.USAGE)
    return name, Path(path).read_text(encoding="utf-8").strip()

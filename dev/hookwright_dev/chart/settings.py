"""Pure: the settings of both processes as chart values: their names, defaults, comments, JSON schemas, variables."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml
from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from hookwright_api.settings import ApiSettings
from hookwright_operator.delivery.attempt import RetrySchedule
from hookwright_operator.settings import OperatorSettings

Value: TypeAlias = bool | int | float | str | list[str]
Schema: TypeAlias = dict[str, Any]

PROCESSES: Final[Mapping[str, type[BaseSettings]]] = {"operator": OperatorSettings, "api": ApiSettings}
DEPENDING: Final = {
    "namespace": "empty: the namespace of the release",
    "usersNamespace": "empty: this default",
    "operatorUrl": "empty: the operator of this release",
}
"""Settings whose default depends on the release; their value is empty, and the templates fill it in."""
OF_THE_LAYOUT: Final = frozenset({"roles", "instance"})
"""Settings that are no values: the role follows from the Deployment, and the replica's name from the pod."""

_DURATION: Final = r"^([0-9]+h)?([0-9]+m)?([0-9]+s)?$"
_SCHEDULE: Final = r"^\s*([0-9.]+(ms|s|m|h|d))+(\s*,\s*([0-9.]+(ms|s|m|h|d))+)*\s*$"
_BYTE: Final = "(25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
_IPV4: Final = rf"{_BYTE}(\.{_BYTE}){{3}}(/(3[0-2]|[12]?[0-9]))?"
_IPV6: Final = r"[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*(/(12[0-8]|1[01][0-9]|[1-9]?[0-9]))?"
_CIDR: Final = f"^({_IPV4}|{_IPV6})$"
_UNITS: Final = ((3600, "h"), (60, "m"), (1, "s"))
_KEYWORDS: Final = (
    ("ge", "minimum", Ge),
    ("gt", "exclusiveMinimum", Gt),
    ("le", "maximum", Le),
    ("lt", "exclusiveMaximum", Lt),
)


@dataclass(frozen=True, slots=True)
class ChartSetting:
    """One setting in the chart.

    Attributes:
        field: its name in the settings class.
        default: its value in values.yaml.
        description: a sentence.
        schema: the schema of its value.
        processes: the processes that have it: ``operator``, ``api`` or both.
    """

    field: str
    default: Value
    description: str
    schema: Schema
    processes: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name under ``settings``."""
        return camel_case(self.field)

    @property
    def variable(self) -> str:
        """Name of the environment variable."""
        return f"HOOKWRIGHT_{self.field.upper()}"


def camel_case(field: str) -> str:
    """Return ``watch_namespaces`` as ``watchNamespaces``."""
    first, *rest = field.split("_")
    return first + "".join(word.capitalize() for word in rest)


def chart_settings(processes: Mapping[str, type[BaseSettings]] = PROCESSES) -> tuple[ChartSetting, ...]:
    """Return every setting of the classes that is a value, in order; a setting of several classes occurs once."""
    fields: dict[str, FieldInfo] = {}
    for settings in processes.values():
        for name, field in settings.model_fields.items():
            if name not in OF_THE_LAYOUT:
                fields.setdefault(name, field)
    return tuple(_setting(name, field, processes) for name, field in fields.items())


def _setting(name: str, field: FieldInfo, processes: Mapping[str, type[BaseSettings]]) -> ChartSetting:
    knowing = tuple(process for process, settings in processes.items() if name in settings.model_fields)
    description = field.description or ""
    default, schema = _written(field.default), _schema(field)
    if name.endswith("_port"):
        schema["minimum"] = 1  # the Service needs this port
    if note := DEPENDING.get(camel_case(name)):
        default, description = "", f"{description.removesuffix('.')}; {note}."
        schema.pop("pattern", None)
    return ChartSetting(name, default, description, {**schema, "description": description}, knowing)


def _written(default: object) -> Value:
    """Return a default in the form of values.yaml."""
    match default:
        case bool() | int() | str():
            return default
        case float():
            return int(default) if default.is_integer() else default
        case tuple():
            return [str(item) for item in default]
        case timedelta():
            return _spelled(int(default.total_seconds()))
        case RetrySchedule():
            return ",".join(_spelled(delay // 1000) for delay in default.delays_ms)
        case Path():
            return str(default)
        case _:
            raise TypeError(f"a setting's default {default!r} has no form in values.yaml; give it one here")


def _spelled(seconds: int) -> str:
    text = ""
    for size, unit in _UNITS:
        count, seconds = divmod(seconds, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def _schema(field: FieldInfo) -> Schema:
    match field.default:
        case bool():
            schema: Schema = {"type": "boolean"}
        case int():
            schema = {"type": "integer", **_bounds(field)}
        case float():
            schema = {"type": "number", **_bounds(field)}
        case tuple():
            pattern = {"pattern": _CIDR} if "IPv4Network" in str(field.annotation) else {}
            schema = {"type": "array", "items": {"type": "string", **pattern}}
        case timedelta():
            schema = {"type": "string", "pattern": _DURATION}
        case RetrySchedule():
            schema = {"type": "string", "pattern": _SCHEDULE}
        case _:
            schema = {"type": "string", **_text(field)}
    return schema


def _bounds(field: FieldInfo) -> Schema:
    return {
        keyword: getattr(bound, attribute)
        for bound in field.metadata
        for attribute, keyword, kind in _KEYWORDS
        if isinstance(bound, kind)
    }


def _text(field: FieldInfo) -> Schema:
    patterns = [pattern for item in field.metadata if (pattern := getattr(item, "pattern", None))]
    if not patterns:
        return {}
    words = patterns[0].removeprefix("^(").removesuffix(")$").split("|")
    # A list of words has the better error message.
    return {"enum": words} if all(word.isalpha() for word in words) else {"pattern": patterns[0]}


def values_block(settings: tuple[ChartSetting, ...]) -> str:
    """Return the lines of values.yaml under ``settings:``, each setting below its comment."""
    lines = []
    for setting in settings:
        suffix = "" if len(setting.processes) > 1 else f" ({setting.processes[0]})"
        value = yaml.safe_dump([setting.default], default_flow_style=True, width=1000).strip()[1:-1]
        lines += [f"  # {setting.description}{suffix}", f"  {setting.name}: {value}"]
    return "\n".join(lines) + "\n"


def variables(settings: tuple[ChartSetting, ...]) -> dict[str, dict[str, str]]:
    """Return, for each process, the environment variable of each setting's name in the chart."""
    return {
        process: {setting.name: setting.variable for setting in settings if process in setting.processes}
        for process in PROCESSES
    }


def values_schema(settings: tuple[ChartSetting, ...]) -> Schema:
    """Return the JSON schema of ``settings``."""
    return {
        "type": "object",
        "description": "Settings of both processes; one that is null or empty has the process's own default.",
        "additionalProperties": False,
        "properties": {setting.name: _or_nothing(setting.schema) for setting in settings},
    }


def _or_nothing(schema: Schema) -> Schema:
    """Allow null too, because null removes a default in Helm."""
    nullable = {**schema, "type": [schema["type"], "null"]}
    return {**nullable, "enum": [*schema["enum"], None]} if "enum" in schema else nullable

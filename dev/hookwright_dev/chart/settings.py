"""Pure: the settings of both processes as chart values: their names, defaults, comments, JSON schemas, variables."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml
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
    names = dict.fromkeys(name for settings in processes.values() for name in settings.model_fields)
    return tuple(_setting(name, processes) for name in names if name not in OF_THE_LAYOUT)


def _setting(name: str, processes: Mapping[str, type[BaseSettings]]) -> ChartSetting:
    knowing = tuple(process for process, settings in processes.items() if name in settings.model_fields)
    settings = processes[knowing[0]]
    field = settings.model_fields[name]
    description = field.description or ""
    default, schema = written(field.default), _schema(name, settings)
    if name.endswith("_port"):
        schema["minimum"] = 1  # the Service needs this port
    if note := DEPENDING.get(camel_case(name)):
        default, description = "", f"{description.removesuffix('.')}; {note}."
        schema.pop("pattern", None)
    return ChartSetting(name, default, description, {**schema, "description": description}, knowing)


def written(default: object) -> Value:
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


def _schema(name: str, settings: type[BaseSettings]) -> Schema:
    """Return pydantic's schema of a setting, with patterns in place of the formats that Helm does not check."""
    schema: Schema = dict(settings.model_json_schema()["properties"][name])
    for part in ("title", "default", "description"):
        schema.pop(part, None)
    match schema:
        case {"$ref": _}:
            return {"type": "string", "pattern": _SCHEDULE}
        case {"format": format_}:
            return {"type": "string", **({"pattern": _DURATION} if format_ == "duration" else {})}
        case {"items": {"anyOf": _}}:
            return {"type": "array", "items": {"type": "string", "pattern": _CIDR}}
        case {"pattern": pattern}:
            words = pattern.removeprefix("^(").removesuffix(")$").split("|")
            # A list of words has the better error message.
            return {"type": "string", "enum": words} if all(word.isalpha() for word in words) else schema
    return schema


def values_block(settings: tuple[ChartSetting, ...]) -> str:
    """Return the lines of values.yaml under ``settings:``, each setting below its comment."""
    lines = []
    for setting in settings:
        suffix = "" if len(setting.processes) > 1 else f" ({setting.processes[0]})"
        value = yaml.safe_dump([setting.default], default_flow_style=True, width=1000).strip()[1:-1]
        lines += [f"  # {setting.description}{suffix}", f"  {setting.name}: {value}"]
    return "\n".join(lines) + "\n"


def variables(settings: tuple[ChartSetting, ...]) -> dict[str, dict[str, str]]:
    """Return for each process the environment variable of each setting's name in the chart."""
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
        "properties": {setting.name: or_null(setting.schema) for setting in settings},
    }


def or_null(schema: Schema) -> Schema:
    """Allow null too, because null removes a default in Helm."""
    nullable = {**schema, "type": [schema["type"], "null"]}
    return {**nullable, "enum": [*schema["enum"], None]} if "enum" in schema else nullable

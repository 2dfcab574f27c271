"""Pages of the contract, generated: docs/resources.md from the CustomResourceDefinitions, and the built-in types."""

import json
from collections.abc import Iterator
from typing import Any, Final

from hookwright_crds.events import CATALOGUE, CHANNEL_WILDCARDS, EVERY_TYPE, Channel, example
from hookwright_crds.generate import definition
from hookwright_crds.resources import KINDS
from hookwright_dev.markdown import GENERATED, table

_LONG_MEANING: Final = 100
"""Characters of a meaning that stands once."""
_CHANNELS: Final = {
    Channel.EMAIL: "Email",
    Channel.WHATSAPP: "WhatsApp",
    Channel.SMS: "SMS",
    Channel.HOOKWRIGHT: "Hookwright",
}


def built_in_types() -> str:
    """Return the part of docs/event-types.md about the built-in types."""
    introduction = (
        f"The body always has `type` and `messageId`, as in `{json.dumps(example('delivered'))}`. The last column "
        "has usual other fields. The operator sends the types of the section "
        "[Hookwright](#hookwright) itself; they have no `messageId` ([how to get them](operational-events.md))."
    )
    parts = [introduction]
    for channel, types in CATALOGUE.items():
        common_fields = set[str].intersection(*(set(example(name)) for name in types))
        rows = [(f"`{name}`", meaning, _own_fields(example(name), common_fields)) for name, meaning in types.items()]
        parts += [f"### {_CHANNELS[channel]}", table(("Type", "Meaning", "Fields"), rows)]
    return "\n\n".join([*parts, *_wildcards()])


def _own_fields(body: dict[str, Any], common_fields: set[str]) -> str:
    """Return the fields of an example that not every type of its channel has."""
    return ", ".join(f"`{name}`: {value}" for name, value in body.items() if name not in common_fields)


def _wildcards() -> list[str]:
    introduction = "In `spec.events`, and in `events` of `/v1`, a wildcard means several types. Email has none."
    rows = [(f"`{EVERY_TYPE}`", "every type that producers send, your own ones too")]
    rows += [(f"`{name}`", f"every type of {_CHANNELS[channel]}") for name, channel in CHANNEL_WILDCARDS.items()]
    later = (
        "A wildcard also means types that a later version adds. Receivers answer 2xx for types that they do not know, "
        "or the endpoint names each type."
    )
    return ["## Wildcards", introduction, table(("Wildcard", "Meaning"), rows), later]


def resources_page() -> str:
    """Return docs/resources.md."""
    introduction = (
        "The fields of `hookwright.dev/v1alpha1`, as in `kubectl explain webhookendpoint.spec`. People write `spec`; "
        "the operator writes `status`. [Troubleshooting](troubleshooting.md) has the reasons of `status.conditions`. "
        "Names are those of Kubernetes. Durations have hours, minutes and seconds, such as `1h30m`."
    )
    parts = [GENERATED, "# Resources", introduction]
    for kind in KINDS:
        parts += _kind(definition(kind))
    return "\n\n".join(parts) + "\n"


def _kind(crd: dict[str, Any]) -> Iterator[str]:
    names, version = crd["spec"]["names"], crd["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    yield f"## {names['kind']}"
    yield f"{_sentence(schema['description'])} Short name: `{', '.join(names['shortNames'])}`."
    paths: dict[str, str] = {}
    for part in ("spec", "status"):
        yield f"### {part} of {names['kind']}"
        yield "\n".join(_fields(schema["properties"][part], part, paths))
    if rules := "\n".join(_rules(schema)):
        yield f"### Rules of {names['kind']}"
        yield rules


def _fields(schema: dict[str, Any], at: str, paths: dict[str, str]) -> Iterator[str]:
    """Yield a line for each field; ``paths`` gets the first path of each meaning, which is not repeated."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        path = f"{at}.{name}"
        default = f", default `{json.dumps(field['default'])}`" if "default" in field else ""
        if name in required and not default and at.startswith("spec"):
            default = ", required"
        meaning = _sentence(field.get("description", ""))
        first = paths.setdefault(meaning, path)
        is_repeated = first != path and len(meaning) > _LONG_MEANING
        yield f"- `{path}` ({_type(field)}{default}): {f'As `{first}`.' if is_repeated else meaning}"
        yield from _fields(field, path, paths)
        if "items" in field and name != "conditions":
            yield from _fields(field["items"], f"{path}[]", paths)


def _type(field: dict[str, Any]) -> str:
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    kind = str(field.get("type", "any"))
    if kind == "array":
        items = field["items"]
        if "enum" in items:
            return "list of event types" if EVERY_TYPE in items["enum"] else f"list of {_type(items)}"
        return f"list of {items.get('type', 'any')}s"
    if isinstance(field.get("additionalProperties"), dict):
        return "map of strings"
    bounds = [f"{word} {field[name]}" for name, word in (("minimum", "from"), ("maximum", "to")) if name in field]
    if "maxLength" in field:
        bounds.append(f"at most {field['maxLength']} characters")
    return ", ".join([kind, " ".join(bounds)]) if bounds else kind


def _rules(schema: dict[str, Any]) -> Iterator[str]:
    """Yield the rules over several fields; the meaning of a field has its own ones. Equal rules have one line."""
    fields: dict[str, list[str]] = {}
    for part in (schema, schema["properties"]["spec"]):
        for rule in part.get("x-kubernetes-validations", ()):
            if "message" in rule:
                field, _, sentence = _sentence(rule["message"]).partition(" ")
                fields.setdefault(sentence, []).append(field)
    for sentence, names in fields.items():
        yield f"- {', '.join(names)}{': each' if len(names) > 1 else ''} {sentence}"


def _sentence(text: str) -> str:
    """Return a text on one line, without the beginnings of HTML."""
    return " ".join(text.split()).replace("<", "&lt;")

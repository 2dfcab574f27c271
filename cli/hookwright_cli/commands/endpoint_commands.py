"""``hookwright endpoints``: list, get, create, edit, suspend, resume, rotate, delete.

The options of ``create`` and ``edit`` come from the contract.
"""

import inspect
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.commands.asking import confirm
from hookwright_cli.contract import CREDENTIAL_FIELDS, ENDPOINT_FIELDS, SHOWN_FIELDS, EndpointField
from hookwright_cli.durations import moment
from hookwright_cli.parameters import Endpoint, Watch, Yes, argument, type_patterns
from hookwright_cli.terminal.columns import ENDPOINTS, field_text, shown
from hookwright_cli.terminal.screen import Screen
from hookwright_cli.verbs import Invocation
from hookwright_cli.way_choice import option

_STATES = ("pending", "delivered", "failed", "discarded")
_FIELDS = (*ENDPOINT_FIELDS, *CREDENTIAL_FIELDS)
_EDITABLE = (*(field.name for field in SHOWN_FIELDS), "enabled", "labels")
_SYNTAX: dict[str, tuple[Any, str | None, str]] = {
    "number": (int, "N", ""),
    "object": (int, "N", " 0 removes it."),
    "group": (bool, None, ""),
    "list": (list[str], "VALUE", " Repeat the option."),
    "numbers": (list[str], "N", " Repeat the option."),
    "map": (list[str], "NAME=@FILE", " Each value is in a file. Repeat the option."),
    "pairs": (list[str], "NAME=VALUE", " Repeat the option."),
    "secret": (str, "FILE", " In a file; - is standard input."),
    "secret_map": (
        list[str],
        "NAME=[PREFIX]@FILE",
        " - is standard input. NAME= removes it. Repeat the option.",
    ),
    "time": (str, "DURATION|TIME|never", " A duration counts from now."),
}
"""The type, the metavar and a remark of an option, by the form of its field; other forms are texts."""


def list_endpoints(invocation: Invocation, watch: Watch = False) -> None:
    """List the endpoints."""
    if watch:
        invocation.screen.watch(invocation.way.endpoints, ENDPOINTS)
    invocation.screen.rows(invocation.way.endpoints(), ENDPOINTS, none=invocation.none_of("endpoints"))


def get_endpoint(invocation: Invocation, name: Endpoint) -> None:
    """Show an endpoint with its conditions and counts."""
    document = invocation.way.endpoint(name)
    invocation.screen.one(document, described(invocation.screen, document))


def described(screen: Screen, document: dict[str, Any]) -> str:
    """Return an endpoint for people."""
    counts = document.get("deliveries") or {}
    # Of a URL and pull, an endpoint has one.
    fields = [
        field for field in SHOWN_FIELDS if not (field.push_only if document.get("pull") else field.name == "pull")
    ]
    pairs = [
        ("Name", str(document["id"])),
        ("Project", str(document["project"])),
        ("Status", screen.state(str(document["status"]))),
        *((field.title, field_text(field, document)) for field in fields),
        ("Headers", shown(document.get("header_names"))),
        ("Secret headers", shown(document.get("secret_header_names"))),
        ("CA certificates", shown(document.get("ca_certificate_names"))),
        ("Client certificate", shown(document.get("client_certificate_name"))),
        ("Labels", shown(document.get("labels") or {})),
        ("Created", str(document.get("created_at"))),
        *((state.capitalize(), shown(counts[state])) for state in _STATES if state in counts),
        ("Last attempt", shown(counts.get("last_attempt_at"))),
    ]
    conditions = [
        f"{entry['type']}={entry['status']} ({entry['reason']}): {entry['message']}"
        for entry in document.get("conditions") or ()
    ]
    return "\n".join([screen.pairs(pairs), *conditions])


def with_field_options(function: Callable[..., None]) -> Callable[..., None]:
    """Let the function of a command have the options of all fields in place of ``**options``."""
    signature = inspect.signature(function)
    parameters = [item for item in signature.parameters.values() if item.kind is not inspect.Parameter.VAR_KEYWORD]
    fields = [item for field in _FIELDS for item in (field, *_group(field)) if item.form != "parts"]
    function.__signature__ = signature.replace(parameters=[*parameters, *map(_option, fields)])  # type: ignore[attr-defined]
    return function


def _group(field: EndpointField) -> tuple[EndpointField, ...]:
    return field.fields if field.form in ("group", "parts") else ()


def _option(field: EndpointField) -> inspect.Parameter:
    form = "pairs" if field.form == "map" and not field.hidden else field.form
    kind, metavar, remark = _SYNTAX.get(form, (str, "|".join(field.choices) or field.form.upper(), ""))
    text = (field.fields[0] if field.form == "object" else field).description + remark
    settings = {"autocompletion": type_patterns} if field.name == "events" else {}
    parameter = option(" ".join(field.options), metavar, text, **settings)
    annotation: Any = Annotated[kind | None, parameter]
    return inspect.Parameter(field.parameter, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def merge_patch(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch for the options of fields."""
    patch: dict[str, Any] = {}
    for field in _FIELDS:
        value = options.get(field.parameter)
        group = {
            part.name: _value(part, options[part.parameter])
            for part in _group(field)
            if options.get(part.parameter) is not None
        }
        if value is not None or group:
            is_removed = bool(group) and not any(group.values())
            patch[field.name] = None if is_removed else group if _group(field) else _value(field, value)
    if "url" in patch and "pull" in patch:
        raise CommandError("--to URL sends requests; --pull and --lease are for an endpoint without it", ExitCode.USAGE)
    if "url" in patch:
        patch["pull"] = None
    if options.get("pull"):
        patch["url"] = None
    return patch


def _value(field: EndpointField, value: Any) -> Any:
    match field.form:
        case "list" | "numbers":
            items = [item for part in value for item in part.split(",")]
            return [int(item) if field.form == "numbers" and item.isdecimal() else item for item in items]
        case "map" | "secret_map":
            return dict(_pair(field, text) for text in value)
        case "secret":
            return value and _content(value)
        case "object":
            return {field.fields[0].name: value} if value else None
        case "time":
            return None if value == "never" else moment(value, field.options[0], datetime.now(UTC), ahead=True)
    return value


def _pair(field: EndpointField, text: str) -> tuple[str, Any]:
    """Return an entry of a map; a hidden value is in a file, because others can read the command line."""
    name, separator, value = text.partition("=")
    prefix, mark, path = value.partition("@")
    is_secret, option_name = field.form == "secret_map", field.options[0]
    if is_secret and name and separator and not value:
        return name, None
    if not (name and separator) or (field.hidden and prefix) or (not mark and (field.hidden or is_secret)):
        form = _SYNTAX["map" if field.hidden else "pairs" if field.form == "map" else field.form][1]
        raise CommandError(f"{option_name} {name!r} must be {form}", ExitCode.USAGE)
    if is_secret:
        return name, {"prefix": prefix, "value": _content(path)}
    return name, _content(path) if field.hidden else value


def _content(path: str) -> str:
    return (sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")).strip()


@with_field_options
def create_endpoint(
    invocation: Invocation,
    name: Annotated[str, argument("ENDPOINT", "Only with a kubeconfig; /v1 chooses an id.")] = "",
    is_suspended: Annotated[bool, option("--suspended", None, "Deliveries wait until it is resumed.")] = False,
    **options: Any,
) -> None:
    """Create an endpoint."""
    fields = merge_patch(options)
    if not (options["to"] or options["pull"]) or not options["event"]:
        raise CommandError("an endpoint needs --to URL or --pull, and at least one --event TYPE", ExitCode.USAGE)
    if is_suspended:
        fields["enabled"] = False
    document = invocation.way.create_endpoint(name, fields)
    name = document["id"]
    secret = document.get("secret") or f"hookwright secret show {name}{invocation.options.scope}"
    text = f"endpoint {name} created, status {document['status']}\nsigning secret: {secret}"
    invocation.screen.one(document, text)


@with_field_options
def edit_endpoint(invocation: Invocation, name: Endpoint, **options: Any) -> None:
    """Change an endpoint by options, or in your editor without options."""
    patch = merge_patch(options)
    if not patch:
        present = {key: value for key, value in invocation.way.endpoint(name).items() if key in _EDITABLE}
        patch = _changes(present, _edited(present, name))
        if not patch:
            invocation.screen.note("nothing was changed")
            return
    document = invocation.way.change_endpoint(name, patch)
    invocation.screen.one(document, f"endpoint {name} changed: {', '.join(sorted(patch))}")


def _edited(present: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the fields as the user's editor left them."""
    import yaml

    if not sys.stdin.isatty() and not os.environ.get("EDITOR"):
        raise CommandError("without a terminal, edit by options such as --to URL", ExitCode.USAGE)
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.yaml"
        path.write_text(yaml.safe_dump(present, sort_keys=False), encoding="utf-8")
        if subprocess.run([*editor.split(), str(path)], check=False).returncode:  # noqa: S603 - the user's editor
            raise CommandError(f"the editor {editor} failed; nothing was changed")
        try:
            fields = yaml.safe_load(path.read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise CommandError(f"the edited text is not YAML: {error}", ExitCode.INVALID) from None
    if not isinstance(fields, dict):
        raise CommandError("the edited text must be a YAML mapping of fields", ExitCode.INVALID)
    unknown = sorted(set(fields) - set(_EDITABLE))
    if unknown:
        raise CommandError(f"unknown fields: {', '.join(unknown)}", ExitCode.INVALID)
    return fields


def _changes(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return the merge patch from one state to another one; null removes a field or a label."""
    patch = {name: after.get(name) for name in before if after.get(name) != before[name]}
    if isinstance(patch.get("labels"), dict):
        patch["labels"] = {**dict.fromkeys(set(before["labels"]) - set(after["labels"])), **after["labels"]}
    return patch


def suspend_endpoint(invocation: Invocation, name: Endpoint) -> None:
    """Pause an endpoint: its deliveries wait."""
    document = invocation.way.change_endpoint(name, {"enabled": False})
    invocation.screen.one(document, f"endpoint {name} suspended; its deliveries wait")


def resume_endpoint(invocation: Invocation, name: Endpoint) -> None:
    """Send the deliveries of a suspended endpoint."""
    document = invocation.way.change_endpoint(name, {"enabled": True})
    if document["status"] == "suspended" and document["enabled"]:
        text = (
            f"the operator suspended endpoint {name} after failures; `hookwright test {name}` resumes it if it succeeds"
        )
        raise CommandError(text, ExitCode.CONFLICT)
    invocation.screen.one(document, f"endpoint {name} resumed")


def rotate_endpoint(
    invocation: Invocation,
    name: Endpoint,
    overlap: Annotated[str, option("--overlap", "DURATION", "How long the old secret signs; 0s after a leak.")] = "",
    yes: Yes = False,
) -> None:
    """Make a new signing secret. This cannot be undone."""
    confirm(f"Make a new signing secret for {name}?", yes=yes)
    document = invocation.way.rotate(name, overlap)
    old = "the old secret no longer signs"
    if until := document.get("previous_signs_until"):
        old = f"the old secret also signs webhook-signature until {until}, and alone X-Service-Signature"
    invocation.screen.one(document, f"new signing secret of {name}: {document['secret']}\n{old}", name=name)


def delete_endpoint(invocation: Invocation, name: Endpoint, yes: Yes = False) -> None:
    """Delete an endpoint; its pending deliveries are discarded."""
    confirm(f"Delete endpoint {name} and discard its pending deliveries?", yes=yes)
    invocation.way.delete_endpoint(name)
    invocation.screen.one({"id": name}, f"endpoint {name} deleted")

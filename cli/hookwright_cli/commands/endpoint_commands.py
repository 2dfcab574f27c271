"""``hookwright endpoints``: list, get, create, edit, suspend, resume, rotate, delete."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.commands.asking import confirm
from hookwright_cli.commands.endpoint_options import merge_patch, with_field_options
from hookwright_cli.contract import SHOWN_FIELDS
from hookwright_cli.parameters import Endpoint, Watch, Yes, argument
from hookwright_cli.terminal.columns import ENDPOINTS, field_text, shown
from hookwright_cli.terminal.screen import Screen
from hookwright_cli.verbs import Invocation
from hookwright_cli.way_choice import option

_STATES = ("pending", "delivered", "failed", "discarded")
_EDITABLE = (*(field.name for field in SHOWN_FIELDS), "enabled", "labels")


def list_endpoints(invocation: Invocation, watch: Watch = False) -> None:
    """List the endpoints."""
    if watch:
        invocation.screen.watch(invocation.way.endpoints, ENDPOINTS)
    invocation.screen.rows(invocation.way.endpoints(), ENDPOINTS, none=invocation.none_of("endpoints"))


def get_endpoint(invocation: Invocation, name: Endpoint) -> None:
    """Show an endpoint with its conditions and counts."""
    document = invocation.way.endpoint(name)
    invocation.screen.one(document, lambda: described(invocation.screen, document))


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
    invocation.screen.one(document, lambda: text)


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
    invocation.screen.one(document, lambda: f"endpoint {name} changed: {', '.join(sorted(patch))}")


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
    invocation.screen.one(document, lambda: f"endpoint {name} suspended; its deliveries wait")


def resume_endpoint(invocation: Invocation, name: Endpoint) -> None:
    """Send the deliveries of a suspended endpoint."""
    document = invocation.way.change_endpoint(name, {"enabled": True})
    invocation.screen.one(document, lambda: f"endpoint {name} resumed")


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
    invocation.screen.one(document, lambda: f"new signing secret of {name}: {document['secret']}\n{old}", name=name)


def delete_endpoint(invocation: Invocation, name: Endpoint, yes: Yes = False) -> None:
    """Delete an endpoint; its pending deliveries are discarded."""
    confirm(f"Delete endpoint {name} and discard its pending deliveries?", yes=yes)
    invocation.way.delete_endpoint(name)
    invocation.screen.one({"id": name}, lambda: f"endpoint {name} deleted")

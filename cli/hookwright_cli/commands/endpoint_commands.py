"""``hookwright endpoints``: list, get, create, edit, suspend, resume, rotate, delete."""

import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from hookwright_cli import live_names
from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.commands.asking import confirm
from hookwright_cli.durations import expiry
from hookwright_cli.terminal.columns import ENDPOINTS, STYLES, place_of, shown
from hookwright_cli.terminal.screen import Screen
from hookwright_cli.verbs import Invocation, add_commands

Name = Annotated[str, typer.Argument(metavar="ENDPOINT", autocompletion=live_names.endpoint_names)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Print changes until Ctrl-C.")]
Url = Annotated[str | None, typer.Option("--to", metavar="URL", help="URL of the receiver.")]
Events = Annotated[
    list[str] | None,
    typer.Option(
        "--event", "-e", metavar="TYPE", help="Event type or wildcard; repeat it.", autocompletion=live_names.type_names
    ),
]
Pull = Annotated[bool, typer.Option("--pull", help="Instead of --to: consumers take the messages.")]
Lease = Annotated[
    str | None, typer.Option("--lease", metavar="DURATION", help="Of a message with --pull, by default 30s.")
]
Description = Annotated[str | None, typer.Option("--description", help="A text for people.")]
Timeout = Annotated[str | None, typer.Option("--timeout", metavar="DURATION", help="Of one attempt, such as 15s.")]
InFlight = Annotated[int | None, typer.Option("--max-in-flight", help="Attempts at the same time.")]
Rate = Annotated[int | None, typer.Option("--rate-limit", metavar="N", help="Attempts in a minute; 0 removes it.")]
Format = Annotated[str | None, typer.Option("--format", metavar="json|cloudevents", help="Form of the deliveries.")]
Headers = Annotated[
    list[str] | None, typer.Option("--header", metavar="NAME=@FILE", help="A header, its value in a file; repeat it.")
]
ExpiresAt = Annotated[
    str | None,
    typer.Option("--expires-at", metavar="DURATION|TIME|never", help="When it is deleted, such as 2h from now."),
]

_EDITABLE = (
    "url",
    "pull",
    "events",
    "enabled",
    "description",
    "timeout",
    "max_in_flight",
    "rate_limit",
    "format",
    "labels",
    "expires_at",
)


def list_endpoints(invocation: Invocation, watch: Watch = False) -> None:
    """List the endpoints."""
    if watch:
        invocation.screen.watch(invocation.way.endpoints, ENDPOINTS)
    invocation.screen.rows(invocation.way.endpoints(), ENDPOINTS, none=invocation.none_of("endpoints"))


def get_endpoint(invocation: Invocation, name: Name) -> None:
    """Show an endpoint with its conditions and counts."""
    document = invocation.way.endpoint(name)
    invocation.screen.one(document, lambda: described(invocation.screen, document))


def described(screen: Screen, document: dict[str, Any]) -> str:
    """Return an endpoint for people."""
    counts = document.get("deliveries") or {}
    rate = document.get("rate_limit")
    state = str(document["status"])
    pace = [
        ("Timeout", str(document.get("timeout"))),
        ("Max in flight", str(document.get("max_in_flight"))),
        ("Rate limit", f"{rate['per_minute']} in a minute" if rate else "-"),
    ]
    if document.get("pull"):
        pace = [("Lease", str(document["pull"]["lease"]))]
    pairs = [
        ("Name", str(document["id"])),
        ("Project", str(document["project"])),
        ("Status", screen.style(state, STYLES.get(state, ""))),
        ("URL", place_of(document)),
        ("Events", shown(document["events"])),
        ("Description", shown(document.get("description"))),
        *pace,
        ("Format", str(document.get("format"))),
        ("Headers", shown(document.get("header_names"))),
        ("Labels", shown(document.get("labels") or {})),
        ("Created", str(document.get("created_at"))),
        *([("Expires", str(document["expires_at"]))] if document.get("expires_at") else []),
        *(
            (name.capitalize(), shown(counts[name]))
            for name in ("pending", "delivered", "failed", "discarded")
            if name in counts
        ),
        ("Last attempt", shown(counts.get("last_attempt_at"))),
    ]
    conditions = [
        f"{one['type']}={one['status']} ({one['reason']}): {one['message']}" for one in document.get("conditions") or ()
    ]
    return "\n".join([screen.pairs(pairs), *conditions])


def create_endpoint(
    invocation: Invocation,
    name: Annotated[str, typer.Argument(metavar="ENDPOINT", help="Only with a kubeconfig; /v1 chooses an id.")] = "",
    to: Url = None,
    pull: Pull = False,
    lease: Lease = None,
    event: Events = None,
    description: Description = None,
    timeout: Timeout = None,
    max_in_flight: InFlight = None,
    rate_limit: Rate = None,
    form: Format = None,
    header: Headers = None,
    expires_at: ExpiresAt = None,
    suspended: Annotated[bool, typer.Option("--suspended", help="Deliveries wait until it is resumed.")] = False,
) -> None:
    """Create an endpoint."""
    if not (to or pull) or not event:
        raise CommandError("an endpoint needs --to URL or --pull, and at least one --event TYPE", ExitCode.USAGE)
    fields = _fields(event, description, timeout, max_in_flight, rate_limit, form, header, expires_at)
    fields |= {key: value for key, value in target(to, lease, pull=pull).items() if value is not None}
    if suspended:
        fields["enabled"] = False
    document = invocation.way.create_endpoint(name, fields)
    secret = document.get("secret")
    screen = invocation.screen
    screen.one(document, lambda: f"endpoint {document['id']} created, status {document['status']}")
    if screen.for_people:
        command = f"hookwright secret show {document['id']}{invocation.options.scope}"
        screen.line(f"signing secret: {secret or command}")


def edit_endpoint(
    invocation: Invocation,
    name: Name,
    to: Url = None,
    pull: Pull = False,
    lease: Lease = None,
    event: Events = None,
    description: Description = None,
    timeout: Timeout = None,
    max_in_flight: InFlight = None,
    rate_limit: Rate = None,
    form: Format = None,
    header: Headers = None,
    expires_at: ExpiresAt = None,
) -> None:
    """Change an endpoint by options, or in your editor without options."""
    patch = _fields(event, description, timeout, max_in_flight, rate_limit, form, header, expires_at)
    patch |= target(to, lease, pull=pull)
    if not patch:
        present = {key: value for key, value in invocation.way.endpoint(name).items() if key in _EDITABLE}
        patch = _changes(present, _edited(present, name))
        if not patch:
            invocation.screen.note("nothing was changed")
            return
    document = invocation.way.change_endpoint(name, patch)
    invocation.screen.one(document, lambda: f"endpoint {name} changed: {', '.join(sorted(patch))}")


def target(to: str | None, lease: str | None, *, pull: bool) -> dict[str, Any]:
    """Return the merge patch for where deliveries go: to a URL, or to consumers.

    Raises:
        CommandError: the options contradict each other.
    """
    if to and (pull or lease):
        raise CommandError("--to URL sends requests; --pull and --lease are for an endpoint without it", ExitCode.USAGE)
    if to:
        return {"url": to, "pull": None}
    settings = {"lease": lease} if lease else {}
    if pull:
        return {"url": None, "pull": settings}
    return {"pull": settings} if lease else {}


def _fields(
    event: list[str] | None,
    description: str | None,
    timeout: str | None,
    max_in_flight: int | None,
    rate_limit: int | None,
    form: str | None,
    header: list[str] | None,
    expires_at: str | None,
) -> dict[str, Any]:
    fields = {
        "events": [one for written in event for one in written.split(",")] if event else None,
        "description": description,
        "timeout": timeout,
        "max_in_flight": max_in_flight,
        "format": form,
        "headers": dict(_header(one) for one in header) if header else None,
    }
    chosen: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
    if rate_limit is not None:
        chosen["rate_limit"] = {"per_minute": rate_limit} if rate_limit else None
    if expires_at is not None:
        never = expires_at == "never"
        chosen["expires_at"] = None if never else expiry(expires_at, "--expires-at", datetime.now(UTC))
    return chosen


def _header(written: str) -> tuple[str, str]:
    """Return a header; its value is in a file, because other users of the machine can read the command line."""
    name, separator, path = written.partition("=@")
    if not separator or not name:
        raise CommandError(f"--header {written.partition('=')[0]!r} must be NAME=@FILE", ExitCode.USAGE)
    return name, Path(path).read_text(encoding="utf-8").strip()


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
            written = yaml.safe_load(path.read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise CommandError(f"the edited text is not YAML: {error}", ExitCode.INVALID) from None
    if not isinstance(written, dict):
        raise CommandError("the edited text must be a YAML mapping of fields", ExitCode.INVALID)
    unknown = sorted(set(written) - set(_EDITABLE))
    if unknown:
        raise CommandError(f"unknown fields: {', '.join(unknown)}", ExitCode.INVALID)
    return written


def _changes(present: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the merge patch from one state to another one; null removes a field or a label."""
    patch = {name: wanted.get(name) for name in present if wanted.get(name) != present[name]}
    if isinstance(patch.get("labels"), dict):
        patch["labels"] = {**dict.fromkeys(set(present["labels"]) - set(wanted["labels"])), **wanted["labels"]}
    return patch


def suspend_endpoint(invocation: Invocation, name: Name) -> None:
    """Pause an endpoint: its deliveries wait."""
    document = invocation.way.change_endpoint(name, {"enabled": False})
    invocation.screen.one(document, lambda: f"endpoint {name} suspended; its deliveries wait")


def resume_endpoint(invocation: Invocation, name: Name) -> None:
    """Send the deliveries of a suspended endpoint."""
    document = invocation.way.change_endpoint(name, {"enabled": True})
    invocation.screen.one(document, lambda: f"endpoint {name} resumed")


def rotate_endpoint(
    invocation: Invocation,
    name: Name,
    overlap: Annotated[
        str, typer.Option("--overlap", metavar="DURATION", help="How long the old secret signs; 0s after a leak.")
    ] = "",
    yes: Yes = False,
) -> None:
    """Make a new signing secret. This cannot be undone."""
    confirm(f"Make a new signing secret for {name}?", yes=yes)
    document = invocation.way.rotate(name, overlap)
    until = document.get("previous_signs_until")
    invocation.screen.one(
        document,
        lambda: (
            f"new signing secret of {name}: {document['secret']}\n"
            + (
                f"the old secret also signs webhook-signature until {until}, and alone X-Service-Signature"
                if until
                else "the old secret no longer signs"
            )
        ),
        name=name,
    )


def delete_endpoint(invocation: Invocation, name: Name, yes: Yes = False) -> None:
    """Delete an endpoint; its pending deliveries are discarded."""
    confirm(f"Delete endpoint {name} and discard its pending deliveries?", yes=yes)
    invocation.way.delete_endpoint(name)
    invocation.screen.one({"id": name}, lambda: f"endpoint {name} deleted")


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(no_args_is_help=True, help="Endpoints, which are the receivers of events.")
    add_commands(
        group,
        {
            "list": list_endpoints,
            "get": get_endpoint,
            "create": create_endpoint,
            "edit": edit_endpoint,
            "suspend": suspend_endpoint,
            "resume": resume_endpoint,
            "rotate": rotate_endpoint,
            "delete": delete_endpoint,
        },
    )
    app.add_typer(group, name="endpoints")

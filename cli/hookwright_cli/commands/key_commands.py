"""``hookwright keys``: create, list, revoke."""

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from hookwright_cli import live_names
from hookwright_cli.commands.asking import confirm
from hookwright_cli.commands.endpoint_commands import Yes
from hookwright_cli.contract import key_scopes
from hookwright_cli.durations import expiry
from hookwright_cli.terminal.columns import KEYS
from hookwright_cli.verbs import Invocation


def list_keys(invocation: Invocation) -> None:
    """List the API keys."""
    invocation.screen.rows(invocation.way.api_keys(), KEYS, none=invocation.none_of("keys"))


def create_key(
    invocation: Invocation,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name for people.")],
    scope: Annotated[
        list[str] | None, typer.Option("--scope", "-s", metavar="|".join(key_scopes()), help="A right; repeat it.")
    ] = None,
    expires: Annotated[
        str, typer.Option("--expires", metavar="30d|TIME", help="When it ends; never, if left out.")
    ] = "",
) -> None:
    """Create an API key. It is shown only now."""
    fields: dict[str, Any] = {"name": name}
    if scope:
        fields["scopes"] = [one for written in scope for one in written.split(",")]
    if expires:
        fields["expires_at"] = expiry(expires, "--expires", datetime.now(UTC))
    made = invocation.way.create_key(fields)
    invocation.screen.one(made, lambda: str(made["key"]))
    invocation.screen.note(
        f"key {made['id']} created with the scopes {', '.join(made['scopes'])}; it is not shown again"
    )


def revoke_key(
    invocation: Invocation,
    key: Annotated[str, typer.Argument(metavar="KEY", autocompletion=live_names.key_ids, help="Its id.")],
    yes: Yes = False,
) -> None:
    """Revoke an API key at once."""
    confirm(f"Revoke key {key}? Its clients get 401 at once.", yes=yes)
    invocation.way.revoke_key(key)
    invocation.screen.one({"id": key}, lambda: f"key {key} revoked")

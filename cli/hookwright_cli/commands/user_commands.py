"""``hookwright users``: create, list, password, delete."""

from typing import Annotated

import typer

from hookwright_cli import live_names
from hookwright_cli.commands.asking import confirm, password
from hookwright_cli.commands.endpoint_commands import Yes
from hookwright_cli.contract import user_roles
from hookwright_cli.terminal.columns import USERS
from hookwright_cli.verbs import Invocation
from hookwright_cli.way_choice import API, chosen, users_namespace_of
from hookwright_cli.ways.user_form import hashed, normal_address, user_manifest

Email = Annotated[str, typer.Argument(metavar="EMAIL", autocompletion=live_names.user_emails)]


def list_users(invocation: Invocation) -> None:
    """List the users of the installation."""
    invocation.screen.rows(invocation.cluster_way("users list").users(), USERS, none="There are no users.")


def create_user(
    invocation: Invocation,
    email: Annotated[str, typer.Argument(metavar="EMAIL")],
    organization: Annotated[str, typer.Option("--organization", metavar="NAMESPACE", help="Where the user works.")],
    role: Annotated[str, typer.Option("--role", metavar="|".join(user_roles()), help="Rights of the user.")] = "admin",
    only_hash: Annotated[
        bool,
        typer.Option("--hash", help="Write nothing; print the Secret with the hash, for example for a Git repository."),
    ] = False,
) -> None:
    """Create a user of the console and of /v1. The password is read from standard input, or asked for."""
    address = normal_address(email)
    namespace = users_namespace_of(invocation.options)
    # The values are checked before the password is asked for.
    user_manifest(namespace, email=address, organization=organization, password_hash="", role=role)
    written = password(repeat=True)
    if only_hash:
        import yaml

        manifest = user_manifest(
            namespace, email=address, organization=organization, password_hash=hashed(written), role=role
        )
        invocation.screen.one(manifest, lambda: yaml.safe_dump(manifest, sort_keys=False).rstrip("\n"), name=address)
        return
    way = invocation.cluster_way("users create")
    made = way.create_user(email=address, organization=organization, role=role, password=written)
    invocation.screen.one(made, lambda: f"{address} may log in to organization {organization} as {role}", name=address)


def set_password(
    invocation: Invocation,
    email: Annotated[str, typer.Argument(metavar="EMAIL", autocompletion=live_names.user_emails)] = "",
    only_hash: Annotated[bool, typer.Option("--hash", help="Write nothing; print the hash.")] = False,
) -> None:
    """Set the password of a user; through /v1, your own. It ends the sessions of the user."""
    if only_hash:
        hash_of = hashed(password(repeat=True))
        invocation.screen.one({"passwordHash": hash_of}, lambda: hash_of, name=hash_of)
        return
    kind, context = chosen(invocation.options)
    email = email or context.email
    if kind == API and email == context.email:
        present = password(repeat=False, prompt="Present password")
        body = {"current_password": present, "new_password": password(repeat=True, prompt="New password")}
        invocation.way.call("POST", "auth", "password", body=body)
    else:
        way, email = invocation.cluster_way("the password of another user"), normal_address(email)
        way.set_password(email, password(repeat=True, prompt="New password"))
    invocation.screen.one({"email": email}, lambda: f"{email} has a new password", name=email)


def delete_user(invocation: Invocation, email: Email, yes: Yes = False) -> None:
    """Delete a user. It ends the sessions of the user."""
    confirm(f"Delete user {email}?", yes=yes)
    invocation.cluster_way(f"users delete {email}").delete_user(email)
    invocation.screen.one({"email": email}, lambda: f"user {email} deleted", name=email)

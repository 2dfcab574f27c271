"""The commands of ``hookwright`` as one Typer application."""

from collections.abc import Callable, Mapping
from typing import Annotated, Final

import typer

from hookwright_cli import VERSION
from hookwright_cli.commands import (
    access_commands,
    delivery_commands,
    endpoint_commands,
    event_commands,
    key_commands,
    secret_commands,
    status_commands,
    store_commands,
    user_commands,
)
from hookwright_cli.commands.listen_command import listen
from hookwright_cli.verbs import command_of, with_common_options

_Verbs = Mapping[str, Callable[..., None]]

_VERBS: Final[_Verbs] = {
    "status": status_commands.show_status,
    "metrics": status_commands.show_metrics,
    "deliveries": delivery_commands.list_deliveries,
    "delivery": delivery_commands.get_delivery,
    "retry": delivery_commands.retry_delivery,
    "replay": delivery_commands.begin_replay,
    "replays": delivery_commands.list_replays,
    "test": delivery_commands.send_test,
    "send": event_commands.send_events,
    "listen": listen,
    "explain": event_commands.explain_type,
    "login": access_commands.log_in,
    "logout": access_commands.log_out,
    "whoami": access_commands.who_am_i,
    "support-account": access_commands.make_support_account,
}
_GROUPS: Final[Mapping[str, tuple[str, _Verbs]]] = {
    "endpoints": (
        "Endpoints, which are the receivers of events.",
        {
            "list": endpoint_commands.list_endpoints,
            "get": endpoint_commands.get_endpoint,
            "create": endpoint_commands.create_endpoint,
            "edit": endpoint_commands.edit_endpoint,
            "suspend": endpoint_commands.suspend_endpoint,
            "resume": endpoint_commands.resume_endpoint,
            "rotate": endpoint_commands.rotate_endpoint,
            "delete": endpoint_commands.delete_endpoint,
        },
    ),
    "keys": (
        "API keys of a project.",
        {"list": key_commands.list_keys, "create": key_commands.create_key, "revoke": key_commands.revoke_key},
    ),
    "users": (
        "Users of the console and of /v1.",
        {
            "list": user_commands.list_users,
            "create": user_commands.create_user,
            "password": user_commands.set_password,
            "delete": user_commands.delete_user,
        },
    ),
    "secret": (
        "Signing secrets.",
        {"show": secret_commands.show_secret, "verify": secret_commands.verify_signature},
    ),
    "store": (
        "The store. Back up PostgreSQL with pg_dump.",
        {"backup": store_commands.back_up, "restore": store_commands.restore, "adopt": store_commands.adopt},
    ),
    "contexts": (
        "Contexts: named ways into Hookwright.",
        {
            "list": access_commands.list_contexts,
            "use": access_commands.use_context,
            "set": access_commands.set_context,
            "delete": access_commands.delete_context,
        },
    ),
}

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
    help="Webhooks, deliveries and replays of Hookwright, by a kubeconfig or by /v1.",
    epilog="Exit codes and examples: docs/cli.md",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hookwright {VERSION}")
        raise typer.Exit


def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Webhooks, deliveries and replays of Hookwright, by a kubeconfig or by /v1."""


app.callback()(with_common_options(root))


def _add(group: typer.Typer, verbs: _Verbs) -> typer.Typer:
    for name, function in verbs.items():
        group.command(name)(command_of(function))
    return group


_add(app, _VERBS)
for group_name, (about, group_verbs) in _GROUPS.items():
    app.add_typer(_add(typer.Typer(no_args_is_help=True, help=about), group_verbs), name=group_name)

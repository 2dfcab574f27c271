"""The commands of ``hookwright`` as one Typer application."""

from collections.abc import Callable
from typing import Annotated, Final

import typer

from hookwright_cli import VERSION
from hookwright_cli.commands import (
    access_commands,
    credential_commands,
    delivery_commands,
    endpoint_commands,
    event_commands,
    status_commands,
    store_commands,
)
from hookwright_cli.commands.listen_command import listen
from hookwright_cli.commands.quickstart_command import quickstart
from hookwright_cli.terminal.help_pages import HelpfulCommand, HelpfulGroup
from hookwright_cli.verbs import Invocation, command_of
from hookwright_cli.way_choice import option

_VERBS: Final[dict[str, dict[str, Callable[..., None]]]] = {
    "Every day": {
        "status": status_commands.show_status,
        "deliveries": delivery_commands.list_deliveries,
        "delivery": delivery_commands.get_delivery,
        "retry": delivery_commands.retry_delivery,
        "replay": delivery_commands.begin_replay,
        "replays": delivery_commands.list_replays,
        "send": event_commands.send_events,
        "listen": listen,
        "test": delivery_commands.send_test,
    },
    "Set-up": {
        "quickstart": quickstart,
        "login": access_commands.log_in,
        "logout": access_commands.log_out,
        "whoami": access_commands.who_am_i,
        "contexts list": access_commands.list_contexts,
        "contexts use": access_commands.use_context,
        "contexts set": access_commands.set_context,
        "contexts delete": access_commands.delete_context,
        "endpoints list": endpoint_commands.list_endpoints,
        "endpoints get": endpoint_commands.get_endpoint,
        "endpoints create": endpoint_commands.create_endpoint,
        "endpoints edit": endpoint_commands.edit_endpoint,
        "endpoints suspend": endpoint_commands.suspend_endpoint,
        "endpoints resume": endpoint_commands.resume_endpoint,
        "endpoints rotate": endpoint_commands.rotate_endpoint,
        "endpoints delete": endpoint_commands.delete_endpoint,
        "event-types list": event_commands.list_event_types,
        "event-types get": event_commands.get_event_type,
        "keys list": credential_commands.list_keys,
        "keys create": credential_commands.create_key,
        "keys revoke": credential_commands.revoke_key,
        "secret show": credential_commands.show_secret,
        "secret verify": credential_commands.verify_signature,
    },
    "Operators": {
        "metrics": status_commands.show_metrics,
        "users list": credential_commands.list_users,
        "users create": credential_commands.create_user,
        "users password": credential_commands.set_password,
        "users delete": credential_commands.delete_user,
        "support-account": access_commands.make_support_account,
        "store backup": store_commands.back_up,
        "store restore": store_commands.restore,
        "store adopt": store_commands.adopt,
    },
}
"""The verbs in the groups of ``--help``."""
_GROUPS: Final = {
    "endpoints": "Endpoints, which are the receivers of events.",
    "event-types": "Event types that producers send and endpoints subscribe to.",
    "keys": "API keys of a project.",
    "users": "Users of the console and of /v1.",
    "secret": "Signing secrets, and the check of a signature.",
    "store": "The store of an installation: back up, restore and transfer it.",
    "contexts": "Contexts: named ways into Hookwright.",
}

app = typer.Typer(
    cls=HelpfulGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 120},
    help="Webhooks, deliveries and replays of Hookwright, by a kubeconfig or by /v1.",
    epilog="Exit codes and examples: docs/cli.md",
)


def _version(is_given: bool) -> None:
    if is_given:
        typer.echo(f"hookwright {VERSION}")
        raise typer.Exit


def root(
    _: Invocation,
    version: Annotated[bool, option("--version", None, "Print the version.", callback=_version, is_eager=True)] = False,
) -> None:
    """Accept the common options before a verb."""


app.callback()(command_of(root))


_apps = {"": app}
for section, verbs in _VERBS.items():
    for path, function in verbs.items():
        group, _, verb = path.rpartition(" ")
        if group not in _apps:
            _apps[group] = typer.Typer(cls=HelpfulGroup, no_args_is_help=True, help=_GROUPS[group])
            app.add_typer(_apps[group], name=group, rich_help_panel=section)
        _apps[group].command(verb, cls=HelpfulCommand, rich_help_panel="" if group else section)(command_of(function))

"""The commands of ``hookwright`` as one Typer application."""

from typing import Annotated

import typer

from hookwright_cli import VERSION
from hookwright_cli.commands import (
    access_commands,
    delivery_commands,
    endpoint_commands,
    explain_command,
    key_commands,
    listen_command,
    metrics_command,
    secret_commands,
    send_command,
    status_command,
    store_commands,
    user_commands,
)
from hookwright_cli.verbs import with_common_options

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


for module in (
    status_command,
    metrics_command,
    endpoint_commands,
    delivery_commands,
    send_command,
    listen_command,
    key_commands,
    user_commands,
    secret_commands,
    store_commands,
    explain_command,
    access_commands,
):
    module.add_to(app)

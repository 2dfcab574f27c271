"""``hookwright metrics``: readiness and metrics of each pod."""

import re
from typing import Annotated

import typer

from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.terminal.columns import Column, field
from hookwright_cli.verbs import Invocation


def show_metrics(
    invocation: Invocation,
    patterns: Annotated[list[str] | None, typer.Argument(metavar="PATTERN...", help="Regular expressions.")] = None,
) -> None:
    """Show for each pod whether it is ready, and its metrics: those whose line matches a PATTERN, or all."""
    from hookwright_cli.ways.pod_metrics import pod_metrics

    try:
        wanted = re.compile("|".join(patterns or ()))
    except re.error as error:
        raise CommandError(f"PATTERN is not a regular expression: {error}", ExitCode.USAGE) from None
    way = invocation.cluster_way("metrics")
    pods = list(pod_metrics(way.cluster, way.installation))
    if not pods:
        raise CommandError(
            f"no pod of Hookwright in namespace {way.installation}",
            ExitCode.NOT_FOUND,
            hint="--installation names another namespace",
        )
    for pod in pods:
        pod["metrics"] = [line for line in pod["metrics"] if wanted.search(line)]
    if not invocation.screen.for_people:
        invocation.screen.rows(pods, (Column("POD", field("id")),), none="")
        return
    for pod in pods:
        invocation.screen.line(f"# {pod['id']}: {'ready' if pod['ready'] else pod['message']}")
        for line in pod["metrics"]:
            invocation.screen.line(line)

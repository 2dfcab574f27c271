"""`--watch` as a child process: changes of a real cluster appear until Ctrl-C."""

import signal
from itertools import pairwise
from pathlib import Path

import pytest
from support.api_processes import PASSWORD, Organization
from support.command_transcripts import Transcript
from support.polling import eventually
from support.running_commands import running

from hookwright_dev.cluster.installation import ApiProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
CLEAR = "\x1b[2J\x1b[H"


def test_changes_are_printed_as_they_come(by_kubeconfig: Transcript, acme: Organization, tmp_path: Path) -> None:
    """By a kubeconfig, with pipes: each change once. Ctrl-C ends each command with its exit code.

    Endpoints as JSON have one line for each change, and none for an endpoint that did not change. Deliveries for people
    have the header once, then a row for each new delivery, below the older ones. The status follows a new problem.
    """
    by_kubeconfig.quiet("endpoints", "create", "inbox", "--pull", "-e", "delivered")
    orphan = {"projectRef": {"name": "nothing"}, "pull": {}, "events": ["opened"]}
    with (
        running(by_kubeconfig, tmp_path, "endpoints", "list", "--watch", "-o", "json", terminal=False) as endpoints,
        running(by_kubeconfig, tmp_path, "deliveries", "inbox", "-w", terminal=False) as deliveries,
        running(by_kubeconfig, tmp_path, "status", "-n", acme.name, "-w", terminal=False) as status,
    ):

        def states() -> list[str]:
            return [endpoint["status"] for endpoint in endpoints.documents() if endpoint["id"] == "inbox"]

        eventually(lambda: states() == ["active"] and "0 pending" in status.output(), "the state is printed")
        by_kubeconfig.quiet("send", "delivered", "messageId=m-1")
        eventually(lambda: deliveries.output().count("dlv_") == 1, "a delivery is printed")
        by_kubeconfig.quiet("send", "delivered", "messageId=m-2")
        by_kubeconfig.quiet("endpoints", "suspend", "inbox")
        acme.apply({"kind": "WebhookEndpoint", "metadata": {"name": "orphan"}, "spec": orphan})
        eventually(lambda: deliveries.output().count("dlv_") == 2, "the next delivery is printed")
        eventually(lambda: states()[-1] == "suspended", "the change of the endpoint is printed")
        eventually(lambda: "ProjectNotFound" in status.output(), "the problem is shown")
        commands = (endpoints, deliveries, status)
        for command in commands:
            command.process.send_signal(signal.SIGINT)
        assert [command.exit_code() for command in commands] == [130] * 3
    assert all(before != after for before, after in pairwise(endpoints.documents()))
    header, *rows = deliveries.output().splitlines()
    assert header.startswith("DELIVERY")
    assert [row for row in rows if "DELIVERY" in row] == []
    newest = by_kubeconfig.quiet("deliveries", "inbox", "-o", "name").stdout.split()
    assert [next(word for word in row.split() if word.startswith("dlv_")) for row in rows] == newest[::-1]


def test_a_terminal_shows_the_whole_list_again(
    by_api: Transcript, acme: Organization, api: ApiProcess, tmp_path: Path
) -> None:
    """By /v1: each turn clears the screen; Ctrl-C leaves no traceback."""
    acme.session()
    by_api.quiet("login", "--url", api.url, "--email", acme.email, stdin=f"{PASSWORD}\n")
    with running(by_api, tmp_path, "endpoints", "list", "-w", terminal=True) as watch:
        eventually(lambda: f"{CLEAR}(none)" in watch.output(), "the empty list is shown")
        endpoint = by_api.quiet("endpoints", "create", "--pull", "-e", "opened", "-o", "name").stdout.strip()
        eventually(lambda: endpoint in watch.output().rpartition(CLEAR)[2], "the new endpoint is shown")
        watch.press("\x03")
        assert watch.exit_code() == 130
    assert "Traceback" not in watch.output()

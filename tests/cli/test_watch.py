"""`--watch` as a child process: changes of a real cluster appear until Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support.api_processes import PASSWORD, Organization
from support.command_transcripts import Transcript
from support.polling import PATIENCE, eventually

from hookwright_dev.cluster.installation import ApiProcess

pytestmark = pytest.mark.timeout(300)
AT_A_TERMINAL = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
CLEAR = "\x1b[2J\x1b[H"


@contextmanager
def watching(
    commands: Transcript, written: Path, *arguments: str, terminal: bool = False
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a command inside the context; it writes into a file."""
    environment = {**os.environ, "NO_COLOR": "1", "TERM": "xterm", **commands.environment}
    command = [sys.executable, "-m", "hookwright_cli", *arguments]
    with written.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", AT_A_TERMINAL, *command] if terminal else command,
            env={name: value for name, value in environment.items() if value is not None},
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    assert process.stdin is not None
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()


def interrupted(process: "subprocess.Popen[bytes]") -> None:
    """Send Ctrl-C, and assert that the command ends with its exit code for that."""
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 130


def lines_of(written: Path) -> list[dict[str, Any]]:
    """Return the complete lines as JSON."""
    return [json.loads(line) for line in written.read_text().split("\n")[:-1]]


def test_endpoints_are_printed_when_they_change(by_kubeconfig: Transcript, acme: Organization, tmp_path: Path) -> None:
    """By a kubeconfig, as JSON: one line for each change, and no line for an endpoint that did not change."""
    file = tmp_path / "watched"
    with watching(by_kubeconfig, file, "endpoints", "list", "--watch", "-o", "json") as process:
        spec = {"projectRef": {"name": "billing"}, "pull": {}, "events": ["opened"]}
        acme.apply({"kind": "WebhookEndpoint", "metadata": {"name": "inbox"}, "spec": spec})

        def states() -> list[str]:
            return [line["status"] for line in lines_of(file) if line["id"] == "inbox"]

        eventually(lambda: states()[-1:] == ["active"], "the new endpoint is printed")
        by_kubeconfig.quiet("endpoints", "suspend", "inbox")
        eventually(lambda: states()[-1:] == ["suspended"], "its change is printed")
        interrupted(process)
    lines = lines_of(file)
    assert all(before != after for before, after in pairwise(lines))


@pytest.mark.usefixtures("acme")
def test_deliveries_are_printed_as_they_come(by_kubeconfig: Transcript, tmp_path: Path) -> None:
    """With pipes and for people: the header once, then a row for each new delivery, below the older ones."""
    file = tmp_path / "watched"
    by_kubeconfig.quiet("endpoints", "create", "inbox", "--pull", "-e", "delivered")
    with watching(by_kubeconfig, file, "deliveries", "inbox", "-w") as process:
        for number in (1, 2):
            by_kubeconfig.quiet("send", "delivered", f"messageId=m-{number}")
            eventually(lambda: file.read_text().count("dlv_") == number, f"{number} deliveries are printed")  # noqa: B023
        interrupted(process)
    header, *rows = file.read_text().splitlines()
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
    file = tmp_path / "watched"
    with watching(by_api, file, "endpoints", "list", "-w", terminal=True) as process:
        eventually(lambda: f"{CLEAR}(none)" in file.read_text(), "the empty list is shown")
        endpoint = json.loads(by_api.quiet("endpoints", "create", "--pull", "-e", "opened", "-o", "json").stdout)
        eventually(lambda: endpoint["id"] in file.read_text().rpartition(CLEAR)[2], "the new endpoint is shown")
        assert process.stdin is not None
        process.stdin.write(b"\x03")
        process.stdin.flush()
        assert process.wait(PATIENCE) == 130
    assert "Traceback" not in file.read_text()


def test_status_is_shown_again(by_kubeconfig: Transcript, acme: Organization, tmp_path: Path) -> None:
    """The state of the organization follows a new problem."""
    file = tmp_path / "watched"
    with watching(by_kubeconfig, file, "status", "-n", acme.name, "-w") as process:
        eventually(lambda: "0 pending" in file.read_text(), "the state is shown")
        spec = {"projectRef": {"name": "nothing"}, "pull": {}, "events": ["opened"]}
        acme.apply({"kind": "WebhookEndpoint", "metadata": {"name": "orphan"}, "spec": spec})
        eventually(lambda: "ProjectNotFound" in file.read_text(), "the problem is shown")
        interrupted(process)

"""A command ends by its deadline, and says while it waits which server does not answer."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.command_transcripts import Transcript
from support.kubeconfig import write_kubeconfig

from hookwright_cli import deadline
from hookwright_cli.command_errors import CommandError, ExitCode

SECONDS = 0.5
"""The deadline of the commands here."""


@pytest.fixture(params=["silent", "slow"])
def silent(request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield the URL of a server that accepts connections, and never answers or sends an answer byte by byte."""
    with socket.create_server(("127.0.0.1", 0), backlog=16) as server:
        connections: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    connections.append(server.accept()[0])
                except OSError:
                    return
                if request.param == "slow":
                    threading.Thread(target=answer, args=(connections[-1],), daemon=True).start()

        def answer(connection: socket.socket) -> None:
            with suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                while True:
                    connection.sendall(b"a")
                    time.sleep(SECONDS / 5)

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        for connection in connections:
            connection.close()


@pytest.fixture
def commands(silent: str, tmp_path: Path) -> Transcript:
    """Return commands with a kubeconfig and a key of the silent server, and the short deadline."""
    write_kubeconfig(tmp_path / "kubeconfig", silent, "t", context="kind", namespace="acme")
    return Transcript(
        {
            "HOOKWRIGHT_DEADLINE": str(SECONDS),
            "HOOKWRIGHT_CONFIG_FOLDER": str(tmp_path / "hookwright"),
            "HOOKWRIGHT_API_KEY": "hw_k7q2m9x0a3b5_secret",
            "KUBECONFIG": str(tmp_path / "kubeconfig"),
        }
    )


@pytest.mark.parametrize("command", [("status",), ("send", "delivered", "messageId=m-1")])
@pytest.mark.parametrize("way", ["api", "kubeconfig"])
def test_a_command_ends_by_its_deadline_if_the_server_does_not_answer(
    commands: Transcript, silent: str, way: str, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the server, silent or slow; a line before it says that the command waits, and how long."""
    monkeypatch.setattr(deadline.DEADLINE, "notice_seconds", SECONDS / 4)
    start = time.monotonic()
    result = commands.quiet(*command, "--way", way, "--url", silent)
    assert result.exit_code == ExitCode.UNAVAILABLE
    # Without the deadline it takes 40 s or longer; a busy machine needs some seconds for the imports.
    assert SECONDS <= time.monotonic() - start < 20
    place = silent if way == "api" else f"the API server at {silent}"
    assert f"still waiting for {place}, at most {SECONDS} s\n" in result.stderr
    assert f"hookwright: {place} did not answer in time" in result.stderr


def test_the_waits_of_a_command_have_one_total_and_a_lifted_deadline_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second request gets what the first one left; after the total no request is sent."""
    clock = iter([0.0, 6.0, 6.0, 11.0, 20.0, 20.0])
    monkeypatch.setattr("hookwright_cli.deadline.time.monotonic", lambda: next(clock))
    total = deadline.Deadline()
    total.begin(10.0)
    with total.waiting("a server", 60.0) as first:
        pass
    with total.waiting("a server", 60.0) as second:
        pass
    assert (first, second) == (10.0, 4.0)
    with pytest.raises(CommandError, match="a server was not asked"), total.waiting("a server", 60.0):
        pytest.fail("a request after the deadline")
    total.lift()
    with total.waiting("a server", 60.0) as seconds:
        assert seconds == 60.0


@pytest.mark.parametrize("written", ["0", "-1", "inf", "nan", "1m"])
def test_a_deadline_that_is_no_number_of_seconds_is_refused(written: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the variable and a value that would do."""
    monkeypatch.setenv("HOOKWRIGHT_DEADLINE", written)
    with pytest.raises(CommandError, match=r"HOOKWRIGHT_DEADLINE=.* must be a positive number of seconds, such as 60"):
        deadline.Deadline().begin()

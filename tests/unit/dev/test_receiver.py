"""The receiver of the README says in words what it cannot do."""

import socket

import pytest

from hookwright_dev import receiver


def test_a_busy_port_is_an_error_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the address and the option, without a traceback."""
    with socket.create_server(("127.0.0.1", 0)) as closed_socket:
        port = closed_socket.getsockname()[1]
        assert receiver.main(["--port", str(port)]) == 1
    message = capsys.readouterr().err
    assert message.startswith(f"cannot listen on 127.0.0.1:{port}: ")
    assert message.endswith("choose another --port\n")
    assert message.count("\n") == 1

"""``hookwright`` as a child process, at a terminal of its own or with pipes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.command_transcripts import Transcript
from support.polling import PATIENCE, eventually

_AT_A_TERMINAL = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"


@dataclass(slots=True)
class RunningCommand:
    """A running command.

    Attributes:
        commands: other commands of the same user.
        process: the command, or the terminal that it runs at.
        file: what it has written.
    """

    commands: Transcript
    process: "subprocess.Popen[bytes]"
    file: Path

    def endpoint(self) -> dict[str, Any]:
        """Return the endpoint of ``listen`` when events can arrive."""

        def look() -> list[dict[str, Any]]:
            assert self.process.poll() is None, self.output()
            endpoints = json.loads(self.commands.quiet("endpoints", "list", "-o", "json").stdout)["data"]
            return [endpoint for endpoint in endpoints if endpoint["pull"] and endpoint["status"] == "active"]

        return eventually(look, "the temporary endpoint is active")[0]

    def press(self, key: str) -> None:
        """Press a key at its terminal."""
        assert self.process.stdin is not None
        self.process.stdin.write(key.encode())
        self.process.stdin.flush()

    def output(self) -> str:
        """Return what it has written."""
        return self.file.read_text(encoding="utf-8")

    def screen(self) -> str:
        """Return what it has drawn over the whole terminal since the beginning of the last drawing."""
        return self.output().rpartition("\x1b[H")[2]

    def documents(self) -> list[dict[str, Any]]:
        """Return the complete lines as JSON."""
        return [json.loads(line) for line in self.output().split("\n")[:-1]]

    def exit_code(self) -> int:
        """Return the exit code when it has ended."""
        return self.process.wait(PATIENCE)


@contextmanager
def running(commands: Transcript, folder: Path, *arguments: str, terminal: bool) -> Iterator[RunningCommand]:
    """Run a command inside the context."""
    environment = {**os.environ, "NO_COLOR": "1", "TERM": "xterm", **commands.environment}
    command = [sys.executable, "-m", "hookwright_cli", *arguments]
    file = folder / f"{arguments[0]}.txt"
    with file.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", _AT_A_TERMINAL, *command] if terminal else command,
            env={name: value for name, value in environment.items() if value is not None},
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT if terminal else subprocess.DEVNULL,
        )
    try:
        yield RunningCommand(commands, process, file)
    finally:
        process.kill()
        process.wait()
        if process.stdin:
            process.stdin.close()

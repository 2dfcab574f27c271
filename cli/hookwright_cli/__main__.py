"""The entry point of ``hookwright`` and ``kubectl-hookwright``."""

import io
import sys

from hookwright_cli.command_line import app
from hookwright_cli.way_choice import is_plugin


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal without UTF-8 shows an event with other characters all the same.
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="kubectl hookwright" if is_plugin() else "hookwright")


if __name__ == "__main__":
    main()

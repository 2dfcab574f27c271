"""The entry point of ``hookwright`` and ``kubectl-hookwright``."""

from hookwright_cli.command_line import app
from hookwright_cli.way_choice import is_plugin


def main() -> None:
    """Run the command line."""
    app(prog_name="kubectl hookwright" if is_plugin() else "hookwright")


if __name__ == "__main__":
    main()

"""Questions to the user: passwords and confirmations. A script answers with standard input and options."""

import getpass
import sys

from hookwright_cli.command_errors import CommandError, ExitCode


def password(*, repeat: bool, prompt: str = "Password") -> str:
    """Return a password: one line of standard input, or an answer at the terminal.

    Raises:
        CommandError: it is empty, or the two entries differ.
    """
    if sys.stdin.isatty():
        written = getpass.getpass(f"{prompt}: ")
        if repeat and getpass.getpass(f"Repeat the {prompt.lower()}: ") != written:
            raise CommandError("the two passwords differ; nothing was changed", ExitCode.USAGE)
    else:
        written = sys.stdin.readline().rstrip("\r\n")
    if not written:
        raise CommandError("the password is empty; send it on standard input", ExitCode.USAGE)
    return written


def confirm(question: str, *, yes: bool) -> None:
    """Return if the user agrees.

    Raises:
        CommandError: the user does not agree, or there is no terminal to ask at.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"{question} Confirm with --yes.", ExitCode.USAGE)
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise CommandError("nothing was changed")

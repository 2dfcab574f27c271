"""Questions to the user: passwords and confirmations. A script answers with standard input and options."""

import getpass
import sys

from hookwright_cli.command_errors import CommandError, ExitCode


def password(*, repeat: bool, prompt: str = "Password") -> str:
    """Return a password: one line of standard input, or an answer at the terminal."""
    if sys.stdin.isatty():
        secret = getpass.getpass(f"{prompt}: ")
        if repeat and getpass.getpass(f"Repeat the {prompt.lower()}: ") != secret:
            raise CommandError("the two passwords differ; nothing was changed", ExitCode.USAGE)
    else:
        secret = sys.stdin.readline().rstrip("\r\n")
    if not secret:
        raise CommandError("the password is empty; send it on standard input", ExitCode.USAGE)
    return secret


def answer(question: str) -> str:
    """Return a line of the terminal."""
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip()


def confirm(question: str, *, yes: bool) -> None:
    """Ask the user; only a yes lets the command go on."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError(f"{question} Confirm with --yes.", ExitCode.USAGE)
    if answer(f"{question} [y/N] ").lower() not in {"y", "yes"}:
        raise CommandError("nothing was changed")

"""``hookwright secret``: show a signing secret, and verify the signature of a request."""

import base64
import binascii
import hashlib
import hmac
import sys
from pathlib import Path
from typing import Annotated

import typer

from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.commands.endpoint_commands import Name
from hookwright_cli.terminal.columns import STYLES
from hookwright_cli.verbs import Invocation


def show_secret(invocation: Invocation, endpoint: Name) -> None:
    """Show the signing secret of an endpoint."""
    document = invocation.way.call_endpoint("GET", endpoint, "secret")
    invocation.screen.one(document, lambda: str(document["secret"]), name=endpoint)


def verify_signature(
    invocation: Invocation,
    endpoint: Name,
    header: Annotated[
        list[str],
        typer.Option(
            "--header", "-H", metavar="'NAME: VALUE'", help="The headers as received, with the signature; repeat it."
        ),
    ],
    body: Annotated[str, typer.Option("--body", metavar="FILE", help="The raw body; - is standard input.")] = "-",
) -> None:
    """Check the signature of a received request. The exit code is 9 if it does not match.

    It checks X-Service-Signature, or webhook-signature with webhook-id and webhook-timestamp.
    """
    headers = {}
    for written in header:
        name, separator, value = written.partition(":")
        if not separator:
            raise CommandError(f"--header {written!r} must be 'NAME: VALUE'", ExitCode.USAGE)
        headers[name.strip().lower()] = value.strip()
    raw = sys.stdin.buffer.read() if body == "-" else Path(body).read_bytes()
    document = invocation.way.call_endpoint("GET", endpoint, "secret")
    checks = signature_checks(str(document["secret"]), headers, raw)
    if (until := document.get("previous_signs_until")) and checks.get("X-Service-Signature") is False:
        del checks["X-Service-Signature"]
        message = f"X-Service-Signature cannot be checked before {until}: until then the replaced secret makes it"
        if not checks:
            raise CommandError(message, ExitCode.USAGE, hint="send -H with each of the three webhook-… headers")
        invocation.screen.note(message)
    if not checks:
        raise CommandError(
            "no signature: send -H 'X-Service-Signature: …', or the three webhook-… headers", ExitCode.USAGE
        )
    valid = all(checks.values())
    word = "valid" if valid else "invalid"
    lines = [f"{name}: {invocation.screen.style(word_of(ok), STYLES[word_of(ok)])}" for name, ok in checks.items()]
    if not valid:
        lines.append("compare the raw body, not JSON that was parsed and written again, and the secret")
    invocation.screen.one({"endpoint": endpoint, "valid": valid, "checks": checks}, lambda: "\n".join(lines), name=word)
    if not valid:
        raise typer.Exit(int(ExitCode.NEGATIVE))


def word_of(matching: bool) -> str:
    """Return the word for a result."""
    return "valid" if matching else "invalid"


def signature_checks(secret: str, headers: dict[str, str], body: bytes) -> dict[str, bool]:
    """Return whether each signature of a request matches.

    Args:
        secret: ``whsec_…``.
        headers: by lower-case name.
        body: the raw body.

    Raises:
        CommandError: the secret has no key.
    """
    checks = {}
    if signature := headers.get("x-service-signature"):
        expected = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        checks["X-Service-Signature"] = hmac.compare_digest(expected.encode(), signature.encode())
    if signatures := headers.get("webhook-signature"):
        try:
            key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        except (binascii.Error, ValueError):
            raise CommandError("the signing secret is not base64 after whsec_", ExitCode.INVALID) from None
        signed = f"{headers.get('webhook-id', '')}.{headers.get('webhook-timestamp', '')}.".encode() + body
        digest = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        checks["webhook-signature"] = any(
            hmac.compare_digest(f"v1,{digest}".encode(), one.encode()) for one in signatures.split()
        )
    return checks

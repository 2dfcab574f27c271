"""Credentials: ``keys`` of a project, ``users`` of an installation, and the signing ``secret`` of an endpoint."""

import base64
import hashlib
import hmac
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.commands.asking import confirm, password
from hookwright_cli.contract import KEY_SCOPES, USER_ROLES
from hookwright_cli.durations import moment
from hookwright_cli.parameters import Endpoint, Yes, argument, key_ids, user_emails
from hookwright_cli.terminal.columns import KEYS, USERS
from hookwright_cli.verbs import Invocation
from hookwright_cli.way_choice import API, chosen, completed, namespaces, option, users_namespace_of
from hookwright_cli.ways.resource_forms import hash_of, normal_address, user_manifest

_SCOPES = completed(lambda _: KEY_SCOPES, separator=",")


def list_keys(invocation: Invocation) -> None:
    """List the API keys."""
    invocation.screen.rows(invocation.way.api_keys(), KEYS, none=invocation.none_of("keys"))


def create_key(
    invocation: Invocation,
    name: Annotated[str, argument("NAME", "A name for people.")],
    scope: Annotated[
        list[str] | None, option("--scope -s", "|".join(KEY_SCOPES), "A right; repeat it.", autocompletion=_SCOPES)
    ] = None,
    expires: Annotated[str, option("--expires", "30d|TIME", "When it ends; never, if left out.")] = "",
) -> None:
    """Create an API key. It is shown only now."""
    fields: dict[str, Any] = {"name": name}
    if scope:
        fields["scopes"] = [right for text in scope for right in text.split(",")]
    if expires:
        fields["expires_at"] = moment(expires, "--expires", datetime.now(UTC), ahead=True)
    document = invocation.way.create_key(fields)
    invocation.screen.one(document, str(document["key"]))
    invocation.screen.note(
        f"key {document['id']} created with the scopes {', '.join(document['scopes'])}; it is not shown again"
    )


def revoke_key(
    invocation: Invocation, key: Annotated[str, argument("KEY", "Its id.", autocompletion=key_ids)], yes: Yes = False
) -> None:
    """Revoke an API key at once."""
    confirm(f"Revoke key {key}? Its clients get 401 at once.", yes=yes)
    invocation.way.revoke_key(key)
    invocation.screen.one({"id": key}, f"key {key} revoked")


def list_users(invocation: Invocation) -> None:
    """List the users of the installation."""
    invocation.screen.rows(invocation.cluster_way("users list").users(), USERS, none="There are no users.")


def create_user(
    invocation: Invocation,
    email: Annotated[str, argument("EMAIL")],
    organization: Annotated[
        str, option("--organization", "NAMESPACE", "Where the user works.", autocompletion=namespaces)
    ],
    role: Annotated[str, option("--role", "|".join(USER_ROLES), "Rights of the user.")] = "admin",
    only_hash: Annotated[
        bool, option("--hash", None, "Write nothing; print the Secret with the hash, for example for a Git repository.")
    ] = False,
) -> None:
    """Create a user of the console and of /v1. The password is read from standard input, or asked for."""
    # The values are checked before the password is asked for.
    address = normal_address(email)
    manifest = user_manifest(
        users_namespace_of(invocation.options), email=address, organization=organization, password_hash="", role=role
    )
    manifest["stringData"]["passwordHash"] = hash_of(password(repeat=True))
    if only_hash:
        import yaml

        invocation.screen.one(manifest, yaml.safe_dump(manifest, sort_keys=False).rstrip("\n"), name=address)
        return
    way = invocation.cluster_way("users create")
    try:
        way.cluster.create(way.user_path(), manifest)
    except CommandError as error:
        if error.problem != "AlreadyExists":
            raise
        advice = f"`hookwright users password {address}` changes the password"
        raise CommandError(f"the user {address} exists", ExitCode.CONFLICT, hint=advice) from None
    user = {"email": address, "organization": organization, "role": role}
    invocation.screen.one(user, f"{address} may log in to organization {organization} as {role}", name=address)
    try:
        way.cluster.request("GET", f"/api/v1/namespaces/{organization}")
    except CommandError as error:
        # A user who may not read namespaces gets no note.
        if error.code is ExitCode.NOT_FOUND:
            invocation.screen.note(f"namespace {organization} does not exist; the user sees nothing until it does")


def set_password(
    invocation: Invocation,
    email: Annotated[str, argument("EMAIL", autocompletion=user_emails)] = "",
    only_hash: Annotated[bool, option("--hash", None, "Write nothing; print the hash.")] = False,
) -> None:
    """Set the password of a user; through /v1, your own. It ends the sessions of the user."""
    if only_hash:
        password_hash = hash_of(password(repeat=True))
        invocation.screen.one({"passwordHash": password_hash}, password_hash, name=password_hash)
        return
    kind, context = chosen(invocation.options)
    email = email or context.email
    if kind == API and email == context.email:
        present = password(repeat=False, prompt="Present password")
        body = {"current_password": present, "new_password": password(repeat=True, prompt="New password")}
        invocation.way.call("POST", "auth", "password", body=body)
    else:
        way, email = invocation.cluster_way("the password of another user"), normal_address(email)
        password_hash = hash_of(password(repeat=True, prompt="New password"))
        # Without the user, this is an error.
        way.cluster.request("GET", way.user_path(email))
        way.cluster.patch(way.user_path(email), {"stringData": {"passwordHash": password_hash}})
    invocation.screen.one({"email": email}, f"{email} has a new password", name=email)


def delete_user(
    invocation: Invocation, email: Annotated[str, argument("EMAIL", autocompletion=user_emails)], yes: Yes = False
) -> None:
    """Delete a user. It ends the sessions of the user."""
    confirm(f"Delete user {email}?", yes=yes)
    way = invocation.cluster_way(f"users delete {email}")
    way.cluster.request("DELETE", way.user_path(email))
    invocation.screen.one({"email": email}, f"user {email} deleted", name=email)


def show_secret(invocation: Invocation, endpoint: Endpoint) -> None:
    """Show the signing secret of an endpoint."""
    document = invocation.way.call_endpoint("GET", endpoint, "secret")
    invocation.screen.one(document, str(document["secret"]), name=endpoint)


def verify_signature(
    invocation: Invocation,
    endpoint: Endpoint,
    header: Annotated[
        list[str], option("--header -H", "'NAME: VALUE'", "The headers as received, with the signature; repeat it.")
    ],
    body: Annotated[str, option("--body", "FILE", "The raw body; - is standard input.")] = "-",
) -> None:
    """Check the signature of a received request. The exit code is 9 if it does not match.

    It checks X-Service-Signature, or webhook-signature with webhook-id and webhook-timestamp.
    """
    headers = {}
    for line in header:
        name, separator, value = line.partition(":")
        if not separator:
            raise CommandError(f"--header {line!r} must be 'NAME: VALUE'", ExitCode.USAGE)
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
    words = {name: "valid" if matches else "invalid" for name, matches in checks.items()}
    lines = [f"{name}: {invocation.screen.state(word)}" for name, word in words.items()]
    if not (valid := all(checks.values())):
        lines.append("compare the raw body, not JSON that was parsed and written again, and the secret")
    invocation.screen.one(
        {"endpoint": endpoint, "valid": valid, "checks": checks},
        "\n".join(lines),
        name="valid" if valid else "invalid",
    )
    if not valid:
        raise typer.Exit(int(ExitCode.NEGATIVE))


def signature_checks(secret: str, headers: dict[str, str], body: bytes) -> dict[str, bool]:
    """Return whether each signature of a request matches; headers have lower-case names."""
    checks = {}
    if signature := headers.get("x-service-signature"):
        expected = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        checks["X-Service-Signature"] = hmac.compare_digest(expected.encode(), signature.encode())
    if signatures := headers.get("webhook-signature"):
        key = secret.encode()
        if secret.startswith("whsec_"):
            with suppress(ValueError):
                key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        content = f"{headers.get('webhook-id', '')}.{headers.get('webhook-timestamp', '')}.".encode() + body
        digest = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
        checks["webhook-signature"] = any(
            hmac.compare_digest(f"v1,{digest}".encode(), entry.encode()) for entry in signatures.split()
        )
    return checks

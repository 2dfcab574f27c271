"""``hookwright-user``: create a user of the dashboard, or set a user's new password.

It runs with the administrator's own credentials. The password comes from standard input or, at a terminal, from a
prompt. It never comes from the command line, where other users of the machine could read it.
"""

import argparse
import asyncio
import getpass
import sys
from collections.abc import Sequence

from hookwright_api.auth.passwords import MAX_PASSWORD_LENGTH, hash_password
from hookwright_api.settings import ApiSettings
from hookwright_crds.users import normal_email, user_secret
from hookwright_runtime.errors import HookwrightError, KubeError, SettingsError
from hookwright_runtime.kubernetes import KubernetesClient

_MANAGER = "hookwright-user"


def read_password() -> str:
    """Return the password: one line of standard input, or a password entered twice at a terminal.

    Raises:
        ValueError: it is empty or too long, or the two entries differ.
    """
    if sys.stdin.isatty():
        password = getpass.getpass("Password: ")
        if getpass.getpass("Repeat the password: ") != password:
            raise ValueError("the two passwords differ; nothing was changed")
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not 0 < len(password) <= MAX_PASSWORD_LENGTH:
        raise ValueError(f"the password must have 1 to {MAX_PASSWORD_LENGTH} characters; send it on standard input")
    return password


async def write_user(namespace: str, *, email: str, organization: str, password: str) -> None:
    """Write the Secret of a user, or replace it.

    Raises:
        ValueError: the email or the organization is invalid.
        KubeError: it could not be written.
    """
    secret = user_secret(
        namespace,
        email=email,
        organization=organization,
        password_hash=await asyncio.to_thread(hash_password, password),
    )
    kube = await KubernetesClient.connect(_MANAGER)
    try:
        await _warn_of_missing(kube, organization)
        path = f"/api/v1/namespaces/{namespace}/secrets/{secret['metadata']['name']}"
        await kube.apply(path, secret)
    finally:
        await kube.close()


async def _warn_of_missing(kube: KubernetesClient, organization: str) -> None:
    try:
        await kube.get(f"/api/v1/namespaces/{organization}")
    except KubeError as error:
        if error.status == 404:
            sys.stderr.write(f"hookwright-user: namespace {organization} does not exist; the user sees no projects\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="hookwright-user", description="Create a dashboard user, or set a new password (from standard input)."
    )
    parser.add_argument("--organization", required=True, metavar="NAMESPACE", help="the namespace the user works in")
    parser.add_argument("--email", required=True, metavar="ADDRESS", help="email address for the login")
    chosen = parser.parse_args(arguments)
    try:
        email = normal_email(chosen.email)
        namespace = ApiSettings.load().namespace
        asyncio.run(write_user(namespace, email=email, organization=chosen.organization, password=read_password()))
    except (ValueError, SettingsError, HookwrightError) as error:
        sys.stderr.write(f"hookwright-user: {error}\n")
        return 1
    sys.stdout.write(f"{email} may log in to organization {chosen.organization}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

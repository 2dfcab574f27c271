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
from hookwright_api.view.table_records import role_in
from hookwright_crds.users import UnknownRoleError, UserRole, normal_email, user_secret, user_secret_name
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


async def write_user(
    namespace: str, *, email: str, organization: str, password: str, role: UserRole | None
) -> UserRole:
    """Write the Secret of a user, or replace it; return the user's role.

    Args:
        namespace: of the installation.
        email: in its normal form.
        organization: the namespace in which the user works.
        password: in plaintext.
        role: of the user; None keeps the role of an existing user, and makes a new one an admin.

    Raises:
        ValueError: the email or the organization is invalid, or the present role is not known.
        KubeError: it could not be written.
    """
    hashed = await asyncio.to_thread(hash_password, password)
    path = f"/api/v1/namespaces/{namespace}/secrets/{user_secret_name(email)}"
    kube = await KubernetesClient.connect(_MANAGER)
    try:
        await _warn_of_missing(kube, organization)
        role = role or await _present_role(kube, path)
        await kube.apply(
            path, user_secret(namespace, email=email, organization=organization, password_hash=hashed, role=role)
        )
    finally:
        await kube.close()
    return role


async def _present_role(kube: KubernetesClient, path: str) -> UserRole:
    """Return the role of an existing user, so that a new password does not give more rights."""
    try:
        return role_in(await kube.get(path))
    except UnknownRoleError as error:
        raise ValueError(f"{error}; send --role") from None
    except KubeError as error:
        if error.status != 404:
            raise
        return UserRole.ADMIN


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
    parser.add_argument(
        "--role",
        type=UserRole,
        choices=list(UserRole),
        help="viewer: reads; editor: also changes webhooks; admin: also manages keys and projects. If omitted, an "
        "existing user keeps the role, and a new one is an admin",
    )
    chosen = parser.parse_args(arguments)
    try:
        writing = write_user(
            ApiSettings.load().namespace,
            email=normal_email(chosen.email),
            organization=chosen.organization,
            password=read_password(),
            role=chosen.role,
        )
        role = asyncio.run(writing)
    except (ValueError, SettingsError, HookwrightError) as error:
        sys.stderr.write(f"hookwright-user: {error}\n")
        return 1
    sys.stdout.write(f"{normal_email(chosen.email)} may log in to organization {chosen.organization} as {role}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

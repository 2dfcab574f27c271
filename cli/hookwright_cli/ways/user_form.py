"""Users of ``/v1`` as Secrets of the users' namespace.

The form is that of ``hookwright_crds.users``; a test compares the two.
"""

import base64
import hashlib
import re
from collections.abc import Mapping
from typing import Any

from hookwright_cli.command_errors import CommandError, ExitCode
from hookwright_cli.contract import user_roles

_EMAIL = re.compile(r"[^\s@\x00-\x1f\x7f]{1,64}@[^\s@\x00-\x1f\x7f]+")
_ORGANIZATION = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_MOST_CHARACTERS = 1024


def normal_address(written: str) -> str:
    """Return an email address in its normal form.

    Raises:
        CommandError: the text is not an address.
    """
    email = written.strip().lower()
    if len(email) > 254 or not _EMAIL.fullmatch(email):
        raise CommandError(f"email {written!r} must be an address such as ada@example.com", ExitCode.USAGE)
    return email


def users_namespace(installation: str) -> str:
    """Return the default namespace of the users of the installation in a namespace."""
    return f"{installation}-users"


def secret_name_of(email: str) -> str:
    """Return the name of the Secret of a user with a normal address."""
    return f"user-{hashlib.sha256(email.encode()).hexdigest()[:20]}"


def user_manifest(namespace: str, *, email: str, organization: str, password_hash: str, role: str) -> dict[str, Any]:
    """Return the Secret of a user.

    Raises:
        CommandError: the organization is not the name of a namespace, or the role is unknown.
    """
    if not _ORGANIZATION.fullmatch(organization):
        raise CommandError(f"--organization {organization!r} must be the name of a namespace", ExitCode.USAGE)
    if role not in user_roles():
        raise CommandError(f"--role {role!r} must be one of {', '.join(user_roles())}", ExitCode.USAGE)
    address = normal_address(email)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "hookwright.dev/user",
        "metadata": {
            "name": secret_name_of(address),
            "namespace": namespace,
            "labels": {"hookwright.dev/user": "true"},
        },
        "stringData": {
            "email": address,
            "organization": organization,
            "passwordHash": password_hash,
            "role": role,
        },
    }


def user_document(secret: Mapping[str, Any]) -> dict[str, Any]:
    """Return a user without the hash of the password."""
    data = secret.get("data") or {}
    read = {
        name: base64.b64decode(data[name]).decode("utf-8", "replace") if name in data else ""
        for name in ("email", "organization", "role")
    }
    return {**read, "role": read["role"] or "admin", "created_at": secret["metadata"]["creationTimestamp"]}


def hashed(password: str) -> str:
    """Return the argon2id hash of a password in the PHC string format.

    Raises:
        CommandError: the password is empty or too long.
    """
    if not 0 < len(password) <= _MOST_CHARACTERS:
        raise CommandError(f"the password must have 1 to {_MOST_CHARACTERS} characters", ExitCode.USAGE)
    from argon2 import PasswordHasher

    return PasswordHasher().hash(password)

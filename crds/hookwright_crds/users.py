"""Pure: the form of a user of the dashboard, a Secret in the users' namespace of an installation.

One user is one Secret of type ``hookwright.dev/user`` with these fields: ``email``, ``organization`` (the namespace of
the user's resources), ``passwordHash`` (argon2id in the PHC string format) and ``role``.
"""

import hashlib
import re
from enum import StrEnum
from typing import Any, Final

from hookwright_crds.base import NAME_PATTERN

USER_TYPE: Final = "hookwright.dev/user"
"""The Secret's type; API servers can filter Secrets by it."""
USER_LABEL: Final = "hookwright.dev/user"
"""A label with the value "true", by which people find users with kubectl."""
EMAIL_FIELD: Final = "email"
ORGANIZATION_FIELD: Final = "organization"
PASSWORD_HASH_FIELD: Final = "passwordHash"  # noqa: S105 - the name of a field
ROLE_FIELD: Final = "role"
MAX_EMAIL_LENGTH: Final = 254
"""RFC 5321, 4.5.3.1.3, minus the angle brackets."""
MIN_PASSWORD_LENGTH: Final = 12
"""Of passwords that users choose with ``/v1``."""
MAX_PASSWORD_LENGTH: Final = 1024

_EMAIL: Final = re.compile(r"[^\s@\x00-\x1f\x7f]{1,64}@[^\s@\x00-\x1f\x7f]+")


class UserRole(StrEnum):
    """The rights of a user; a role has the rights of the roles before it.

    A viewer reads. An editor also changes webhooks, and retries and replays deliveries. An admin also manages keys and
    projects.
    """

    VIEWER = "viewer"
    EDITOR = "editor"
    ADMIN = "admin"

    def includes(self, role: "UserRole") -> bool:
        """Return whether this role has the rights of another one."""
        order = list(UserRole)
        return order.index(self) >= order.index(role)


class UnknownRoleError(ValueError):
    """The role of a user is not known, so the user has no rights."""

    def __init__(self) -> None:
        super().__init__(f"role must be one of {', '.join(UserRole)}")


def role_of(text: str | None) -> UserRole:
    """Return the role in the field ``role``; None, which means that the field is absent, is an admin.

    Raises:
        UnknownRoleError: the field has another value.
    """
    if text is None:
        return UserRole.ADMIN
    try:
        return UserRole(text.strip())
    except ValueError:
        raise UnknownRoleError from None


def normal_email(text: str) -> str:
    """Return an address in its normal form for comparison and storage: no surrounding white space, lower case.

    Raises:
        ValueError: the text is not an email address.
    """
    email = text.strip().lower()
    if len(email) > MAX_EMAIL_LENGTH or not _EMAIL.fullmatch(email):
        raise ValueError("email must be an address such as ada@example.com")
    return email


def users_namespace(installation: str) -> str:
    """Return the default namespace of users and session keys of the installation in a namespace."""
    return f"{installation}-users"


def user_secret_name(email: str) -> str:
    """Return the name of the Secret of the user with a normal address; equal addresses have equal names."""
    return f"user-{hashlib.sha256(email.encode()).hexdigest()[:20]}"


def user_secret(
    namespace: str, *, email: str, organization: str, password_hash: str, role: UserRole = UserRole.ADMIN
) -> dict[str, Any]:
    """Return the manifest of a user's Secret.

    Raises:
        ValueError: the email is not an address, or the organization is not the name of a namespace.
    """
    if not re.fullmatch(NAME_PATTERN, organization) or len(organization) > 63 or "." in organization:
        raise ValueError(f"organization {organization!r} must be the name of a namespace")
    address = normal_email(email)
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": USER_TYPE,
        "metadata": {"name": user_secret_name(address), "namespace": namespace, "labels": {USER_LABEL: "true"}},
        "stringData": {
            EMAIL_FIELD: address,
            ORGANIZATION_FIELD: organization,
            PASSWORD_HASH_FIELD: password_hash,
            ROLE_FIELD: role.value,
        },
    }

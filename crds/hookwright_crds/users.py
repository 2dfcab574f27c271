"""Pure: the form of a user of the dashboard, a Secret in the installation's namespace.

One user is one Secret of type ``hookwright.dev/user`` with three fields: ``email``, ``organization`` (the namespace of
the user's resources) and ``passwordHash`` (argon2id in the PHC string format).
"""

import hashlib
import re
from typing import Any, Final

from hookwright_crds.base import NAME_PATTERN

USER_TYPE: Final = "hookwright.dev/user"
"""The Secret's type; API servers can filter Secrets by it."""
USER_LABEL: Final = "hookwright.dev/user"
"""A label with the value "true", by which people find users with kubectl."""
EMAIL_FIELD: Final = "email"
ORGANIZATION_FIELD: Final = "organization"
PASSWORD_HASH_FIELD: Final = "passwordHash"  # noqa: S105 - the name of a field
MAX_EMAIL_LENGTH: Final = 254
"""RFC 5321, 4.5.3.1.3, minus the angle brackets."""

_EMAIL: Final = re.compile(r"[^\s@\x00-\x1f\x7f]{1,64}@[^\s@\x00-\x1f\x7f]+")


def normal_email(written: str) -> str:
    """Return an address in its normal form for comparison and storage: no surrounding white space, lower case.

    Raises:
        ValueError: the text is not an email address.
    """
    email = written.strip().lower()
    if len(email) > MAX_EMAIL_LENGTH or not _EMAIL.fullmatch(email):
        raise ValueError("email must be an address such as ada@example.com")
    return email


def user_secret_name(email: str) -> str:
    """Return the name of the Secret of the user with a normal address; equal addresses have equal names."""
    return f"user-{hashlib.sha256(email.encode()).hexdigest()[:20]}"


def user_secret(namespace: str, *, email: str, organization: str, password_hash: str) -> dict[str, Any]:
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
        },
    }

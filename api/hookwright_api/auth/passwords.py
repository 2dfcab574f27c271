"""Passwords: argon2id (RFC 9106).

A wrong password and an unknown email cost the same work, so that the response time does not distinguish them.
"""

from typing import Final

import structlog
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from hookwright_api.view.table_records import UserRecord

log = structlog.get_logger(__name__)

# More threads would take the cores from the event loop.
_hasher: Final = PasswordHasher(parallelism=1)
_DUMMY_HASH: Final = _hasher.hash("the password of nobody")


def hash_password(password: str) -> str:
    """Return the argon2id hash of a password in the PHC string format, with its own salt."""
    return _hasher.hash(password)


def verify_password(user: UserRecord | None, password: str) -> bool:
    """Return whether a password is the user's; False, after the same work, if there is no user."""
    password_hash = user.password_hash if user else _DUMMY_HASH
    try:
        matching = _hasher.verify(password_hash, password)
    except InvalidHashError:
        # An unreadable hash must not answer faster than a wrong password.
        log.warning("passwordHash is not an argon2 hash, refusing login", secret=user.identity.name if user else None)
        verify_password(None, password)
        return False
    except VerificationError:
        return False
    return matching and user is not None

"""Passwords: argon2id (RFC 9106), verified off the event loop, a few at a time.

A wrong password and an unknown email cost the same work, so that the response time does not distinguish them.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import structlog
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from hookwright_api.view.records import UserRecord

log = structlog.get_logger(__name__)

MAX_PASSWORD_LENGTH: Final = 1024
_WORKERS: Final = 2
"""Concurrent checks: each needs 64 MiB and tens of milliseconds of a core."""
_NOBODY: Final = PasswordHasher().hash("the password of nobody")

_hasher: Final = PasswordHasher()


def hash_password(password: str) -> str:
    """Return the argon2id hash of a password in the PHC string format, with its own salt."""
    return _hasher.hash(password)


def verify_password(user: UserRecord | None, password: str) -> bool:
    """Return whether a password is the user's; False, after the same work, if there is no user."""
    kept = user.password_hash if user else _NOBODY
    try:
        matching = _hasher.verify(kept, password)
    except InvalidHashError:
        # An unreadable hash must not answer faster than a wrong password.
        log.warning("passwordHash is not an argon2 hash, refusing login", secret=user.identity.name if user else None)
        verify_password(None, password)
        return False
    except VerificationError:
        return False
    return matching and user is not None


class Passwords:
    """A verifier of passwords in threads.

    Attributes:
        turn: locked from the read of the count of failures until its increment, so that a burst of logins cannot
            pass before the first failure is counted.
    """

    def __init__(self) -> None:
        """Create the thread pool."""
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="argon2")
        self.turn = asyncio.Semaphore(_WORKERS)

    async def verify(self, user: UserRecord | None, password: str) -> bool:
        """Verify off the event loop; see `verify_password`."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, verify_password, user, password)

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

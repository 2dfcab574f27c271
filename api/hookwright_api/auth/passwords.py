"""Passwords: argon2id (RFC 9106), verified off the event loop, a few at a time.

A wrong password and an unknown email cost the same work, so that the response time does not distinguish them.
Client addresses take turns, so that wrong passwords of one address do not delay logins from another one.
"""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Final

import structlog
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from hookwright_api.view.table_records import UserRecord
from hookwright_runtime.places import Places
from hookwright_runtime.problems import ProblemError, too_many, unavailable
from hookwright_runtime.quotas import Full

log = structlog.get_logger(__name__)

MIN_PASSWORD_LENGTH: Final = 12
"""Of passwords that users choose with ``/v1``."""
MAX_PASSWORD_LENGTH: Final = 1024
_WORKERS: Final = 2
"""Concurrent checks: each needs 64 MiB and tens of milliseconds of a core."""
PASSWORDS_OF_ADDRESS: Final = 2
PASSWORDS: Final = 128
"""Passwords that are checked or wait for it: of one client address, and of all."""
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
    """A verifier of passwords in threads, at which client addresses take turns."""

    def __init__(self) -> None:
        """Create the thread pool."""
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="argon2")
        self._places = Places(_WORKERS, requests=PASSWORDS, requests_each=PASSWORDS_OF_ADDRESS, refuse=_refusal)

    @asynccontextmanager
    async def turn(self, address: str) -> AsyncIterator[None]:
        """Wait for a thread, and occupy it for a block.

        The block reads the count of failures, verifies the password and counts the failure. So a burst of logins cannot
        pass before its first failure is counted.

        Args:
            address: the client's address, as limits count it.

        Raises:
            ProblemError: 429, too many passwords of the address wait or are checked; 503, too many of all addresses.
        """
        async with self._places.hold(address):
            yield

    async def verify(self, user: UserRecord | None, password: str) -> bool:
        """Verify off the event loop; see `verify_password`."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, verify_password, user, password)

    async def hash(self, password: str) -> str:
        """Hash off the event loop; see `hash_password`."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, hash_password, password)

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _refusal(full: Full) -> ProblemError:
    if full is Full.HOLDER:
        fact = f"{PASSWORDS_OF_ADDRESS} passwords from this address are being checked"
        return too_many(f"{fact}; log in again when one is done", retry_after=1)
    return unavailable("too many passwords are being checked; log in again later")

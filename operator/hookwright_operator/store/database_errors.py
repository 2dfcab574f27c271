"""Translation of database errors into the operator's own errors."""

import sqlite3
from typing import Final

import asyncpg
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, NotSupportedError, ProgrammingError, SQLAlchemyError

from hookwright_runtime.errors import StoreError, StoreUnavailable

_ASYNCPG_ERRORS: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
DATABASE_ERRORS: Final = (SQLAlchemyError, sqlite3.Error, *_ASYNCPG_ERRORS, OSError)
"""All errors of a database: SQLAlchemy's, and the drivers' own, because frequent statements run without SQLAlchemy."""

# These errors mean that the request is wrong. All others mean that the database cannot run it now.
_REFUSALS = (
    *(IntegrityError, DataError, ProgrammingError, NotSupportedError),
    *(sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError, sqlite3.NotSupportedError),
)

# The same by class of SQLSTATE: unsupported, wrong data, integrity, wrong statement, a value that is too large for an
# index (PostgreSQL manual, appendix A).
_REFUSAL_CLASSES = ("0A", "22", "23", "42", "54")


class OutcomeUnknown(StoreUnavailable):
    """The connection was lost during COMMIT, so the transaction was committed as a whole or not at all.

    Attributes:
        result: the transaction's result if it was committed.
    """

    def __init__(self, message: str, result: object) -> None:
        super().__init__(message)
        self.result = result


def translated(error: Exception) -> Exception:
    """Translate an error of the database into a StoreError or StoreUnavailable.

    Other errors are returned unchanged.
    """
    if isinstance(error, OutcomeUnknown):
        return OutcomeUnknown(str(error), error.result)
    if isinstance(error, StoreError):
        return type(error)(*error.args)
    if isinstance(error, _REFUSALS) or sqlstate(error).startswith(_REFUSAL_CLASSES):
        return StoreError(f"the store refused a transaction: {cause(error)}")
    if isinstance(error, DATABASE_ERRORS):
        return StoreUnavailable(f"the store cannot be used right now: {cause(error)}")
    return error


def cause(error: Exception) -> str:
    """Return the driver's message; SQLAlchemy would add the statement, and asyncpg details with values of the rows."""
    origin = error.orig if isinstance(error, DBAPIError) else error
    message = origin.args[0] if isinstance(origin, asyncpg.PostgresError) else origin
    return str(message) or type(origin).__name__


def sqlstate(error: BaseException) -> str:
    """Return PostgreSQL's error code, or an empty text if the error has none."""
    return str(getattr(getattr(error, "orig", error), "sqlstate", None) or "")

"""Pure: what went wrong in a transaction, as one of the operator's own errors."""

import sqlite3

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, NotSupportedError, ProgrammingError, SQLAlchemyError

from hookwright_operator.errors import StoreError, StoreUnavailable

# These say that what was asked is wrong; all others, that the database cannot do it now.
_REFUSED = (
    *(IntegrityError, DataError, ProgrammingError, NotSupportedError),
    *(sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError, sqlite3.NotSupportedError),
)

# The same by class of SQLSTATE: unsupported, wrong data, integrity, wrong statement (PostgreSQL manual, appendix A).
_REFUSED_CLASSES = ("0A", "22", "23", "42")


class OutcomeUnknown(StoreUnavailable):
    """The connection was lost while a transaction was committed: it may have been, as a whole, or not.

    Attributes:
        result: what comes of it if it was.
    """

    def __init__(self, message: str, result: object) -> None:
        super().__init__(message)
        self.result = result


def translated(error: Exception) -> Exception:
    """Return the StoreError or StoreUnavailable that an error of the database comes to.

    An error that has nothing to do with the database is returned as it is.
    """
    if isinstance(error, OutcomeUnknown):
        return OutcomeUnknown(str(error), error.result)
    if isinstance(error, StoreError):
        return type(error)(*error.args)
    if isinstance(error, _REFUSED) or sqlstate(error).startswith(_REFUSED_CLASSES):
        return StoreError(f"the store refused a transaction: {cause(error)}")
    if isinstance(error, SQLAlchemyError | sqlite3.Error | OSError):
        return StoreUnavailable(f"the store cannot be used right now: {cause(error)}")
    return error


def cause(error: Exception) -> str:
    """Return the driver's own words; SQLAlchemy's would add the statement."""
    origin = error.orig if isinstance(error, DBAPIError) else error
    return str(origin) or type(origin).__name__


def sqlstate(error: Exception) -> str:
    """Return the code with which PostgreSQL refused, empty where it did not answer."""
    return str(getattr(getattr(error, "orig", error), "sqlstate", None) or "")

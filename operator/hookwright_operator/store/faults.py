"""Pure: what went wrong in a transaction, as one of the operator's own errors."""

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, NotSupportedError, ProgrammingError, SQLAlchemyError

from hookwright_operator.errors import StoreError, StoreUnavailable

# These say that what was asked is wrong; all others, that the database cannot do it now.
_REFUSED = (IntegrityError, DataError, ProgrammingError, NotSupportedError)


def translated(error: Exception) -> Exception:
    """Return the StoreError or StoreUnavailable that an error of the database comes to.

    An error that has nothing to do with the database is returned as it is.
    """
    if isinstance(error, StoreError):
        return type(error)(*error.args)
    if isinstance(error, _REFUSED):
        return StoreError(f"the store refused a transaction: {cause(error)}")
    if isinstance(error, SQLAlchemyError | OSError):
        return StoreUnavailable(f"the store cannot be used right now: {cause(error)}")
    return error


def cause(error: Exception) -> str:
    """Return the driver's own words; SQLAlchemy's would add the statement."""
    origin = error.orig if isinstance(error, DBAPIError) else error
    return str(origin) or type(origin).__name__

"""Fast execution of the statements that run for every event.

SQLAlchemy compiles all statements. Running a statement through SQLAlchemy takes as long as SQLite itself, and it holds
Python's global lock, which the event loop needs. So on SQLite the driver runs these statements directly.

The driver releases and reacquires the lock twice per statement, and may wait for it each time. So `Steps` combines
statements into one. Measured with 8 events and 8 results in a transaction: 139 µs of CPU per delivery through
SQLAlchemy, 75 µs through the driver, and 65 µs with `Steps`.

The event loop waits during a short transaction, so the lock is free then. A few rows therefore run fastest one by one
(`Each`): 16 events and 16 results take a quarter less time.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from functools import cache
from typing import Any, Final, NamedTuple, Protocol, cast

from sqlalchemy import Connection, Executable, Insert
from sqlalchemy.dialects.sqlite import dialect
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler

FEW: Final = 32
"""How many rows run one by one. With more rows, the event loop would run again and need the lock."""


class Rows(Protocol):
    """The result of a statement: its rows, each a tuple, or how many rows it has changed."""

    @property
    def rowcount(self) -> int: ...  # noqa: D102
    def __iter__(self) -> Iterator[Any]: ...


def run(connection: Connection, statement: Executable, parameters: Mapping[str, object]) -> Rows:
    """Run a statement that exists once in the process, with parameters of types that the driver accepts."""
    if connection.dialect.name != "sqlite":
        return connection.execute(statement, parameters)
    spelled = _spelled(statement)
    values = [parameters.get(name, spelled.constants[name]) for name in spelled.names]
    return driver_of(connection).execute(spelled.sql, values)


def driver_of(connection: Connection) -> sqlite3.Connection:
    """Return the driver's connection behind one of SQLAlchemy's."""
    return cast("sqlite3.Connection", connection.connection.driver_connection)


class Steps:
    """Statements that write and run one after the other.

    On SQLite they are the trigger of a temporary view, which exists until the connection ends. One row that is inserted
    into the view contains the parameters.

    Args:
        name: the name of the view.
        statements: the statements to run. A parameter has the same value in all of them.
    """

    def __init__(self, name: str, *statements: Executable) -> None:
        self._name = name
        self._statements = [(statement, _parameters(statement)) for statement in statements]
        columns = list(dict.fromkeys(column for _, names in self._statements for column in names))
        bodies = "; ".join(str(_compiled(statement, _IN_TRIGGER)) for statement in statements)
        self._make = (
            f"CREATE TEMP VIEW IF NOT EXISTS {name} AS SELECT {', '.join(f'NULL AS {column}' for column in columns)}",
            f"CREATE TEMP TRIGGER IF NOT EXISTS {name}_steps INSTEAD OF INSERT ON {name} BEGIN {bodies}; END",
        )
        self._columns = columns
        self._insert = f"INSERT INTO {name} VALUES ({', '.join('?' for _ in columns)})"  # noqa: S608 - only constants

    def run(self, connection: Connection, parameters: Mapping[str, object]) -> None:
        """Run the statements in a transaction; the driver must accept the parameters' types."""
        if connection.dialect.name != "sqlite":
            for statement, names in self._statements:
                connection.execute(statement, {name: parameters[name] for name in names})
            return
        driver = driver_of(connection)
        if self._name not in connection.info:
            for definition in self._make:
                driver.execute(definition)
            # A rollback clears this flag, because it may remove the view too.
            connection.info[self._name] = True
        driver.execute(self._insert, [parameters[column] for column in self._columns])


class Each:
    """A statement that runs for one row at a time, on SQLite only; for a few rows, each row costs a third less.

    Args:
        statement: the statement to run.
        fields: the names of its parameters, in the order of a row's values.
    """

    def __init__(self, statement: Executable, *fields: str) -> None:
        # Without inline(), SQLAlchemy adds RETURNING for a computed key, and the driver runs no second row before the
        # result is read.
        whole = statement.inline() if isinstance(statement, Insert) else statement
        self._sql = str(_compiled(whole, _spelling(lambda name: f"?{1 + fields.index(name)}")))

    def run(self, connection: Connection, rows: Sequence[Sequence[object]]) -> int:
        """Run the statement for each row, and return how many rows of the database have changed."""
        return driver_of(connection).executemany(self._sql, rows).rowcount

    def change(self, connection: Connection, row: Sequence[object]) -> bool:
        """Run the statement for one row, and return whether a row has changed."""
        return driver_of(connection).execute(self._sql, row).rowcount > 0


def few(connection: Connection, rows: Sized) -> bool:
    """Return whether rows run fastest one by one."""
    return connection.dialect.name == "sqlite" and len(rows) <= FEW


def _spelling(parameter: Callable[[str], str]) -> Any:
    """Return a dialect that spells parameters with a function, and constants as literals."""

    class Spelling(SQLiteCompiler):
        def visit_bindparam(self, bindparam: Any, *_: Any, **__: Any) -> str:
            """Spell a parameter or a constant."""
            if bindparam.required:
                return parameter(bindparam.key)
            constant: str = self.render_literal_bindparam(bindparam)  # type: ignore[no-untyped-call]
            return constant

    spelled = dialect()
    spelled.statement_compiler = Spelling
    return spelled


class _Spelled(NamedTuple):
    """A statement in SQLite's form.

    Attributes:
        names: the parameters, one for each question mark.
        constants: the values of parameters that are part of the statement; None for all others.
    """

    sql: str
    names: tuple[str, ...]
    constants: Mapping[str, object]


_SQLITE: Final = dialect(paramstyle="qmark")
_IN_TRIGGER: Final = _spelling("NEW.{}".format)


@cache
def _spelled(statement: Executable) -> _Spelled:
    compiled = _compiled(statement, _SQLITE)
    return _Spelled(str(compiled), tuple(compiled.positiontup), compiled.params)


def _parameters(statement: Executable) -> tuple[str, ...]:
    compiled = _compiled(statement, _SQLITE)
    names = dict.fromkeys(compiled.positiontup)
    return tuple(name for name in names if compiled.binds[name].required)


def _compiled(statement: Executable, spelling: Any) -> Any:
    return cast("Any", statement).compile(dialect=spelling)


def has_company(connection: Connection) -> bool:
    """Return whether other transactions may write during this one."""
    return connection.dialect.name != "sqlite"

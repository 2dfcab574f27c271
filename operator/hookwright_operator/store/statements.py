"""Running statements that are run for every event.

SQLAlchemy, which spells all statements, takes as long over running one as SQLite itself, and holds Python's global lock
meanwhile, which the event loop wants. So on SQLite the driver runs these. It gives the lock up and takes it back twice
a statement, and has to wait for it each time; so statements that belong together are a single one to it. Measured with
8 events and 8 results in a transaction: 139 µs of CPU a delivery through SQLAlchemy, 75 through the driver, and 65 with
`Steps`. Since the event loop stands still beside a short transaction, the lock is there for the taking, and a few rows
are best run one by one (`Each`): 16 events and 16 results take a quarter less time.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from functools import cache
from typing import Any, Final, NamedTuple, Protocol, cast

from sqlalchemy import Connection, Executable, Insert
from sqlalchemy.dialects.sqlite import dialect
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler

FEW: Final = 32
"""How many rows are run one by one; with more, the loop would long be at work again and want the lock."""


class Rows(Protocol):
    """What a statement came to: its rows, each a tuple, or how many it has changed."""

    @property
    def rowcount(self) -> int: ...  # noqa: D102
    def __iter__(self) -> Iterator[Any]: ...


def run(connection: Connection, statement: Executable, parameters: Mapping[str, object]) -> Rows:
    """Run a statement, made once for the whole process, with parameters that the driver takes as they are."""
    if connection.dialect.name != "sqlite":
        return connection.execute(statement, parameters)
    spelled = _spelled(statement)
    values = [parameters.get(name, spelled.constants[name]) for name in spelled.names]
    return driver_of(connection).execute(spelled.sql, values)


def driver_of(connection: Connection) -> sqlite3.Connection:
    """Return SQLite's own connection behind one of SQLAlchemy's."""
    return cast("sqlite3.Connection", connection.connection.driver_connection)


class Steps:
    """Statements that change something, to be run one after the other.

    On SQLite they are the trigger of a view, both of which the connection alone knows and forgets at its end: a row
    that is inserted into the view has the parameters.

    Args:
        name: of the view.
        statements: what to run. A parameter of one name has one value for all of them.
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
        self._insert = f"INSERT INTO {name} VALUES ({', '.join('?' for _ in columns)})"  # noqa: S608 - our own name

    def run(self, connection: Connection, parameters: Mapping[str, object]) -> None:
        """Run the statements, in a transaction; the driver takes the parameters as they are."""
        if connection.dialect.name != "sqlite":
            for statement, names in self._statements:
                connection.execute(statement, {name: parameters[name] for name in names})
            return
        driver = driver_of(connection)
        if self._name not in connection.info:
            for definition in self._make:
                driver.execute(definition)
            # Whoever rolls the transaction back clears this, for the view may go with it.
            connection.info[self._name] = True
        driver.execute(self._insert, [parameters[column] for column in self._columns])


class Each:
    """A statement for one row at a time, on SQLite alone; of a few rows, each costs a third less so.

    Args:
        statement: what to run.
        fields: the names of its parameters, in the order of a row's values.
    """

    def __init__(self, statement: Executable, *fields: str) -> None:
        # SQLAlchemy would have a key that is computed returned, and the driver run no second row before that is read.
        whole = statement.inline() if isinstance(statement, Insert) else statement
        self._sql = str(_compiled(whole, _spelling(lambda name: f"?{1 + fields.index(name)}")))

    def run(self, connection: Connection, rows: Sequence[Sequence[object]]) -> int:
        """Run it for each row, and return how many rows of the database have changed."""
        return driver_of(connection).executemany(self._sql, rows).rowcount

    def change(self, connection: Connection, row: Sequence[object]) -> bool:
        """Run it for one row, and return whether anything has changed."""
        return driver_of(connection).execute(self._sql, row).rowcount > 0


def few(connection: Connection, rows: Sized) -> bool:
    """Whether rows are best run one by one."""
    return connection.dialect.name == "sqlite" and len(rows) <= FEW


def _spelling(parameter: Callable[[str], str]) -> Any:
    """Have parameters spelled by their names, and constants as they are."""

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
    """A statement as SQLite takes it.

    Attributes:
        names: of the parameters, one for each question mark.
        constants: the values of those that are part of the statement; None for all others.
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

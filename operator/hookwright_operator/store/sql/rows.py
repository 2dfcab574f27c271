"""Many rows as one parameter.

A statement takes its rows as one JSON array of arrays and processes them in a single step of the database. Binding row
by row costs the database no more. But the driver releases and reacquires Python's global lock at each row. Beside a
busy event loop, a transaction spends most of its time waiting for this lock: 64 rows took 3 times as long.
"""

from collections.abc import Iterable, Sequence

from pydantic_core import to_json
from sqlalchemy import (
    BigInteger,
    ColumnElement,
    FromClause,
    Integer,
    Subquery,
    Text,
    bindparam,
    column,
    literal_column,
    select,
    true,
    type_coerce,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from hookwright_operator.store.sql.dialect import DIALECTS

Value = str | int | None


class _Elements(FunctionElement[str]):
    """A table with one row for each element of a JSON array, in the column ``value``."""

    name = "elements"
    inherit_cache = True


class _Field(FunctionElement[Value]):
    """The value at a position of a JSON array, cast to a type."""

    name = "field"
    inherit_cache = True


@compiles(_Elements)
def _compile_elements(element: _Elements, compiler: SQLCompiler, **options: object) -> str:
    return DIALECTS[compiler.dialect.name].elements.format(array=compiler.process(element.clauses, **options))


@compiles(_Field)
def _compile_field(element: _Field, compiler: SQLCompiler, **options: object) -> str:
    array, position, kind = [compiler.process(clause, **options) for clause in element.clauses]
    return DIALECTS[compiler.dialect.name].field.format(array=array, position=position, kind=kind)


def rows(parameter: str = "rows", /, **fields: type[Text] | type[Integer]) -> Subquery:
    """Build a table from one parameter, for SELECT and JOIN.

    Args:
        parameter: the name under which the statement takes the result of `packed`.
        fields: the columns, in the order of each row's values.
    """
    source = _Elements(bindparam(parameter, type_=Text)).table_valued(column("value", Text), name=f"{parameter}_json")
    columns = []
    for position, (name, kind) in enumerate(fields.items()):
        field = _Field(source.c.value, literal_column(str(position)), literal_column(_NAMES[kind]))
        columns.append(type_coerce(field, kind()).label(name))
    return select(*columns).subquery(parameter)


def among(column: ColumnElement[str], ids: FromClause) -> ColumnElement[bool]:
    """Return whether a column has one of many ids. Another condition has chosen the rows, which may be many too.

    PostgreSQL hashes the ids once, because IS TRUE prevents a join. A join would compare each row with each id, or read
    all rows of the ids through an index.
    """
    return column.in_(select(*ids.c)).is_(true())


_NAMES: dict[type[Text] | type[Integer], str] = {Text: "TEXT", Integer: "INTEGER", BigInteger: "BIGINT"}


def packed(values: Iterable[Sequence[Value]]) -> str:
    """Encode rows as the parameter of a statement that uses `rows`."""
    return to_json(list(values)).decode()


def packed_column(values: Iterable[Value]) -> str:
    """Encode rows of one column as the parameter of a statement that uses `rows`."""
    return packed([(value,) for value in values])


def storable(text: str) -> bool:
    """Return whether every database can store the text unchanged: no U+0000, no lone surrogates."""
    return text.isprintable() or plain(text) == text


def plain(text: str) -> str:
    """Return the text with a question mark for each character that a database cannot store: U+0000, lone surrogates."""
    return text.encode("utf-8", "replace").decode().replace("\0", "?")

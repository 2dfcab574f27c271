"""Pure: many rows as one parameter.

A statement takes its rows as one JSON array of arrays and works through them in a single step of the database. Binding
row by row would do as well for the database, but the driver gives up and takes back Python's global lock at each row,
and beside a busy event loop that waiting, not the work, is what a transaction costs: 64 rows took 3 times as long.
"""

import json
from collections.abc import Iterable, Sequence

from sqlalchemy import Subquery, Text, bindparam, column, literal_column, select, type_coerce
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

Value = str | int | None

_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


class _Each(FunctionElement[str]):
    """A table with one row for each element of a JSON array, in the column ``value``."""

    name = "each_row"
    inherit_cache = True


class _Field(FunctionElement[Value]):
    """The value at a position of a JSON array."""

    name = "field"
    inherit_cache = True


# Other engines register their own spelling beside these two; nothing else in the package knows how rows travel.
@compiles(_Each, "sqlite")
def _each_on_sqlite(element: _Each, compiler: SQLCompiler, **options: object) -> str:
    return f"json_each({compiler.process(element.clauses, **options)})"


@compiles(_Field, "sqlite")
def _field_on_sqlite(element: _Field, compiler: SQLCompiler, **options: object) -> str:
    array, position = element.clauses
    return f"json_extract({compiler.process(array, **options)}, '$[{compiler.process(position, **options)}]')"


def rows(parameter: str = "rows", /, **fields: type[TypeEngine[str]] | type[TypeEngine[int]]) -> Subquery:
    """A table made of one parameter, to select from and join with.

    Args:
        parameter: the name under which the statement takes what `packed` returns.
        fields: the columns, in the order of each row's values.
    """
    source = _Each(bindparam(parameter, type_=Text)).table_valued(column("value", Text), name=f"{parameter}_json")
    columns = []
    for position, (name, kind) in enumerate(fields.items()):
        field = _Field(source.c.value, literal_column(str(position)))
        columns.append(type_coerce(field, kind()).label(name))
    return select(*columns).subquery(parameter)


def packed(values: Iterable[Sequence[Value]]) -> str:
    """The rows as the parameter of a statement that is built on `rows`."""
    return _encode(list(values))


def storable(text: str) -> bool:
    """Whether every engine keeps the text as it is: no U+0000, no lone surrogates."""
    return text.isprintable() or plain(text) == text


def plain(text: str) -> str:
    """The text with a question mark in place of what no database keeps: U+0000 and lone surrogates."""
    return text.encode("utf-8", "replace").decode().replace("\0", "?")

"""Rows into PostgreSQL by COPY, which takes a fraction of the time of a statement for each row.

    insert    COPY into the table
    upsert    COPY into a temporary table of the same columns, then one INSERT ... SELECT ... ON CONFLICT

COPY takes the text of each value, where a statement has parameters with types. What it does not take, such as 1.5 for a
column of whole numbers, and where it is not allowed (row-level security, no right to temporary tables), statements
decide: `copied` undoes what it has begun, and says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

ROWS_MIN = 20  # for fewer, the copy costs more round trips than it saves
_LEFT_TO_STATEMENTS = (exc.DataError, exc.ProgrammingError, exc.NotSupportedError)


def can_copy(connection: sa.Connection) -> bool:
    """Return True for PostgreSQL by psycopg 3."""
    return connection.dialect.name == "postgresql" and connection.dialect.driver == "psycopg"


def copied(connection: sa.Connection, table: sa.Table, keys: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> bool:
    """Insert rows, or upsert them by key; return False, and change nothing, if statements have to do it.

    Args:
        keys: columns of which each combination is in `rows` once; () inserts.
        rows: at least one; all with the same columns.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: the database is away, or a row violates a constraint.
    """
    names = list(rows[0])
    target = ".".join(_quoted(part) for part in (table.schema, table.name) if part)
    try:
        with connection.begin_nested(), _cursor(connection) as cursor:
            if keys:
                staging = _staging(cursor, target, names)
                _copy(cursor, staging, names, rows)
                cursor.execute(_merge(target, staging, names, keys))
            else:
                _copy(cursor, target, names, rows)
    except _LEFT_TO_STATEMENTS:
        return False
    return True


@contextmanager
def _cursor(connection: sa.Connection) -> Iterator[Any]:
    """Yield a cursor of psycopg, whose errors become SQLAlchemy's."""
    raw: Any = connection.connection
    errors = connection.dialect.loaded_dbapi.Error
    try:
        with raw.cursor() as cursor:
            yield cursor
    except errors as error:
        raise exc.DBAPIError.instance(
            "COPY", None, error, errors, connection_invalidated=raw.closed, dialect=connection.dialect
        ) from error


def _staging(cursor: Any, target: str, names: Sequence[str]) -> str:
    """Return an empty temporary table with these columns. It stays with the connection, for the next batch."""
    columns = _quoted(*names)
    name = "odradek_" + hashlib.sha256(f"{target}({columns})".encode()).hexdigest()[:24]
    selected = f"SELECT {columns} FROM {target} WITH NO DATA"  # noqa: S608
    cursor.execute(f"CREATE TEMPORARY TABLE IF NOT EXISTS {name} ON COMMIT DELETE ROWS AS {selected}")
    cursor.execute(f"TRUNCATE pg_temp.{name}")  # another batch of the same transaction may have used it
    return f"pg_temp.{name}"


def _copy(cursor: Any, table: str, names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    with cursor.copy(f"COPY {table} ({_quoted(*names)}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(list(row.values()))


def _merge(target: str, staging: str, names: Sequence[str], keys: Sequence[str]) -> str:
    columns = _quoted(*names)
    others = [_quoted(name) for name in names if name not in keys]
    action = "UPDATE SET " + ", ".join(f"{name} = excluded.{name}" for name in others) if others else "NOTHING"
    insert = f"INSERT INTO {target} ({columns}) SELECT {columns} FROM {staging}"  # noqa: S608
    return f"{insert} ON CONFLICT ({_quoted(*keys)}) DO {action}"


def _quoted(*names: str) -> str:
    return ", ".join('"' + name.replace('"', '""') + '"' for name in names)

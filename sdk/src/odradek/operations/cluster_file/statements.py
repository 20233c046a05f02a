"""Stream SQL of cluster files: statements that define something, by what they define.

    stream/ORDERS, table/TOTALS    CREATE STREAM | TABLE, with columns or AS SELECT
    type/ADDRESS                   CREATE TYPE
    insert/ORDERS/SELECT ...       INSERT INTO ... SELECT: as it is, since it has no name

Two statements are the same if they parse to the same: neither blanks nor comments nor OR REPLACE make a difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from odradek.errors import ErrorCode, KafkaError
from odradek.extras import extra

_REPLACING = re.compile(r"^CREATE\s+(?:OR\s+REPLACE\s+)?", re.IGNORECASE)
_LENIENT = re.compile(
    r"^(CREATE\s+OR\s+REPLACE\s+(?:SOURCE\s+)?(?:STREAM|TABLE)\s+)IF\s+NOT\s+EXISTS\s+", re.IGNORECASE
)


def defining_statements(script: str) -> list[str]:
    """Return the statements of a script, each of which defines something. Raises KafkaError with line and column."""
    with extra("sql"):
        from odradek.sql.position import SqlError
        from odradek.sql.server.statements import statements_of
        from odradek.sql.syntax import Create, CreateType, InsertSelect
    try:
        parsed = statements_of(script, {}, substitutes=False)
    except SqlError as error:
        located = error.located(script)
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(located).partition(": ")[2]) from None
    for statement, text in parsed:
        if not isinstance(statement, Create | CreateType | InsertSelect) or (
            isinstance(statement, CreateType) and statement.type is None
        ):
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"{' '.join(text.split())[:60]!r} defines nothing: use CREATE STREAM, CREATE TABLE, CREATE TYPE and "
                "INSERT INTO ... SELECT; connectors have a section of their own",
            )
    return [text for _, text in parsed]


def by_definition(statements: Iterable[str]) -> dict[str, str]:
    """Return statements by what they define. Raises KafkaError(INVALID_CONFIG) for two of the same."""
    by_name: dict[str, str] = {}
    for text in statements:
        name = defined(text)
        if name in by_name:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"sql: two statements define {title(name)}")
        by_name[name] = text
    return by_name


def defined(text: str) -> str:
    """Return what a statement defines: "stream/ORDERS"."""
    statement = _parsed(text)
    kind = getattr(statement, "kind", "")
    if kind:
        return f"{kind.lower()}/{statement.name.text}"
    if hasattr(statement, "target"):
        return f"insert/{statement.target.text}/{' '.join(text.split())}"
    return f"type/{statement.name.text}"


def title(name: str) -> str:
    """Return what `defined` returned, for people: "stream ORDERS"."""
    kind, _, what = name.partition("/")
    return f"insert into {what.partition('/')[0]}" if kind == "insert" else f"{kind} {what}"


def same(one: str, other: str) -> bool:
    """Return True if two statements define the same in the same way."""
    return bool(_plain(_parsed(one)) == _plain(_parsed(other)))


def replacing(text: str) -> str:
    """Return CREATE STREAM | TABLE as CREATE OR REPLACE."""
    return _LENIENT.sub(r"\1", _REPLACING.sub("CREATE OR REPLACE ", text, count=1))


def in_order(statements: Mapping[str, str]) -> list[str]:
    """Return the names of statements, each after those whose streams, tables and types it uses."""
    makers = {name.partition("/")[2]: name for name in statements if not name.startswith("insert/")}
    ordered: dict[str, None] = {}

    def add(name: str, above: tuple[str, ...]) -> None:
        if name in ordered or name in above:
            return
        for used in sorted(set(_names(_parsed(statements[name]))) & makers.keys()):
            add(makers[used], (*above, name))
        ordered[name] = None

    for name in sorted(statements, key=lambda defined_name: defined_name.startswith("insert/")):
        add(name, ())
    return list(ordered)


def _parsed(text: str) -> Any:
    from odradek.sql.parse import parse

    return parse(text, substitutes=False)[0]


def _plain(statement: Any) -> Any:
    """Return a statement without OR REPLACE and IF NOT EXISTS."""
    if hasattr(statement, "or_replace"):
        return replace(statement, or_replace=False, if_not_exists=False)
    return replace(statement, is_lenient=False) if hasattr(statement, "is_lenient") else statement


def _names(node: Any) -> Iterator[str]:
    """Yield every name in a parsed statement: those of types, too."""
    from odradek.sql.syntax import Name, TypeName

    if isinstance(node, Name):
        yield node.text
    elif isinstance(node, tuple):
        for part in node:
            yield from _names(part)
    elif is_dataclass(node):
        if isinstance(node, TypeName):
            yield node.name
        for field in fields(node):
            yield from _names(getattr(node, field.name))

"""The type of a statement and its names, by DuckDB's own parser, in a database that has and reaches nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from odradek.errors import ErrorCode, KafkaError

_READS = ("SELECT", "EXPLAIN", "MULTI")  # MULTI: PIVOT
_ANY_COLUMN = frozenset({"STAR", "PIVOT", "SHOW_REF", "TABLE_FUNCTION"})  # parts that may use what is not named
_IDENTIFIER = re.compile(r'"((?:[^"]|"")*)"|(\w+)')


@dataclass(frozen=True, slots=True)
class Analysis:
    """A statement as analysed before it runs.

    Attributes:
        tables: names that it reads and does not itself define; None for a statement of which DuckDB does not say it.
        columns: every column or alias that it may use, in lower case; None if it may use others.
    """

    tables: frozenset[str] | None
    columns: frozenset[str] | None


def new_connection() -> Any:
    """Open a DuckDB that keeps nothing, installs nothing and sees none of this process's variables."""
    import duckdb

    connection = duckdb.connect(
        config={
            "python_enable_replacements": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
    )
    connection.execute("SET TimeZone = 'UTC'")
    return connection


@cache
def _analyst() -> Any:
    """One for the whole process: to open a DuckDB takes longer than to analyse a statement."""
    connection = new_connection()
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return connection


def analyse(text: str, *, allow_files: bool) -> Analysis:
    """Return what a statement names.

    Raises KafkaError(INVALID_REQUEST) unless it is one that reads (or, with `allow_files`, writes a file); duckdb.Error
    for one that does not parse.
    """
    with _analyst().cursor() as cursor:
        statements = cursor.extract_statements(text)
        if len(statements) != 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"give one statement, not {len(statements)}")
        kind = statements[0].type.name
        if kind not in _READS and not (kind == "COPY" and allow_files):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"{kind} is not a query: topics are read by SELECT. Records are written with `odradek produce`, topics "
                "created with `odradek topics create`",
            )
        columns = _columns(cursor, text)
        try:
            found = frozenset(cursor.get_table_names(text, qualified=False))
        except Exception:  # it wants the columns of tables, or another kind of statement; a wrong one fails later
            found = frozenset()
    return Analysis(found or None, columns)  # none of DESCRIBE, SUMMARIZE, PIVOT


def identifiers(text: str) -> set[str]:
    """Return all words of a text that may be names."""
    return {(inside.replace('""', '"') or word) for inside, word in _IDENTIFIER.findall(text)}


def _columns(cursor: Any, text: str) -> frozenset[str] | None:
    [tree] = cursor.execute("SELECT json_serialize_sql(?)", [text]).fetchone()
    parsed = json.loads(tree)
    if parsed["error"]:  # not a SELECT
        return None
    found: set[str] = set()
    for node in _nodes(parsed["statements"]):
        if (
            node.get("type") in _ANY_COLUMN
            or node.get("class") in _ANY_COLUMN
            or node.get("ref_type") == "NATURAL"
            or node.get("column_name_alias")  # names by position
        ):
            return None
        if node.get("class") == "COLUMN_REF":
            found.update(node["column_names"])
        found.update(node.get("using_columns") or ())
    return frozenset(name.lower() for name in found)


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    ahead = [tree]
    while ahead:
        node = ahead.pop()
        if isinstance(node, dict):
            yield node
            ahead += node.values()
        elif isinstance(node, list):
            ahead += node

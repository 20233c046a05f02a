"""Rows of /inserts-stream: JSON objects -> records of a stream, written in lots and acknowledged in order."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from odradek.sql.catalog import Catalog, Source
from odradek.sql.inputs import plan_input
from odradek.sql.plan import QueryPlan
from odradek.sql.planning.sinks import sink_of, topic_of
from odradek.sql.server.errors import BAD_STATEMENT, RestError
from odradek.sql.types import SqlType, quote

_INT_BITS = {"INT": 32, "BIGINT": 64}
_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


class RowWriter:
    """Checks rows of one stream or table, and plans how they are written.

    Raises:
        RestError: the target cannot be written to.
    """

    def __init__(self, catalog: Catalog, target: str) -> None:
        quoted = len(target) > 2 and target[0] == target[-1] and target[0] in '`"'
        name = target[1:-1] if quoted else target.upper()
        source = catalog.sources.get(name)
        if source is None:
            raise RestError(BAD_STATEMENT, f"unknown stream or table {name}")
        if source.is_readonly or source.window:
            what = "read only" if source.is_readonly else "windowed"
            raise RestError(BAD_STATEMENT, f"{name} is {what}: nothing can be inserted into it")
        self._source = source
        self._columns = {each.name: each.type for each in source.columns if not each.is_header}
        self.plan = _plan(source)

    def document(self, row: Any) -> bytes:
        """Return a row as the plan reads it. Raises RestError for a row that does not match the columns."""
        if not isinstance(row, dict):
            raise RestError(BAD_STATEMENT, "a row must be a JSON object")
        given = {(name[1:-1] if name[:1] == name[-1:] == "`" else name.upper()): value for name, value in row.items()}
        unknown = sorted(set(given) - set(self._columns))
        if unknown:
            raise RestError(BAD_STATEMENT, f"{self._source.name} has no column {unknown[0]}")
        for each in self._source.keys if self._source.kind == "TABLE" else ():
            if given.get(each.name) is None:
                raise RestError(BAD_STATEMENT, f"a row of table {self._source.name} needs its key {each.name}")
        for name, value in given.items():
            if not _fits(value, self._columns[name]):
                raise RestError(BAD_STATEMENT, f"{name} is {self._columns[name]}, not {json.dumps(value, default=str)}")
        return json.dumps(given, default=_exact, ensure_ascii=False).encode()


def _exact(value: Any) -> Any:
    return str(value) if isinstance(value, Decimal) else None


def _plan(source: Source) -> QueryPlan:
    """Return a plan that reads all columns from a JSON value and writes them as the source has them."""
    plain = [replace(each, is_key=False, in_value=True) for each in source.columns if not each.is_header]
    given = replace(
        source, kind="STREAM", columns=tuple(plain), key_format="NONE", value_format="JSON", wrapped=True, timestamp=""
    )
    read = plan_input(given, 1, "batch", None)
    names = ", ".join(quote(each.name) for each in plain)
    sql = f"SELECT {names}, __time FROM input_1"
    sink = sink_of(source, None, source, topic_of(source, ""))
    shown = tuple((each.name, str(each.type)) for each in plain)
    return QueryPlan("INSERTS_STREAM", "batch", (read,), sql, shown, sink=sink)


def _fits(value: Any, kind: SqlType) -> bool:
    if value is None:
        return True
    if kind.name in _INT_BITS:
        limit = 1 << (_INT_BITS[kind.name] - 1)
        return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
    if kind.name == "DECIMAL" and isinstance(value, str):  # as ksqlDB's Java client sends them
        return _DECIMAL.fullmatch(value) is not None
    if kind.name in ("DOUBLE", "DECIMAL"):
        return isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    if kind.name == "BOOLEAN":
        return isinstance(value, bool)
    if kind.is_time:
        return isinstance(value, str | int) and not isinstance(value, bool)
    if kind.name == "ARRAY":
        return isinstance(value, list) and all(_fits(each, kind.inner[0]) for each in value)
    if kind.name == "MAP":
        return isinstance(value, Mapping) and all(_fits(each, kind.inner[1]) for each in value.values())
    if kind.name == "STRUCT":
        fields = {name.upper(): each for name, each in zip(kind.fields, kind.inner, strict=True)}
        return isinstance(value, Mapping) and all(
            name.upper() in fields and _fits(each, fields[name.upper()]) for name, each in value.items()
        )
    return isinstance(value, str)

"""The bodies of answers to queries, in the content types that a request may ask for.

application/vnd.ksqlapi.delimited.v1    a line with names and types, then a line a row: [1, "a"]
application/json                        the same as one JSON array
application/vnd.ksql.v1+json            [{"header": {...}}, {"row": {"columns": [1, "a"]}}, ...]
application/vnd.ksql.v1+protobuf        the same with each row as a Protobuf message (protobuf_rows.py)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from odradek.errors import KafkaError
from odradek.sql.plan import Selected
from odradek.sql.running.printed import Printer
from odradek.sql.server.entities import Json, row_value, schema, text_of, type_name
from odradek.sql.server.errors import NOT_ACCEPTABLE, RestError, refused
from odradek.sql.server.protobuf_rows import ProtobufRows
from odradek.sql.session import Row, Tombstone
from odradek.sql.types import SqlType

DELIMITED = "application/vnd.ksqlapi.delimited.v1"
JSON = "application/json"
KSQL_V1 = "application/vnd.ksql.v1+json"
PROTOBUF = "application/vnd.ksql.v1+protobuf"
_ANY = ("*/*", "application/*", "")
_LAST = ('{"finalMessage":', '{"errorMessage":')  # how the last object of a push query begins


def chosen(accept: str, offered: Sequence[str]) -> str:
    """Return the content type of an answer. Raises RestError(NOT_ACCEPTABLE).

    Args:
        accept: the header Accept; empty if there is none.
        offered: the types that there are; the first is the default.
    """
    wanted: list[tuple[float, str]] = []
    for part in accept.split(","):
        name, _, more = part.partition(";")
        quality = 1.0
        for parameter in more.split(";"):
            key, _, value = parameter.strip().partition("=")
            if key == "q":
                try:
                    quality = float(value)
                except ValueError:
                    quality = 0.0
        wanted.append((quality, name.strip().lower()))
    for quality, name in sorted(wanted, key=lambda each: -each[0]):
        if quality > 0 and (name in _ANY or name in offered):
            return offered[0] if name in _ANY else name
    raise RestError(NOT_ACCEPTABLE, f"this endpoint offers {', '.join(offered)}, not {accept}")


@dataclass(frozen=True, slots=True)
class Result:
    """A query that is answered."""

    selected: Selected
    query_id: str
    keys: tuple[str, ...]  # columns of a table's key

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.selected.plan.columns]

    @property
    def types(self) -> Sequence[SqlType | None]:
        return self.selected.types or (None,) * len(self.names)

    def _typed(self) -> list[str]:
        return [type_name(each) for each in self.types]

    def metadata(self) -> Json:
        """Return the first line of an answer of /query-stream."""
        return {"queryId": self.query_id, "columnNames": self.names, "columnTypes": self._typed()}

    def header(self) -> Json:
        """Return the first object of an answer of /query."""
        columns = [
            f"`{name}` {kind}{' KEY' if name in self.keys else ''}"
            for name, kind in zip(self.names, self._typed(), strict=True)
        ]
        return {"header": {"queryId": self.query_id, "schema": ", ".join(columns)}}

    def fields(self) -> list[Json]:
        """Return the first message of /ws/query."""
        return [
            {"name": name, "schema": {"type": "STRING", "fields": None, "memberSchema": None} if kind is None
             else schema(kind)}
            for name, kind in zip(self.names, self.types, strict=True)
        ]  # fmt: skip

    def columns(self, row: Row) -> list[object]:
        return [row_value(value, kind) for value, kind in zip(row, self.types, strict=True)]

    def row(self, row: Row) -> Json:
        """Return a row as /query and /ws/query have it."""
        return {"row": {"columns": self.columns(row), **tombstone(row)}}


def tombstone(row: Row) -> Json:
    """Return what marks a row that left its table."""
    return {"tombstone": True} if isinstance(row, Tombstone) else {}


async def body(result: Result, lots: AsyncIterator[list[Row]], content_type: str) -> AsyncIterator[bytes]:
    """Yield the body of an answer; a failure in the middle of it is its last line or object.

    ksqlDB's clients read lines, as they come: each part ends with a line break, and the array of a push query, whose
    next row may be far off, has its comma in the line of the row before. Its last object is a message.
    """
    has_objects = content_type in (KSQL_V1, PROTOBUF)
    parts = _objects(result, lots, content_type) if has_objects else _lists(result, lots)
    if content_type == DELIMITED:
        async for texts in parts:
            yield "".join(f"{each}\n" for each in texts).encode()
        return
    is_push = result.selected.plan.mode == "stream" and has_objects
    lead, between = "[", ",\n"
    async for texts in parts:
        goes_on = is_push and not texts[-1].startswith(_LAST)
        yield (lead + between.join(texts) + (between if goes_on else "")).encode()
        lead = "" if is_push else between
    yield b"]"


async def _objects(result: Result, lots: AsyncIterator[list[Row]], content_type: str) -> AsyncIterator[list[str]]:
    """Yield the objects of application/vnd.ksql.v1+json and +protobuf, as texts, in parts that are not empty."""
    header, shown = result.header(), result.row
    if content_type == PROTOBUF:
        messages = ProtobufRows(result.names, result.types)
        header["header"]["protoSchema"] = messages.proto

        def shown(row: Row) -> Json:
            return {"row": {"protobufBytes": messages.encoded(row), **tombstone(row)}}

    yield [text_of(header)]
    count, plan = 0, result.selected.plan
    try:
        async for rows in lots:
            count += len(rows)
            if rows:
                yield [text_of(shown(each)) for each in rows]
    except KafkaError as error:
        yield [text_of({"errorMessage": refused(error).document()})]
        return
    if plan.mode == "stream":
        is_full = plan.limit is not None and count >= plan.limit
        yield [text_of({"finalMessage": "Limit Reached" if is_full else "Query Completed"})]


async def _lists(result: Result, lots: AsyncIterator[list[Row]]) -> AsyncIterator[list[str]]:
    """Yield the columns and rows of the other types, as texts, in parts that are not empty.

    They have no mark for a row that left its table, and are without it, as ksqlDB's are.
    """
    yield [text_of(result.metadata())]
    try:
        async for rows in lots:
            texts = [text_of(result.columns(each)) for each in rows if not isinstance(each, Tombstone)]
            if texts:
                yield texts
    except KafkaError as error:
        yield [text_of(refused(error).document())]


async def printed_body(result: Result, lots: AsyncIterator[list[Row]]) -> AsyncIterator[bytes]:
    """Yield the records that PRINT shows, a line each."""
    printer = Printer()
    try:
        async for rows in lots:
            yield "".join(f"{line}\n" for line in printer.lines(rows)).encode()
    except KafkaError as error:
        yield f"{text_of(refused(error).document())}\n".encode()

"""The bodies of answers to queries, in the content types that a request may ask for.

application/vnd.ksqlapi.delimited.v1    a line with names and types, then a line a row: [1, "a"]
application/json                        the same as one JSON array
application/vnd.ksql.v1+json            [{"header": {...}}, {"row": {"columns": [1, "a"]}}, ...]
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from odradek.errors import KafkaError
from odradek.sql.plan import Selected
from odradek.sql.server.entities import Json, printed, row_value, schema, text_of, type_name
from odradek.sql.server.errors import NOT_ACCEPTABLE, RestError, refused
from odradek.sql.session import Row, Tombstone

DELIMITED = "application/vnd.ksqlapi.delimited.v1"
JSON = "application/json"
KSQL_V1 = "application/vnd.ksql.v1+json"
_ANY = ("*/*", "application/*", "")


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

    def _typed(self) -> list[str]:
        types = self.selected.types or (None,) * len(self.names)
        return [type_name(each) for each in types]

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
        types = self.selected.types or (None,) * len(self.names)
        return [
            {"name": name, "schema": {"type": "STRING", "fields": None, "memberSchema": None} if kind is None
             else schema(kind)}
            for name, kind in zip(self.names, types, strict=True)
        ]  # fmt: skip

    def columns(self, row: Row) -> list[object]:
        types = self.selected.types or (None,) * len(self.names)
        return [row_value(value, kind) for value, kind in zip(row, types, strict=True)]

    def row(self, row: Row) -> Json:
        """Return a row as /query and /ws/query have it."""
        marked = {"tombstone": True} if isinstance(row, Tombstone) else {}
        return {"row": {"columns": self.columns(row), **marked}}


async def body(result: Result, lots: AsyncIterator[list[Row]], content_type: str) -> AsyncIterator[bytes]:
    """Yield the body of an answer; a failure in the middle of it is its last line or object."""
    is_array, is_v1 = content_type != DELIMITED, content_type == KSQL_V1
    between = ",\n" if is_array else "\n"
    first = text_of(result.header() if is_v1 else result.metadata())
    yield (("[" if is_array else "") + first + ("" if is_array else "\n")).encode()
    count, problem = 0, None
    try:
        async for rows in lots:
            count += len(rows)
            texts = [text_of(result.row(one) if is_v1 else result.columns(one)) for one in rows]
            yield (between + between.join(texts) if is_array else "".join(f"{each}\n" for each in texts)).encode()
    except KafkaError as error:
        problem = refused(error).document()
    plan = result.selected.plan
    if problem is not None:
        text = text_of({"errorMessage": problem} if is_v1 else problem)
        yield (between + text if is_array else f"{text}\n").encode()
    elif is_v1 and plan.mode == "stream" and plan.limit is not None and count >= plan.limit:
        yield f"{between}{text_of({'finalMessage': 'Limit Reached'})}".encode()
    if is_array:
        yield b"]\n"


async def printed_body(result: Result, lots: AsyncIterator[list[Row]]) -> AsyncIterator[bytes]:
    """Yield the records that PRINT shows, a line each."""
    try:
        async for rows in lots:
            yield "".join(f"{printed(dict(zip(result.names, row, strict=True)))}\n" for row in rows).encode()
    except KafkaError as error:
        yield f"{text_of(refused(error).document())}\n".encode()

"""File formats: lines, CSV, JSON lines, Avro object containers, Parquet.

A reader yields values with the position behind each one: bytes in formats of lines, whose files may still grow, and
records in the others, whose files are complete.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, BinaryIO, NamedTuple

from odradek.connect.converters.avro_data import avro_schema, connect_schema, datum, value_of
from odradek.connect.converters.json import dump
from odradek.connect.converters.json_format import to_json
from odradek.connect.data import schema as schemas
from odradek.connect.data.schema import Schema, struct
from odradek.connect.data.structs import Struct
from odradek.connect.data.values import SchemaAndValue, infer_schema, to_text
from odradek.connect.errors import DataError
from odradek.connect.record import SinkRecord
from odradek.extras import extra


class Found(NamedTuple):
    """A value of a file, and the position behind it."""

    schema: Schema | None
    value: Any
    position: int


Read = Callable[[BinaryIO, int], Iterator[Found]]
"""A stream and a position -> the values behind it."""
Write = Callable[[Sequence[SinkRecord]], bytes]
"""Records of one schema -> a whole file. Raises DataError."""


# --- readers ----------------------------------------------------------------------------------------------------------


def _lines(stream: BinaryIO, position: int) -> Iterator[tuple[bytes, int]]:
    """Yield complete lines, without their ends, and the positions behind them."""
    stream.seek(position)
    while (line := stream.readline()).endswith(b"\n"):
        position += len(line)
        yield line.rstrip(b"\r\n"), position


def read_lines(stream: BinaryIO, position: int) -> Iterator[Found]:
    """Yield lines of text."""
    for line, behind in _lines(stream, position):
        yield Found(schemas.STRING, line.decode("utf-8", errors="replace"), behind)


def read_json(stream: BinaryIO, position: int) -> Iterator[Found]:
    """Yield the JSON values of lines, without schemas. Raises DataError for another line."""
    for line, behind in _lines(stream, position):
        if line.strip():
            try:
                yield Found(None, json.loads(line), behind)
            except ValueError as error:
                raise DataError(f"the line that ends at byte {behind} is not JSON: {error}") from error


def read_csv(stream: BinaryIO, position: int) -> Iterator[Found]:
    """Yield rows as structs of optional text; the first row has the names. Quoted cells may not contain line ends."""
    stream.seek(0)
    header = stream.readline()
    if not header.endswith(b"\n"):
        return
    [names] = csv.reader([header.decode("utf-8-sig")])
    schema = struct(dict.fromkeys(names, schemas.OPTIONAL_STRING))
    for line, behind in _lines(stream, max(position, len(header))):
        if line:
            [cells] = csv.reader([line.decode("utf-8", errors="replace")])
            yield Found(schema, Struct(schema, dict(zip(names, cells, strict=False))), behind)


def read_avro(stream: BinaryIO, position: int) -> Iterator[Found]:
    """Yield the records of an Avro object container."""
    with extra("avro"):
        fastavro: Any = import_module("fastavro")
    reader = fastavro.reader(stream, return_named_type=True)
    schema = connect_schema(fastavro.parse_schema(reader.writer_schema, named_schemas={}))
    for number, datum_read in enumerate(reader, 1):
        if number > position:
            yield Found(schema, value_of(schema, datum_read), number)


def read_parquet(stream: BinaryIO, position: int) -> Iterator[Found]:
    """Yield the rows of a Parquet file as structs."""
    with extra("table"):
        from odradek.connect.connectors.files import arrow

    yield from (Found(*row) for row in arrow.read_parquet(stream, position))


class Reader(NamedTuple):
    """A format that can be read."""

    read: Read
    grows: bool  # whether a file may grow after it was read


READERS: Mapping[str, Reader] = {
    "lines": Reader(read_lines, True),
    "csv": Reader(read_csv, True),
    "json": Reader(read_json, True),
    "avro": Reader(read_avro, False),
    "parquet": Reader(read_parquet, False),
}


# --- writers ----------------------------------------------------------------------------------------------------------


def write_json(records: Sequence[SinkRecord]) -> bytes:
    """Write a line of JSON a record."""
    return b"".join(dump(to_json(record.value_schema, record.value)) + b"\n" for record in records)


def write_lines(records: Sequence[SinkRecord]) -> bytes:
    """Write a line of text a record."""
    return "".join(f"{to_text(record.value)}\n" for record in records).encode()


def write_bytes(records: Sequence[SinkRecord]) -> bytes:
    """Write values as they are, one after the other."""
    return b"".join(_as_bytes(record.value) for record in records)


def _as_bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise DataError(f"the format bytes takes bytes or text, not {type(value).__name__}: use ByteArrayConverter")


def structured(records: Sequence[SinkRecord]) -> tuple[Schema, list[Any]]:
    """Return the common schema of records and their values; one is inferred for records without. Raises DataError."""
    schema = schema_of(records[0])
    if schema is None:
        raise DataError("the records have no schema: use a converter with schemas, or format=json")
    values = [record.value if record.value_schema is not None else _as_struct(record.value).value for record in records]
    return schema, values


def schema_of(record: SinkRecord) -> Schema | None:
    """Return the schema of a record's value, or the one that follows from it."""
    return record.value_schema or _as_struct(record.value).schema


def _as_struct(value: Any) -> SchemaAndValue:
    """Return a map of text to values as a struct, so that files have columns."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        return SchemaAndValue(infer_schema(value), value)
    fields = {name: infer_schema(member) or schemas.STRING for name, member in value.items()}
    schema = struct({name: member_schema.as_optional() for name, member_schema in fields.items()})
    return SchemaAndValue(schema, Struct(schema, value))


def write_avro(records: Sequence[SinkRecord]) -> bytes:
    """Write an Avro object container."""
    with extra("avro"):
        fastavro: Any = import_module("fastavro")
    schema, values = structured(records)
    out = io.BytesIO()
    # The marker between blocks is chosen by chance unless it is given, and equal records are to give equal files.
    fastavro.writer(
        out, fastavro.parse_schema(avro_schema(schema), named_schemas={}), [datum(schema, value) for value in values],
        codec="deflate", sync_marker=b"odradek-connect!",
    )  # fmt: skip
    return out.getvalue()


def write_parquet(records: Sequence[SinkRecord]) -> bytes:
    """Write a Parquet file."""
    with extra("table"):
        from odradek.connect.connectors.files import arrow

    return arrow.write_parquet(*structured(records))


class Writer(NamedTuple):
    """A format that can be written."""

    write: Write
    extension: str
    has_schema: bool  # whether all records of a file must have one schema


WRITERS: Mapping[str, Writer] = {
    "json": Writer(write_json, ".json", False),
    "avro": Writer(write_avro, ".avro", True),
    "parquet": Writer(write_parquet, ".parquet", True),
    "lines": Writer(write_lines, ".txt", False),
    "bytes": Writer(write_bytes, ".bin", False),
}

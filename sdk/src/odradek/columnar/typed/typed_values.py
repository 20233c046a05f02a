"""Values to typed columns: JSON, and what the registry's schemas describe.

    0, schema id, payload    read by the schema of this id, as data of the subject's newest schema
    { ... }                  JSON
    payload                  by the schema of the topic's configuration, if it is Avro's or Protobuf's

Arrow's JSON reader takes a chunk of values at once where it surely reads one object a value; all others are read one by
one. A value that does not fit has nulls in all typed columns: whatever it makes a library raise.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from odradek.columnar.typed.arrow_kinds import arrow_schema
from odradek.columnar.typed.avro_values import AvroValues
from odradek.columnar.typed.fitting import fitter
from odradek.columnar.typed.json_values import read_objects
from odradek.columnar.typed.protobuf_values import ProtobufValues
from odradek.columnar.typed.schema_prefix import PREFIX_BYTES, decode_indexes
from odradek.errors import FormatError, KafkaError
from odradek.model.kinds import Column, Kind
from odradek.model.value_schema import AVRO, JSON, PROTOBUF, ValueSchema

_BY_ARROW = frozenset({"boolean", "int", "bigint", "float", "double", "string", "array", "struct"})
_Read = Callable[[bytes], Any]


class SchemasNeeded(Exception):
    """Values name schemas that the reader does not know yet: tell it by `know`, then read again."""

    def __init__(self, ids: Iterable[int]) -> None:
        self.ids = sorted(ids)
        super().__init__(f"schemas {self.ids}")


class TypedValues:
    """Reads the typed columns of a topic's values.

    Args:
        columns: all typed columns.
        newest: the schema of which the columns are; None: values are data as they were written.
        is_prefixed: values may begin with the id of a schema of the registry. False: `newest` describes them all.

    Raises FormatError for a schema that does not parse; MissingExtra.
    """

    def __init__(
        self, columns: Sequence[Column], newest: ValueSchema | None = None, *, is_prefixed: bool = True
    ) -> None:
        self.columns = tuple(columns)
        self.schema = arrow_schema((column.name, column.kind) for column in columns)
        self._is_prefixed = is_prefixed
        self._by_name = {column.name: column for column in columns}
        self._newest = newest
        self._avro: AvroValues | None = None
        self._protobuf: ProtobufValues | None = None
        self._known: dict[int, _Read | None] = {}  # None: no schema reads it
        self._schemas: dict[int, ValueSchema | None] = {}
        self.unknown = 0  # ids that no schema has
        self._json_ids: set[int] = set()
        self._plain: _Read = _json
        if newest is not None:
            read = self._reader(newest, is_prefixed=is_prefixed)
            self._plain = _json if is_prefixed else read

    def know(self, schema_id: int, schema: ValueSchema | None) -> None:
        """Take the schema of an id; None: there is none, and its values do not fit."""
        self._schemas[schema_id] = schema
        try:
            self._known[schema_id] = None if schema is None else self._reader(schema)
        except (FormatError, KafkaError):
            self._known[schema_id] = None
        self.unknown += schema is None
        if schema is not None and schema.kind == JSON:
            self._json_ids.add(schema_id)

    def with_columns(self, more: Iterable[Column]) -> TypedValues:
        """Return a reader with further columns, which knows what this one knows."""
        extended = TypedValues((*self.columns, *more), self._newest, is_prefixed=self._is_prefixed)
        extended._known, extended._json_ids, extended._schemas = self._known, self._json_ids, self._schemas
        return extended

    def read(self, values: pa.BinaryArray, names: Sequence[str] | None = None) -> tuple[list[pa.Array], int]:
        """Return these typed columns of a chunk of values (all by default), and how many values do not fit.

        Raises SchemasNeeded.
        """
        columns = self.columns if names is None else [self._by_name[name] for name in names]
        ids = self._ids(values)
        table = self._read_json(values, columns, ids)
        if table is not None:
            return [column.combine_chunks() for column in table.columns], 0
        fits = [(column.field, fitter(column.kind)) for column in columns]
        nothing: list[Any] = [None] * len(columns)
        rows, misfits = [], 0
        for value in values.to_pylist():
            row = nothing
            if value is not None:
                try:
                    data = self.data(value)
                    row = [fit(data.get(field)) for field, fit in fits]
                except SchemasNeeded:
                    raise
                except Exception:
                    misfits += 1
            rows.append(row)
        types = [self.schema.field(column.name).type for column in columns]
        try:
            return _arrays(rows, types), misfits
        except Exception:  # a cell that passed and that Arrow does not take
            fitting = [row if _fits(row, types) else nothing for row in rows]
            misfits += sum(now is not row for now, row in zip(fitting, rows, strict=True))
            return _arrays(fitting, types), misfits

    def data(self, value: bytes) -> dict[str, Any]:
        """Return the fields of one value. Raises SchemasNeeded; any other Exception: the value cannot be read."""
        schema_id = self.schema_id_of(value)
        if schema_id is not None:
            if schema_id not in self._known:
                raise SchemasNeeded([schema_id])
            read = self._known[schema_id]
            if read is None:
                raise ValueError(f"no schema {schema_id}")
            data = read(value[PREFIX_BYTES:])
        else:
            data = self._plain(value)
        if not isinstance(data, dict):
            raise ValueError("the value is not an object")
        return data

    @property
    def plain_schema(self) -> ValueSchema | None:
        """The schema of values that do not name one; None: they are JSON."""
        return None if self._is_prefixed else self._newest

    def schema_id_of(self, value: bytes) -> int | None:
        """Return the id of the schema that a value names, None if it names none."""
        if self._is_prefixed and value[:1] == b"\0" and len(value) >= PREFIX_BYTES:
            return int.from_bytes(value[1:PREFIX_BYTES], "big")
        return None

    def schema_of(self, schema_id: int) -> ValueSchema | None:
        """Return the schema of an id if `know` was called with it, else None."""
        return self._schemas.get(schema_id)

    def _ids(self, values: pa.BinaryArray) -> set[int]:
        """Return the ids of the schemas that values name. Raises SchemasNeeded if one is not known."""
        if not self._is_prefixed or not pc.any(pc.starts_with(values, b"\0")).as_py():
            return set()
        prefixes = [prefix for prefix in pc.unique(pc.binary_slice(values, 0, PREFIX_BYTES)).to_pylist() if prefix]
        schema_ids = {
            int.from_bytes(prefix[1:], "big")
            for prefix in prefixes
            if prefix[:1] == b"\0" and len(prefix) == PREFIX_BYTES
        }
        if not schema_ids <= self._known.keys():
            raise SchemasNeeded(schema_ids - self._known.keys())
        return schema_ids

    def _read_json(self, values: pa.BinaryArray, columns: Sequence[Column], ids: set[int]) -> pa.Table | None:
        """Read a chunk by Arrow's JSON reader, if all of it is JSON of one form."""
        if not all(_is_by_arrow(column.kind) for column in columns) or not self._plain_is_json:
            return None
        if ids:
            if not ids <= self._json_ids or not pc.all(pc.starts_with(values, b"\0")).as_py():
                return None
            values = pc.binary_slice(values, PREFIX_BYTES)
        table = read_objects(values, arrow_schema((column.field, column.kind) for column in columns))
        return None if table is None else table.rename_columns([column.name for column in columns])

    @property
    def _plain_is_json(self) -> bool:
        return self._plain is _json

    def _reader(self, schema: ValueSchema, *, is_prefixed: bool = True) -> _Read:
        """Return a function of payloads to the data of a value."""
        if schema.kind == AVRO:
            if self._avro is None:
                newest = self._newest
                self._avro = AvroValues(newest if newest is not None and newest.kind == AVRO else None)
            return self._avro.reader(schema)
        if schema.kind == PROTOBUF:
            return self._protobuf_reader(schema, is_prefixed)
        return _json

    def _protobuf_reader(self, schema: ValueSchema, is_prefixed: bool) -> _Read:
        if self._newest is None or self._newest.kind != PROTOBUF:
            own = ProtobufValues(schema)
            return lambda payload: own.read(decode_indexes(payload)[1])
        if self._protobuf is None:
            self._protobuf = ProtobufValues(self._newest)
        if not is_prefixed:
            return self._protobuf.read
        read = self._protobuf.reader(schema)
        return lambda payload: read(*decode_indexes(payload))


def _arrays(rows: Sequence[Sequence[Any]], types: Sequence[pa.DataType]) -> list[pa.Array]:
    columns = zip(*rows, strict=True) if rows else [()] * len(types)
    return [pa.array(cells, data_type) for cells, data_type in zip(columns, types, strict=True)]


def _fits(row: Sequence[Any], types: Sequence[pa.DataType]) -> bool:
    try:
        _arrays([row], types)
    except Exception:
        return False
    return True


def _json(value: bytes) -> Any:
    return json.loads(value)


def _is_by_arrow(data_type: Kind) -> bool:
    return data_type.name in _BY_ARROW and all(map(_is_by_arrow, data_type.inner))

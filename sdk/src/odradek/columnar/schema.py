"""The columns of decoded records: those of Spark's Kafka source.

    key            binary, null for a null key
    value          binary, null for a tombstone
    topic          string
    partition      int32
    offset         int64
    timestamp      timestamp(us, UTC); Kafka counts milliseconds
    timestampType  int32, 0 CreateTime, 1 LogAppendTime
    headers        list of (key string, value binary), empty if there are none; only if requested

Milliseconds that do not fit 64 bits of microseconds (after the year 294246, so certainly a wrong unit) become the
nearest value that does: one such record must not stop a whole stream.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from odradek.columnar.names import COLUMNS

HEADERS_TYPE = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
TIMESTAMP_TYPE = pa.timestamp("us", tz="UTC")

_FIELDS = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": TIMESTAMP_TYPE,
    "timestampType": pa.int32(),
    "headers": HEADERS_TYPE,
}
assert tuple(_FIELDS) == COLUMNS


def schema(include_headers: bool = False, columns: Sequence[str] | None = None) -> pa.Schema:
    """Return the Arrow schema of decoded records; `columns` selects and orders them, over `include_headers`.

    Raises ValueError that names an unknown column.
    """
    if columns is None:
        columns = COLUMNS if include_headers else COLUMNS[:-1]
    unknown = [name for name in columns if name not in _FIELDS]
    if unknown:
        raise ValueError(f"unknown column {', '.join(unknown)}: use {', '.join(COLUMNS)}")
    return pa.schema([pa.field(name, _FIELDS[name]) for name in columns])


SCHEMA = schema()

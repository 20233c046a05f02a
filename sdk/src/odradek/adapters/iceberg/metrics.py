"""The metrics of a data file that an Iceberg table keeps, from the statistics of the file's footer.

Bounds are made of the raw values of statistics: a value of Python cannot hold all of them, such as moments after the
year 9999, and PyIceberg's bound of a text fails before the surrogates. A column that has a row group without bounds has
none (columnar/bounds.py): NaN is in no statistics.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from odradek.extras import extra

with extra("iceberg"):
    import pyarrow.parquet as pq
    from pyiceberg.types import (
        BinaryType,
        BooleanType,
        DateType,
        DecimalType,
        DoubleType,
        FloatType,
        IcebergType,
        IntegerType,
        LongType,
        StringType,
        TimestampType,
        TimestamptzType,
        TimeType,
    )

_LENGTH = 16  # of the bounds of texts and bytes, Iceberg's default: characters, bytes
_SURROGATES = range(0xD800, 0xE000)
_CHARACTER_MAX = 0x10FFFF
_FORMATS: dict[type[IcebergType], str] = {
    BooleanType: "<?",
    IntegerType: "<i",
    DateType: "<i",
    LongType: "<q",
    TimeType: "<q",
    TimestampType: "<q",
    TimestamptzType: "<q",
    FloatType: "<f",
    DoubleType: "<d",
}


class Metrics(NamedTuple):
    """The metrics of a file, as an entry of a manifest has them: by field id where they are of columns."""

    record_count: int
    column_sizes: dict[int, int]
    value_counts: dict[int, int]
    null_value_counts: dict[int, int]
    nan_value_counts: dict[int, int]
    lower_bounds: dict[int, bytes]
    upper_bounds: dict[int, bytes]
    split_offsets: list[int]


def metrics_of(metadata: pq.FileMetaData, ids: Mapping[str, int], types: Mapping[str, IcebergType]) -> Metrics:
    """Return the metrics of a file.

    Args:
        ids: the field of each leaf, by its path in the file; a leaf that is not there has no metrics.
        types: of the leaves that get bounds.
    """
    metrics = Metrics(metadata.num_rows, {}, {}, {}, {}, {}, {}, [])
    ranges: dict[str, tuple[Any, Any]] = {}
    unbounded: set[str] = set()
    uncounted: set[int] = set()
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        first = group.column(0)
        metrics.split_offsets.append(first.dictionary_page_offset or first.data_page_offset)
        for chunk in map(group.column, range(group.num_columns)):
            path, field = chunk.path_in_schema, ids.get(chunk.path_in_schema)
            if field is None:
                continue
            metrics.column_sizes[field] = metrics.column_sizes.get(field, 0) + chunk.total_compressed_size
            metrics.value_counts[field] = metrics.value_counts.get(field, 0) + chunk.num_values
            statistics = chunk.statistics if chunk.is_stats_set else None
            if statistics is None or not statistics.has_null_count:
                uncounted.add(field)
                unbounded.add(path)
                continue
            metrics.null_value_counts[field] = metrics.null_value_counts.get(field, 0) + statistics.null_count
            if statistics.has_min_max:
                low, high = statistics.min_raw, statistics.max_raw
                least, greatest = ranges.get(path, (low, high))
                order = _signed if isinstance(types.get(path), DecimalType) else _same
                ranges[path] = (min(least, low, key=order), max(greatest, high, key=order))
            elif statistics.null_count < chunk.num_values:
                unbounded.add(path)
    for field in uncounted:
        metrics.null_value_counts.pop(field, None)
    for path, (least, greatest) in ranges.items():
        if path in types and path not in unbounded:
            lower, upper = lower_bound(types[path], least), upper_bound(types[path], greatest)
            metrics.lower_bounds[ids[path]] = lower
            if upper is not None:
                metrics.upper_bounds[ids[path]] = upper
    return metrics


def _same(raw: Any) -> Any:
    return raw


def _signed(raw: bytes) -> int:
    return int.from_bytes(raw, "big", signed=True)


def lower_bound(column_type: IcebergType, raw: Any) -> bytes:
    """Return a bound that no value of a column is below; raw is Parquet's least value."""
    if isinstance(column_type, StringType):
        return str(raw, "utf-8")[:_LENGTH].encode()
    if isinstance(column_type, BinaryType):
        return bytes(raw[:_LENGTH])
    return _exact(column_type, raw)


def upper_bound(column_type: IcebergType, raw: Any) -> bytes | None:
    """Return a bound that no value of a column is above; None: none is short enough."""
    if isinstance(column_type, StringType):
        text = str(raw, "utf-8")
        return raw if len(text) <= _LENGTH else _after_text(text[:_LENGTH])
    if isinstance(column_type, BinaryType):
        return bytes(raw) if len(raw) <= _LENGTH else _after_bytes(bytes(raw[:_LENGTH]))
    return _exact(column_type, raw)


def _exact(column_type: IcebergType, raw: Any) -> bytes:
    if isinstance(column_type, DecimalType):
        unscaled = _signed(raw)
        return unscaled.to_bytes((unscaled + (unscaled < 0)).bit_length() // 8 + 1, "big", signed=True)
    return struct.pack(_FORMATS[type(column_type)], raw)


def _after_text(text: str) -> bytes | None:
    """Return the least text of this length or less that follows every text with this beginning."""
    for at in reversed(range(len(text))):
        following = ord(text[at]) + 1
        if following in _SURROGATES:
            following = _SURROGATES.stop
        if following <= _CHARACTER_MAX:
            return (text[:at] + chr(following)).encode()
    return None


def _after_bytes(data: bytes) -> bytes | None:
    for at in reversed(range(len(data))):
        if data[at] < 0xFF:
            return data[:at] + bytes([data[at] + 1])
    return None

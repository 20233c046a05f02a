"""Metrics of data files: bounds that hold for every value, made of raw statistics."""

from __future__ import annotations

import io
import struct
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from odradek.adapters.iceberg.metrics import Metrics, metrics_of
from pyiceberg.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    IcebergType,
    LongType,
    StringType,
    TimestamptzType,
)


def of(iceberg_type: IcebergType, *groups: pa.Array, statistics: bool = True) -> Metrics:
    """Return the metrics of a file with one column, a row group an array."""
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, pa.schema([("c", groups[0].type)]), write_statistics=statistics) as writer:
        for group in groups:
            writer.write_table(pa.table({"c": group}))
    return metrics_of(pq.read_metadata(io.BytesIO(sink.getvalue())), {"c": 7}, {"c": iceberg_type})


@pytest.mark.parametrize(
    ("last", "bound"),
    [
        ("\ud7ff", "\ue000"),
        ("\U0010ffff", None),
        ("z", "{"),
    ],
)
def test_the_bound_of_a_long_text_follows_it_and_is_utf8(last: str, bound: str | None) -> None:
    text = "a" * 15 + last
    metrics = of(StringType(), pa.array([text + "tail", "a"]))
    expected = "a" * 14 + "b" if bound is None else "a" * 15 + bound
    assert metrics.lower_bounds == {7: b"a"}
    assert metrics.upper_bounds == {7: expected.encode()}


def test_a_text_that_none_follows_has_no_upper_bound() -> None:
    metrics = of(StringType(), pa.array(["\U0010ffff" * 20]))
    assert metrics.lower_bounds == {7: ("\U0010ffff" * 16).encode()}
    assert not metrics.upper_bounds
    assert of(BinaryType(), pa.array([b"\xff" * 17])).upper_bounds == {}
    assert of(BinaryType(), pa.array([b"a\xff" + b"\xff" * 15])).upper_bounds == {7: b"b"}


@pytest.mark.parametrize(
    ("iceberg_type", "cells", "lower", "upper"),
    [
        (
            TimestamptzType(),
            pa.array([0, 253402318799000000], pa.timestamp("us", tz="UTC")),  # in the year 10000
            struct.pack("<q", 0),
            struct.pack("<q", 253402318799000000),
        ),
        (LongType(), pa.array([-1, 2], pa.int32()), struct.pack("<q", -1), struct.pack("<q", 2)),
        (DoubleType(), pa.array([0.5, 2.0], pa.float32()), struct.pack("<d", 0.5), struct.pack("<d", 2.0)),
        (DecimalType(38, 2), pa.array(["-1.28", "1.28"]).cast(pa.decimal128(38, 2)), b"\x80", b"\x00\x80"),
    ],
)
def test_bounds_are_of_the_tables_type(iceberg_type: IcebergType, cells: Any, lower: bytes, upper: bytes) -> None:
    metrics = of(iceberg_type, cells)
    assert (metrics.lower_bounds, metrics.upper_bounds) == ({7: lower}, {7: upper})


def test_bounds_hold_for_all_row_groups() -> None:
    data_type = pa.decimal128(5, 0)
    groups = [pa.array(cells).cast(data_type) for cells in (["5", "-3"], ["-40", None], [None])]
    metrics = of(DecimalType(5, 0), *groups)
    assert (metrics.lower_bounds, metrics.upper_bounds) == ({7: b"\xd8"}, {7: b"\x05"})
    assert (metrics.record_count, metrics.value_counts, metrics.null_value_counts) == (5, {7: 5}, {7: 2})


def test_a_row_group_without_bounds_takes_those_of_the_file() -> None:
    """Parquet has none of a chunk that is all NaN: the bounds of the others would hide it."""
    metrics = of(DoubleType(), pa.array([1.0]), pa.array([float("nan")]))
    assert metrics.lower_bounds == metrics.upper_bounds == {}
    metrics = of(LongType(), pa.array([1]), statistics=False)
    assert metrics.lower_bounds == metrics.null_value_counts == {}

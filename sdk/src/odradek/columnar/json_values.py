"""Values in JSON to typed columns, by Arrow's JSON reader where it surely reads one object a value, else one by one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

INT64 = range(-(2**63), 2**63)
TABLE_KINDS = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64(), "boolean": pa.bool_()}
"""Types of the columns of `odradek.table.schema`."""


def read_values(
    values: pa.BinaryArray, kinds: pa.Schema, decode: Callable[[bytes], Any] = json.loads
) -> tuple[list[pa.Array], int]:
    """Return a column of each field, and how many values fit them not; such a value and null have nulls in all.

    Args:
        decode: gives the data of one value; what is not an object does not fit. May raise ValueError.
    """
    table = read_objects(values, kinds)
    if table is not None:
        return [table.column(name).combine_chunks() for name in kinds.names], 0
    found: list[list[Any]] = [[] for _ in kinds]
    misfits = 0
    for value in values.to_pylist():
        row = [None] * len(kinds)
        if value is not None:
            try:
                data = decode(value)
                if not isinstance(data, dict):
                    raise ValueError("the value is not an object")
                row = [fitted(data.get(kind.name), kind.type) for kind in kinds]
            except (ValueError, RecursionError):
                misfits += 1
        for column, each in zip(found, row, strict=True):
            column.append(each)
    return [pa.array(column, kind.type) for column, kind in zip(found, kinds, strict=True)], misfits


def read_objects(values: pa.BinaryArray, kinds: pa.Schema) -> pa.Table | None:
    """Read a chunk of JSON objects by Arrow, a row a value; None if they are not surely that, or not as `kinds` says.

    Every value begins with a brace and ends with one. Two objects in one value would make a row too many; one object in
    two values cannot be, since a brace would follow another one or a line break stand in a text.
    """
    there = values.drop_null() if values.null_count else values
    count = len(there)
    if not count:
        return pa.table([pa.nulls(len(values), kind.type) for kind in kinds], schema=kinds)
    is_object = pc.and_(pc.starts_with(there, b"{"), pc.ends_with(there, b"}"))
    if not pc.all(is_object).as_py():
        return None
    lines = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), there), b"\n")[0].as_buffer()
    try:
        table = pj.read_json(
            pa.BufferReader(lines),
            read_options=pj.ReadOptions(use_threads=False, block_size=max(lines.size + 1, 1 << 16)),
            parse_options=pj.ParseOptions(explicit_schema=kinds, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows != count:
        return None
    if values.null_count:
        valid = pc.is_valid(values)
        at = pc.subtract(pc.cumulative_sum(valid.cast(pa.int64())), 1)
        table = table.take(pc.if_else(valid, at, pa.scalar(None, pa.int64())))
    return table.select(kinds.names)


def fitted(value: Any, kind: pa.DataType) -> Any:
    """Return a value of JSON as a value of a type. Raises ValueError if it does not fit."""
    if value is None:
        return None
    if pa.types.is_string(kind):
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if pa.types.is_boolean(kind) and isinstance(value, bool):
        return value
    if pa.types.is_integer(kind) and isinstance(value, int) and not isinstance(value, bool) and value in INT64:
        return value
    if pa.types.is_floating(kind) and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if pa.types.is_list(kind) and isinstance(value, list):
        return [fitted(each, kind.value_type) for each in value]
    if pa.types.is_struct(kind) and isinstance(value, dict):
        return {each.name: fitted(value.get(each.name), each.type) for each in kind}
    raise ValueError(f"{type(value).__name__} is not {kind}")

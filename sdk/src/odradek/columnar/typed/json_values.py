"""Values in JSON to columns by Arrow's JSON reader, where it surely reads one object a value."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

_WIDE = {pa.float32(): pa.float64()}


def read_objects(values: pa.BinaryArray, kinds: pa.Schema) -> pa.Table | None:
    """Read a chunk of JSON objects by Arrow, a row a value; None if they are not surely that, or not as `kinds` says.

    Every value begins with a brace and ends with one. Two objects in one value would make a row too many; one object in
    two values cannot be, since a brace would follow another one or a line break stand in a text. Arrow takes text that
    is not UTF-8, and makes an infinity of a number that 32 bits do not hold: both are for the reader of single values.
    """
    present = values.drop_null() if values.null_count else values
    count = len(present)
    if not count:
        return pa.table([pa.nulls(len(values), field.type) for field in kinds], schema=kinds)
    is_object = pc.and_(pc.starts_with(present, b"{"), pc.ends_with(present, b"}"))
    if not pc.all(is_object).as_py():
        return None
    try:
        present.cast(pa.string())
    except pa.ArrowInvalid:
        return None
    wide = pa.schema([field.with_type(_widened(field.type)) for field in kinds])
    lines = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), present), b"\n")[0].as_buffer()
    try:
        table = pj.read_json(
            pa.BufferReader(lines),
            read_options=pj.ReadOptions(use_threads=False, block_size=max(lines.size + 1, 1 << 16)),
            parse_options=pj.ParseOptions(explicit_schema=wide, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows != count:
        return None
    if wide != kinds:
        if any(_overflows(column.combine_chunks()) for column in table.select(kinds.names).columns):
            return None
        table = table.select(kinds.names).cast(kinds)
    if values.null_count:
        valid = pc.is_valid(values)
        at = pc.subtract(pc.cumulative_sum(valid.cast(pa.int64())), 1)
        table = table.take(pc.if_else(valid, at, pa.scalar(None, pa.int64())))
    return table.select(kinds.names)


def _widened(data_type: pa.DataType) -> pa.DataType:
    """Return a type with doubles for its floats: a number is rounded as Python rounds it, twice."""
    if pa.types.is_list(data_type):
        return pa.list_(data_type.value_field.with_type(_widened(data_type.value_type)))
    if pa.types.is_struct(data_type):
        return pa.struct([field.with_type(_widened(field.type)) for field in data_type])
    return _WIDE.get(data_type, data_type)


def _overflows(cells: pa.Array) -> bool:
    """Return True if a double is, or would be as a float, an infinity."""
    if pa.types.is_list(cells.type):
        return _overflows(cells.values)
    if pa.types.is_struct(cells.type):
        return any(_overflows(cells.field(number)) for number in range(cells.type.num_fields))
    return pa.types.is_float64(cells.type) and bool(pc.any(pc.is_inf(cells.cast(pa.float32()))).as_py())

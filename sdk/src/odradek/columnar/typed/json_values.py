"""Values in JSON to columns by Arrow's JSON reader, where it surely reads one object a value."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj


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

"""Column chunks of Parquet files that may have bounds.

Parquet's statistics leave NaN out. Readers take them for the bounds of all rows all the same: DuckDB, Spark and Arrow
pass over a chunk although a NaN in it fulfils `isnan(d)`, `d > 5` or `d <> 1`. So a writer writes no bounds for a
column that has one.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def leaves_with_nan(field: pa.Field, cells: pa.Array) -> set[str]:
    """Return the paths of a field's leaves that hold NaN, as a Parquet file names them (arrow_kinds.leaf_paths)."""
    data_type = field.type
    if pa.types.is_floating(data_type):
        return {field.name} if pc.any(pc.is_nan(cells)).as_py() else set()
    if pa.types.is_list(data_type):
        return {f"{field.name}.list.{path}" for path in leaves_with_nan(data_type.value_field, cells.values)}
    if pa.types.is_map(data_type):
        parts = ((data_type.key_field, cells.keys), (data_type.item_field, cells.items))
        return {
            f"{field.name}.key_value.{path}"
            for inner_field, inner in parts
            for path in leaves_with_nan(inner_field, inner)
        }
    if pa.types.is_struct(data_type):
        return {
            f"{field.name}.{path}"
            for at, child in enumerate(data_type)
            for path in leaves_with_nan(child, cells.field(at))
        }
    return set()


def columns_with_bounds(table: pa.Table) -> list[str]:
    """Return the columns of any table that a Parquet file may have bounds of: scalars, without NaN."""
    return [
        field.name
        for field, column in zip(table.schema, table.columns, strict=True)
        if not pa.types.is_nested(field.type)
        and not (pa.types.is_floating(field.type) and pc.any(pc.is_nan(column)).as_py())
    ]

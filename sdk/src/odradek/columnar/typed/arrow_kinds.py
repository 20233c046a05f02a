"""The types of typed columns (kinds.py) as Arrow's, and back."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from odradek.model import kinds
from odradek.model.kinds import Kind

_SCALARS = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_KINDS = {arrow_scalar: name for name, arrow_scalar in _SCALARS.items()}


def arrow_type(data_type: Kind) -> pa.DataType:
    """Return the Arrow type of a kind."""
    if data_type.name == "decimal":
        return pa.decimal128(data_type.precision, data_type.scale)
    if data_type.name == "array":
        return pa.list_(pa.field("element", arrow_type(data_type.inner[0])))
    if data_type.name == "map":
        return pa.map_(*map(arrow_type, data_type.inner))
    if data_type.name == "struct":
        return pa.struct([pa.field(name, arrow_type(inner)) for name, inner in data_type.fields.items()])
    return _SCALARS[data_type.name]


def arrow_schema(columns: Iterable[tuple[str, Kind]]) -> pa.Schema:
    """Return the Arrow schema of columns."""
    return pa.schema([pa.field(name, arrow_type(data_type)) for name, data_type in columns])


def kind_of_arrow(arrow_field_type: pa.DataType) -> Kind:
    """Return the kind of an Arrow type. Raises ValueError for one that no kind has."""
    if arrow_field_type in _KINDS:
        return Kind(_KINDS[arrow_field_type])
    if pa.types.is_decimal128(arrow_field_type):
        return kinds.decimal(arrow_field_type.precision, arrow_field_type.scale)
    if pa.types.is_list(arrow_field_type):
        return Kind("array", (kind_of_arrow(arrow_field_type.value_type),))
    if pa.types.is_map(arrow_field_type):
        return Kind("map", (kind_of_arrow(arrow_field_type.key_type), kind_of_arrow(arrow_field_type.item_type)))
    if pa.types.is_struct(arrow_field_type):
        return kinds.struct((field.name, kind_of_arrow(field.type)) for field in arrow_field_type)
    raise ValueError(f"{arrow_field_type} is no type of a typed column")


def leaf_paths(field: pa.Field) -> list[str]:
    """Return the paths of a field's leaves, as a Parquet file names them."""
    field_type = field.type
    if pa.types.is_list(field_type):
        return [f"{field.name}.list.{path}" for path in leaf_paths(field_type.value_field)]
    if pa.types.is_map(field_type):
        inner = [field_type.key_field, field_type.item_field]
        return [f"{field.name}.key_value.{path}" for child in inner for path in leaf_paths(child)]
    if pa.types.is_struct(field_type):
        return [f"{field.name}.{path}" for child in field_type for path in leaf_paths(child)]
    return [field.name]

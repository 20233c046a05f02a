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
_KINDS = {kind: name for name, kind in _SCALARS.items()}


def arrow_type(kind: Kind) -> pa.DataType:
    """Return the Arrow type of a kind."""
    if kind.name == "decimal":
        return pa.decimal128(kind.precision, kind.scale)
    if kind.name == "array":
        return pa.list_(pa.field("element", arrow_type(kind.inner[0])))
    if kind.name == "map":
        return pa.map_(*map(arrow_type, kind.inner))
    if kind.name == "struct":
        return pa.struct([pa.field(name, arrow_type(inner)) for name, inner in kind.fields.items()])
    return _SCALARS[kind.name]


def arrow_schema(columns: Iterable[tuple[str, Kind]]) -> pa.Schema:
    """Return the Arrow schema of columns."""
    return pa.schema([pa.field(name, arrow_type(kind)) for name, kind in columns])


def kind_of_arrow(there: pa.DataType) -> Kind:
    """Return the kind of an Arrow type. Raises ValueError for one that no kind has."""
    if there in _KINDS:
        return Kind(_KINDS[there])
    if pa.types.is_decimal128(there):
        return kinds.decimal(there.precision, there.scale)
    if pa.types.is_list(there):
        return Kind("array", (kind_of_arrow(there.value_type),))
    if pa.types.is_map(there):
        return Kind("map", (kind_of_arrow(there.key_type), kind_of_arrow(there.item_type)))
    if pa.types.is_struct(there):
        return kinds.struct((each.name, kind_of_arrow(each.type)) for each in there)
    raise ValueError(f"{there} is no type of a typed column")


def leaf_paths(field: pa.Field) -> list[str]:
    """Return the paths of a field's leaves, as a Parquet file names them."""
    kind = field.type
    if pa.types.is_list(kind):
        return [f"{field.name}.list.{path}" for path in leaf_paths(kind.value_field)]
    if pa.types.is_map(kind):
        inner = [kind.key_field, kind.item_field]
        return [f"{field.name}.key_value.{path}" for each in inner for path in leaf_paths(each)]
    if pa.types.is_struct(kind):
        return [f"{field.name}.{path}" for each in kind for path in leaf_paths(each)]
    return [field.name]

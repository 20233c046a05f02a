"""The columns of an Iceberg table of a topic, and how they may change.

Field ids are the catalog's; the files have none, so the table maps their columns by name. Those that only Odradek's
readers need are mapped to ids that no column has: readers pass over them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any

from odradek.errors import ErrorCode, KafkaError
from odradek.extras import extra
from odradek.model import kinds
from odradek.model.kinds import Kind, joined

with extra("iceberg"):
    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.update.schema import UpdateSchema
    from pyiceberg.types import (
        BinaryType,
        BooleanType,
        DateType,
        DecimalType,
        DoubleType,
        FloatType,
        IcebergType,
        IntegerType,
        ListType,
        LongType,
        MapType,
        NestedField,
        StringType,
        StructType,
        TimestampType,
        TimestamptzType,
        TimeType,
    )

    from odradek.columnar.typed.arrow_kinds import kind_of_arrow

NAME_MAPPING = "schema.name-mapping.default"
HIDDEN_IDS = {"batch": 1_000_000_000, kinds.VALUE_RECIPE: 1_000_000_001, kinds.VALUE_REST: 1_000_000_002}

_KINDS: dict[str, IcebergType] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "time": TimeType(),
    "timestamp": TimestamptzType(),
    "timestamp_ntz": TimestampType(),
}
_NAMES = {column_type: name for name, column_type in _KINDS.items()}
_HEADER = StructType(
    NestedField(10, "key", StringType(), required=True), NestedField(11, "value", BinaryType(), required=False)
)
RECORD = (
    NestedField(1, "partition", IntegerType(), required=True),
    NestedField(2, "offset", LongType(), required=True),
    NestedField(3, "timestamp", TimestamptzType(), required=True),
    NestedField(4, "timestampType", IntegerType(), required=True),
    NestedField(5, "key", BinaryType(), required=False),
    NestedField(6, "value", BinaryType(), required=False),
    NestedField(7, "headers", ListType(9, _HEADER, element_required=True), required=True),
)
PARTITION_ID = 1  # of the first schema, whose ids a catalog gives in order of the fields


def first_schema(columns: Sequence[tuple[str, Kind]]) -> Schema:
    """Return the schema of a new table; the catalog gives ids of its own."""
    ids = count(100)
    typed = [
        NestedField(next(ids), name, iceberg_type(column_kind, ids), required=False) for name, column_kind in columns
    ]
    return Schema(*RECORD, *typed)


def iceberg_type(column_kind: Kind, ids: Iterator[int]) -> IcebergType:
    """Return the type of a typed column, with ids that only tell its parts from each other."""
    if column_kind.name == "decimal":
        return DecimalType(column_kind.precision, column_kind.scale)
    if column_kind.name == "array":
        return ListType(next(ids), iceberg_type(column_kind.inner[0], ids), element_required=False)
    if column_kind.name == "map":
        key, value = (iceberg_type(inner, ids) for inner in column_kind.inner)
        return MapType(next(ids), key, next(ids), value, value_required=False)
    if column_kind.name == "struct":
        fields = [(name, iceberg_type(member, ids)) for name, member in column_kind.fields.items()]
        return StructType(*(NestedField(next(ids), name, member_type, required=False) for name, member_type in fields))
    return _KINDS[column_kind.name]


def kind_of_iceberg(column_type: IcebergType) -> Kind:
    """Return the kind of a type. Raises ValueError for one that typed columns do not have."""
    if column_type in _NAMES:
        return Kind(_NAMES[column_type])
    if isinstance(column_type, DecimalType):
        return kinds.decimal(column_type.precision, column_type.scale)
    if isinstance(column_type, ListType):
        return Kind("array", (kind_of_iceberg(column_type.element_type),))
    if isinstance(column_type, MapType):
        return Kind("map", (kind_of_iceberg(column_type.key_type), kind_of_iceberg(column_type.value_type)))
    if isinstance(column_type, StructType):
        return kinds.struct((field.name, kind_of_iceberg(field.field_type)) for field in column_type.fields)
    raise ValueError(f"{column_type} is no type of a typed column")


def mapping_of(schema: Schema) -> str:
    """Return the name mapping of a schema, as the property of the table."""
    names: list[dict[str, Any]] = json.loads(schema.name_mapping.model_dump_json())
    names += [{"field-id": number, "names": [name]} for name, number in HIDDEN_IDS.items()]
    return json.dumps(names, separators=(",", ":"))


def typed_columns(schema: pa.Schema) -> dict[str, Kind]:
    """Return the typed columns of a file. Raises KafkaError(INVALID_CONFIG) for types that a topic's file has not."""
    record = {field.name for field in RECORD} | HIDDEN_IDS.keys()
    try:
        return {field.name: kind_of_arrow(field.type) for field in schema if field.name not in record}
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"the file has a column that Iceberg has not: {error}") from error


def kinds_in(table_schema: Schema) -> dict[str, Kind]:
    """Return the kinds of a table's columns, without those of the record and types that typed columns do not have."""
    record = {field.name for field in RECORD}
    kinds_by_name = {}
    for field in table_schema.fields:
        if field.name not in record:
            with suppress(ValueError):
                kinds_by_name[field.name] = kind_of_iceberg(field.field_type)
    return kinds_by_name


def evolve(table: Table, transaction: Transaction, wanted: Mapping[str, Kind]) -> None:
    """Add and widen typed columns. Raises KafkaError(INVALID_CONFIG) for a change that Iceberg does not have."""
    table_kinds = kinds_in(table.schema())
    names = {field.name for field in table.schema().fields}
    changed = {}
    for name, column_kind in wanted.items():
        if name not in names:
            changed[name] = column_kind
            continue
        both = joined(table_kinds[name], column_kind) if name in table_kinds else None
        if both is None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"the column {name} of the Iceberg table is {table_kinds.get(name)} and cannot become {column_kind}: "
                "give the field of this type another name in odradek.table.schema, or drop the table",
            )
        if both != table_kinds[name]:
            changed[name] = both
    if not changed:
        return
    with transaction.update_schema() as update:
        for name, column_kind in changed.items():
            _change(update, (name,), table_kinds.get(name), column_kind)


def _change(update: UpdateSchema, path: tuple[str, ...], old: Kind | None, new: Kind) -> None:
    """Bring a column, or a part of one, from one type to another that `joined` gave."""
    if old == new:
        return
    if old is None:
        update.add_column(path, iceberg_type(new, count(1_000)))
    elif new.name == "struct":
        for name, column_kind in new.fields.items():
            _change(update, (*path, name), old.fields.get(name), column_kind)
    elif new.name in ("array", "map"):
        parts = ("element",) if new.name == "array" else ("key", "value")
        for part, before, after in zip(parts, old.inner, new.inner, strict=True):
            _change(update, (*path, part), before, after)
    else:
        update.update_column(path, iceberg_type(new, count(1_000)))

"""The columns of an Iceberg table of a topic, and how they may change.

Field ids are the catalog's; the files have none, so the table maps their columns by name. `batch`, which only
Odradek's readers need, is mapped to an id that no column has: readers pass over it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from odradek.errors import ErrorCode, KafkaError
from odradek.extras import extra

with extra("iceberg"):
    import pyarrow as pa
    from pyiceberg.exceptions import ResolveError
    from pyiceberg.io.pyarrow import pyarrow_to_schema
    from pyiceberg.schema import Schema, promote
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.name_mapping import MappedField, NameMapping
    from pyiceberg.types import (
        BinaryType,
        BooleanType,
        DoubleType,
        IcebergType,
        IntegerType,
        ListType,
        LongType,
        NestedField,
        StringType,
        StructType,
        TimestamptzType,
    )

NAME_MAPPING = "schema.name-mapping.default"
HIDDEN = "batch"
HIDDEN_ID = 1_000_000_000

_KINDS: dict[str, IcebergType] = {
    "string": StringType(),
    "bigint": LongType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
}
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


def first_schema(columns: Sequence[tuple[str, str]]) -> Schema:
    """Return the schema of a new table; the catalog gives ids of its own."""
    typed = [NestedField(100 + i, name, iceberg_type(kind), required=False) for i, (name, kind) in enumerate(columns)]
    return Schema(*RECORD, *typed)


def iceberg_type(kind: str) -> IcebergType:
    """Return the type of a typed column."""
    return _KINDS[kind]


def mapping_of(schema: Schema) -> str:
    """Return the name mapping of a schema, as the property of the table."""
    names: list[dict[str, Any]] = json.loads(schema.name_mapping.model_dump_json())
    return json.dumps([*names, {"field-id": HIDDEN_ID, "names": [HIDDEN]}], separators=(",", ":"))


def typed_columns(schema: pa.Schema) -> dict[str, IcebergType]:
    """Return the typed columns of a file. Raises KafkaError(INVALID_CONFIG) for types that a topic's file has not."""
    record = {each.name for each in RECORD} | {HIDDEN}
    fields = [each for each in schema if each.name not in record]
    names = NameMapping(
        [MappedField.model_validate({"field-id": i + 1, "names": [each.name]}) for i, each in enumerate(fields)]
    )
    try:
        found = pyarrow_to_schema(pa.schema(fields), name_mapping=names)
    except (TypeError, ValueError) as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"the file has a column that Iceberg has not: {error}") from error
    return {each.name: each.field_type for each in found.fields}


def evolve(table: Table, transaction: Transaction, wanted: Mapping[str, IcebergType]) -> None:
    """Add and widen typed columns. Raises KafkaError(INVALID_CONFIG) for a change that Iceberg does not have."""
    known = {each.name: each.field_type for each in table.schema().fields}
    changed = {name: kind for name, kind in wanted.items() if name not in known or not can_become(kind, known[name])}
    if not changed:
        return
    with transaction.update_schema() as update:
        for name, kind in changed.items():
            if name not in known:
                update.add_column(name, kind)
                continue
            if not can_become(known[name], kind):
                raise KafkaError(
                    ErrorCode.INVALID_CONFIG,
                    f"the column {name} of the Iceberg table is {known[name]} and cannot become {kind}: give the field "
                    "of this type another name in odradek.table.schema, or drop the table",
                )
            update.update_column(name, kind)


def can_become(old: IcebergType, new: IcebergType) -> bool:
    """Return True if Iceberg reads a column of the old type as one of the new type."""
    if old == new:
        return True
    if isinstance(old, StringType | BinaryType):
        return False  # PyIceberg turns them into each other, the specification does not
    try:
        return promote(old, new) == new
    except ResolveError:
        return False

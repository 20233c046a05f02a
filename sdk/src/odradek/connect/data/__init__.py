"""Connect's data model: schemas, structs, logical types, and values without schemas."""

from __future__ import annotations

from odradek.connect.data.logical import DATE, TIME, TIMESTAMP, decimal
from odradek.connect.data.schema import (
    BOOLEAN,
    BYTES,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    Field,
    Schema,
    Type,
    array,
    map_of,
    struct,
)
from odradek.connect.data.structs import Struct, check_value, plain
from odradek.connect.data.values import NULL, SchemaAndValue, infer_schema, parse_text, to_text

__all__ = [
    "BOOLEAN",
    "BYTES",
    "DATE",
    "FLOAT32",
    "FLOAT64",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "NULL",
    "STRING",
    "TIME",
    "TIMESTAMP",
    "Field",
    "Schema",
    "SchemaAndValue",
    "Struct",
    "Type",
    "array",
    "check_value",
    "decimal",
    "infer_schema",
    "map_of",
    "parse_text",
    "plain",
    "struct",
    "to_text",
]

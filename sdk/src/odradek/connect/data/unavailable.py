"""The sign for a value that a database did not send, since an update left it alone: one for each schema.

    string            the text that unavailable.value.placeholder names, here `mark`
    bytes             its bytes; of a decimal they are the unscaled number
    list of numbers   a number for each of its bytes, as Debezium writes it
    list of others    one element, the sign of its schema; of UUIDs the UUID of that name
    map               one entry, the mark under the mark

Numbers, times and booleans alone are never left out. Change capture writes these signs, and sinks leave the columns of
such values as they are.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import md5
from typing import Any
from uuid import UUID

from odradek.connect.data import logical, semantic
from odradek.connect.data.schema import Schema, Type
from odradek.connect.data.structs import Struct

_INTEGERS = (Type.INT8, Type.INT16, Type.INT32, Type.INT64)
_FLOATS = (Type.FLOAT32, Type.FLOAT64)
_UUID_VERSION = 3


@lru_cache(maxsize=1_000)
def sign(schema: Schema, mark: str) -> Any:
    """Return what stands for a value of a schema that was not sent; None if there is no such sign."""
    data = mark.encode()
    if schema.name == semantic.VARIABLE_SCALE_DECIMAL.name:
        return Struct(schema, {"scale": 0, "value": data})
    if logical.is_logical(schema):
        return logical.decode(schema, data) if schema.type is Type.BYTES else None
    if schema.type is Type.STRING:
        return mark
    if schema.type is Type.BYTES:
        return data
    if schema.type is Type.ARRAY:
        return _of_list(schema.elements, mark)
    if schema.type is Type.MAP and schema.key_schema is not None and schema.key_schema.type is Type.STRING:
        return {mark: sign(schema.elements, mark)}
    return None


def _of_list(element: Schema, mark: str) -> list[Any]:
    data = mark.encode()
    if element.name == semantic.UUID_TEXT.name:
        return [str(UUID(bytes=md5(data, usedforsecurity=False).digest(), version=_UUID_VERSION))]
    numbers = [byte - 256 if byte > 127 else byte for byte in data]
    if logical.is_logical(element) and element.type is not Type.BYTES:
        return [logical.decode(element, number) for number in numbers]
    if element.type in _INTEGERS:
        return numbers
    if element.type in _FLOATS:
        return [float(number) for number in numbers]
    if element.type is Type.BOOLEAN:
        return [bool(byte >> bit & 1) for byte in data for bit in range(8)]
    if element.name == semantic.POINT.name:
        return [semantic.point(float(number), float(number)) for number in numbers]
    return [sign(element, mark)]

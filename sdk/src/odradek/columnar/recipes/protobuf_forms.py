"""Values in Protobuf as forms: the id of the schema, the message type and tags are the form, data the texts.

Scalars are texts that cells make; messages within the message, and repeated fields, are texts that none makes.
"""

from __future__ import annotations

from typing import Any

from odradek.columnar.recipes.forms import Hole, KnownForms, Split
from odradek.columnar.typed.protobuf_values import descriptor_of, message_type
from odradek.columnar.typed.schema_prefix import decode_indexes
from odradek.errors import FormatError
from odradek.model.value_schema import ValueSchema

_VARINT, _FIXED64, _SIZED, _FIXED32 = 0, 1, 2, 5  # wire types
_ENCODINGS = {
    _VARINT: {**dict.fromkeys(("int", "bigint"), "uz"), "boolean": "B"},
    _FIXED64: {"double": "D", "bigint": "q"},
    _SIZED: dict.fromkeys(("string", "binary"), "p"),
    _FIXED32: {"float": "F", "int": "w"},
}
_SIZES = {_FIXED64: 8, _FIXED32: 4}


class ProtobufForms:
    """Splits the values of one schema. Raises FormatError for a schema that cannot be read; MissingExtra.

    Args:
        prefix_bytes: before the data, with which a path to the message type stands; 0: neither, the first type counts.
    """

    def __init__(self, schema: ValueSchema, prefix_bytes: int) -> None:
        self._file = descriptor_of(schema.text, schema.references)
        self._prefix_bytes = prefix_bytes
        self._forms = KnownForms()
        self._holes: dict[tuple[tuple[int, ...], int], Hole] = {}

    def split(self, value: bytes) -> Split | None:
        """See forms.Forms."""
        spans = []
        try:
            indexes, payload = decode_indexes(value[self._prefix_bytes :]) if self._prefix_bytes else ([0], value)
            at = len(value) - len(payload)
            while at < len(value):
                tag, at = _unsigned(value, at)
                wire = tag & 7
                end = at
                if wire == _VARINT:
                    _, end = _unsigned(value, at)
                elif wire == _SIZED:
                    size, end = _unsigned(value, at)
                    end += size
                else:
                    end += _SIZES[wire]
                if end > len(value):
                    return None
                spans.append((at, end, self._hole(tuple(indexes), tag)))
                at = end
        except (FormatError, IndexError, KeyError):
            return None
        return self._forms.split(value, spans)

    def _hole(self, indexes: tuple[int, ...], tag: int) -> Hole:
        hole = self._holes.get((indexes, tag))
        if hole is None:
            field: Any = message_type(self._file, list(indexes)).fields_by_number.get(tag >> 3)
            path = () if field is None else (field.name,)
            hole = self._holes[indexes, tag] = Hole(path, _ENCODINGS[tag & 7])
        return hole


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned varint and where it ends. Raises IndexError, KeyError for one of more than 64 bits."""
    value = shift = 0
    while shift < 70:
        byte, at = data[at], at + 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise KeyError("a varint of more than 64 bits")

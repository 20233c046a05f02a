"""Protobuf: the fields of a message type as kinds, and messages to data (google.protobuf).

    bool, float, double, string, bytes    the same        int32, sint32, sfixed32    int
    int64, sint64, sfixed64, uint32, fixed32    bigint    uint64, fixed64    decimal(20,0)    enum    string
    message    struct      repeated    array      map    map      google.protobuf.Timestamp    timestamp
    repeated ...Entry with the fields key and value    map: so Confluent's converter writes one
    google.type.Date    date    google.type.TimeOfDay    time
    confluent.type.Decimal    decimal, with the precision and scale of the field's options; string without them
    google.protobuf's wrappers    the type, nullable      its other messages, and a type within itself    string: JSON
    a message whose fields differ in case alone    string: JSON

A field without presence that was not written has Protobuf's default; one with presence is null. Columns are of the
first message type of the newest schema. What older versions wrote is read by it, as Protobuf's field numbers allow.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

from odradek.columnar.typed.protobuf_built_in import VALUES, built_in_descriptor, decimal_of, is_map, is_repeated
from odradek.errors import FormatError
from odradek.extras import extra
from odradek.model import kinds
from odradek.model.kinds import Fields, Kind
from odradek.model.protobuf_types import BUILT_IN, DATE, DECIMAL, TIME
from odradek.model.value_schema import ValueSchema

_GOOGLES = (
    *("any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type"),
    "wrappers",
)  # what a schema may import without a reference
_KINDS = {DATE: kinds.DATE, TIME: kinds.TIME}
_DEPTH_MAX = 12
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMESTAMP = "google.protobuf.Timestamp"
# By number of google.protobuf.descriptor.FieldDescriptor.TYPE_*.
_DOUBLE, _FLOAT, _INT64, _UINT64, _INT32, _FIXED64, _FIXED32, _BOOL, _STRING, _GROUP, _MESSAGE, _BYTES = range(1, 13)
_UINT32, _ENUM, _SFIXED32, _SFIXED64, _SINT32, _SINT64 = range(13, 19)
_SCALARS = {
    **dict.fromkeys((_INT32, _SINT32, _SFIXED32), kinds.INT),
    **dict.fromkeys((_INT64, _SINT64, _SFIXED64, _UINT32, _FIXED32), kinds.BIGINT),
    **dict.fromkeys((_UINT64, _FIXED64), kinds.decimal(20, 0)),
    _DOUBLE: kinds.DOUBLE,
    _FLOAT: kinds.FLOAT,
    _BOOL: kinds.BOOLEAN,
    _STRING: kinds.STRING,
    _ENUM: kinds.STRING,
    _BYTES: kinds.BINARY,
}
_Get = Callable[[Any], Any]


def descriptor_of(text: str, references: Iterable[tuple[str, str]]) -> Any:
    """Return the descriptor of a file in base64, after the files that it refers to, by name. Raises FormatError."""
    with extra("protobuf"):
        from google.protobuf import descriptor_pb2, descriptor_pool
        from google.protobuf.message import DecodeError
    pool = descriptor_pool.DescriptorPool()
    added: set[str] = set()

    def add_own(file: Any) -> None:
        """Add one of Google's files, after those that it imports."""
        if file.name not in added:
            added.add(file.name)
            for dependency in file.dependencies:
                add_own(dependency)
            pool.AddSerializedFile(file.serialized_pb)

    def add_imports(proto: Any) -> None:
        """Add the files that need no reference and that a file imports, as far as none is given."""
        for path in proto.dependency:
            if path in BUILT_IN and path not in added and path not in referenced:
                added.add(path)
                built_in = built_in_descriptor(path)
                add_imports(built_in)
                pool.Add(built_in)

    for name in _GOOGLES:
        add_own(import_module(f"google.protobuf.{name}_pb2").DESCRIPTOR)
    references = tuple(references)
    referenced = {name for name, _ in references}
    try:
        for name, encoded in (*references, ("schema.proto", text)):
            if name not in added:
                proto = descriptor_pb2.FileDescriptorProto()
                proto.ParseFromString(base64.b64decode(encoded, validate=True))
                proto.name = name
                added.add(name)
                add_imports(proto)
                pool.Add(proto)
        return pool.FindFileByName("schema.proto")
    except (ValueError, TypeError, KeyError, DecodeError) as error:
        raise FormatError(f"the Protobuf schema cannot be used: {error}") from error


def message_type(file: Any, indexes: list[int]) -> Any:
    """Return the descriptor of the message type at a path of indexes. Raises FormatError if there is none."""
    try:
        message = list(file.message_types_by_name.values())[indexes[0]]
        for index in indexes[1:]:
            message = list(message.nested_types)[index]
    except IndexError:
        raise FormatError(f"the schema has no message type at {indexes}") from None
    return message


def protobuf_fields(schema: ValueSchema) -> Fields:
    """Return the fields of the first message type. Raises FormatError; MissingExtra."""
    message = message_type(descriptor_of(schema.text, schema.references), [0])
    return [(field.name, _kind(field, (message.full_name,))) for field in message.fields if kinds.is_name(field.name)]


def _kind(field: Any, within: tuple[str, ...]) -> Kind:
    if is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return Kind("map", (_kind_of_one(key, within), _kind_of_one(value, within, field)))
    data_type = _kind_of_one(field, within)
    return Kind("array", (data_type,)) if is_repeated(field) else data_type


def _kind_of_one(field: Any, within: tuple[str, ...], declared: Any = None) -> Kind:
    """Return the kind of one value. Args: the field that declares what a Decimal is, if it is another."""
    if field.type not in (_MESSAGE, _GROUP):
        return _SCALARS[field.type]
    message = field.message_type
    if message.full_name == _TIMESTAMP:
        return kinds.TIMESTAMP
    if message.full_name == DECIMAL:
        precision, scale = decimal_of(field) or (declared and decimal_of(declared)) or (None, 0)
        return kinds.STRING if precision is None else kinds.decimal(precision, scale)
    if message.full_name in _KINDS:
        return _KINDS[message.full_name]
    if _is_wrapper(message):
        return _SCALARS[message.fields_by_name["value"].type]
    if _is_text(message, within):
        return kinds.STRING
    inside = (*within, message.full_name)
    return kinds.struct((field.name, _kind(field, inside)) for field in message.fields)


def _is_wrapper(message: Any) -> bool:
    return bool(message.file.name == "google/protobuf/wrappers.proto")


def _is_text(message: Any, within: tuple[str, ...]) -> bool:
    is_googles = message.full_name.startswith("google.protobuf.")
    has_struct = bool(message.fields) and kinds.are_distinct(field.name for field in message.fields)
    return is_googles or message.full_name in within or not has_struct or len(within) > _DEPTH_MAX


class ProtobufValues:
    """Reads values as messages of the newest schema's first type.

    Raises FormatError; MissingExtra.
    """

    def __init__(self, newest: ValueSchema) -> None:
        from google.protobuf.message_factory import GetMessageClass

        self._message = message_type(descriptor_of(newest.text, newest.references), [0])
        self._class = GetMessageClass(self._message)
        self._fields = _getters(self._message, ())

    def reader(self, writer: ValueSchema) -> Callable[[list[int], bytes], Any]:
        """Return a function of the path to the writer's message type, and payloads; ValueError: it does not fit."""
        file = descriptor_of(writer.text, writer.references)
        names: dict[tuple[int, ...], str] = {}

        def data(indexes: list[int], payload: bytes) -> Any:
            message_path = tuple(indexes)
            if message_path not in names:
                names[message_path] = message_type(file, indexes).full_name
            if names[message_path] != self._message.full_name:
                raise ValueError(f"the value is a {names[message_path]}, the columns are of {self._message.full_name}")
            return self.read(payload)

        return data

    def read(self, payload: bytes) -> dict[str, Any]:
        """Return the fields of a message. Raises ValueError."""
        message = self._class()
        try:
            message.ParseFromString(payload)
        except Exception as error:  # DecodeError, without importing it
            raise ValueError(str(error)) from error
        return {name: get(message) for name, get in self._fields.items()}


def _getters(message: Any, within: tuple[str, ...]) -> dict[str, _Get]:
    inside = (*within, message.full_name)
    return {field.name: _getter(field, inside) for field in message.fields if kinds.is_name(field.name)}


def _getter(field: Any, within: tuple[str, ...]) -> _Get:
    name = field.name
    if is_map(field):
        key, value = (_convert(field.message_type.fields_by_name[part], within) for part in ("key", "value"))
        if field.message_type.GetOptions().map_entry:
            return lambda message: {key(k): value(v) for k, v in getattr(message, name).items()}
        parts = _getters(field.message_type, within)
        return lambda message: {parts["key"](entry): parts["value"](entry) for entry in getattr(message, name)}
    convert = _convert(field, within)
    if is_repeated(field):
        return lambda message: [convert(element) for element in getattr(message, name)]
    if field.has_presence:
        return lambda message: convert(getattr(message, name)) if message.HasField(name) else None
    return lambda message: convert(getattr(message, name))


def _convert(field: Any, within: tuple[str, ...]) -> _Get:
    """Return what makes data of one value of a field."""
    if field.type == _ENUM:
        names = {number: enum_value.name for number, enum_value in field.enum_type.values_by_number.items()}
        return lambda number: names.get(number, str(number))
    if field.type not in (_MESSAGE, _GROUP):
        return lambda value: value
    message = field.message_type
    if message.full_name == _TIMESTAMP:
        return lambda message: _EPOCH + timedelta(seconds=message.seconds, microseconds=message.nanos // 1000)
    if message.full_name == DECIMAL and decimal_of(field) is None:
        return lambda message: str(VALUES[DECIMAL](message))
    if message.full_name in VALUES:
        return VALUES[message.full_name]
    if _is_wrapper(message):
        return lambda message: message.value
    if _is_text(message, within):
        from google.protobuf.json_format import MessageToDict

        return lambda message: MessageToDict(message, preserving_proto_field_name=True)
    getters = _getters(message, within)
    return lambda message: {name: get(message) for name, get in getters.items()}

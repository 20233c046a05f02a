"""ProtobufConverter: Protobuf messages with the schemas of a registry, in Confluent's wire format.

Written: a struct is a proto3 message; optional scalars are `optional`, or boxes of wrappers.proto if that is
configured; logical types have the messages that Confluent's converter gives them:

    Timestamp    google.protobuf.Timestamp      Decimal    confluent.type.Decimal, with precision and scale as options
    Date         google.type.Date               Time       google.type.TimeOfDay

A message has the name of its struct, within others without what is before the last dot; without a name, it has that of
Confluent's converter: ConnectDefault1, ConnectDefault2 ... in the order of the fields. A map is a list of messages
...Entry with the fields `key` and `value`, as there.

Read: fields become the Connect types of the same kind, those messages the logical types, enums text, a `oneof` and the
boxes of wrappers.proto optional fields; a Decimal whose options do not tell its scale is text. Values that are no
structs are wrapped into a message with one field.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from importlib import import_module
from typing import Any

from odradek.client.serializers import registry as registries
from odradek.client.serializers.protobuf import path_of
from odradek.columnar.typed.protobuf_built_in import (
    VALUES,
    built_in_descriptor,
    decimal_of,
    decimal_options,
    is_map,
    is_repeated,
    set_value,
)
from odradek.columnar.typed.schema_prefix import decode_indexes, decode_prefix
from odradek.connect.config import ConfigDef, Kind
from odradek.connect.converters.registered import RegisteredConverter, as_data_error
from odradek.connect.data import logical
from odradek.connect.data import schema as schemas
from odradek.connect.data.schema import Schema, Type
from odradek.connect.data.structs import Struct, check_value
from odradek.connect.data.values import NULL, SchemaAndValue, infer_schema
from odradek.connect.errors import DataError
from odradek.errors import FormatError
from odradek.extras import extra
from odradek.model.protobuf_types import DATE, DECIMAL, TIME

_TIMESTAMP = "google.protobuf.Timestamp"
_DEFAULT = "ConnectDefault"
_DEFAULT_NAME = f"{_DEFAULT}1"
_ENTRY = "Entry"
_WRAPPED = "connect_value"
_BOXES = frozenset(  # well-known messages around a scalar, so that it can be absent
    f"google.protobuf.{primitive}Value"
    for primitive in ("Bool", "Int32", "Int64", "UInt32", "UInt64", "Float", "Double", "String", "Bytes")
)
_DAYS = {DATE: logical.DATE, TIME: logical.TIME}
_MESSAGES = {  # of logical types, and where they are
    logical.TIMESTAMP_NAME: (_TIMESTAMP, "google/protobuf/timestamp.proto"),
    logical.DECIMAL_NAME: (DECIMAL, "confluent/type/decimal.proto"),
    logical.DATE_NAME: (DATE, "google/type/date.proto"),
    logical.TIME_NAME: (TIME, "google/type/timeofday.proto"),
}
_BOX_NAMES = {
    "INT32": "Int32", "INT64": "Int64", "FLOAT": "Float", "DOUBLE": "Double", "BOOL": "Bool", "STRING": "String",
    "BYTES": "Bytes",
}  # fmt: skip
_SCALARS = {
    Type.INT8: "INT32",
    Type.INT16: "INT32",
    Type.INT32: "INT32",
    Type.INT64: "INT64",
    Type.FLOAT32: "FLOAT",
    Type.FLOAT64: "DOUBLE",
    Type.BOOLEAN: "BOOL",
    Type.STRING: "STRING",
    Type.BYTES: "BYTES",
}


def _google() -> Any:
    with extra("protobuf"):
        for module_name in ("timestamp", "wrappers"):  # known to the default pool from here on
            import_module(f"google.protobuf.{module_name}_pb2")
        return import_module("google.protobuf")


class _Messages:
    """Writes the file descriptor of a schema. Args: whether an optional scalar is in a box of wrappers.proto."""

    def __init__(self, file_name: str, *, boxes: bool = False) -> None:
        _google()
        self._boxes = boxes
        self._pb2 = import_module("google.protobuf.descriptor_pb2")
        self.file = self._pb2.FileDescriptorProto(name=file_name, syntax="proto3")
        self._unnamed = 0  # names that were made so far

    def add(self, schema: Schema) -> str:
        """Add the message of a struct and return its full name."""
        package, _, name = (schema.name or self._made_name()).rpartition(".")
        if package:
            self.file.package = ".".join(_name(part) for part in package.split("."))
        message = self.file.message_type.add(name=_name(name))
        self._fill(message, schema, f".{self.file.package}.{message.name}" if package else f".{message.name}")
        return (f"{self.file.package}." if package else "") + str(message.name)

    def _made_name(self) -> str:
        self._unnamed += 1
        return f"{_DEFAULT}{self._unnamed}"

    def _name_within(self, message: Any, schema: Schema, field: str) -> str:
        """Return the name of a struct's or map's message within another; no field or message there has it."""
        taken = {field, message.name, *(nested.name for nested in message.nested_type)}
        name = _name((schema.name or self._made_name()).rpartition(".")[2])
        if schema.type is Type.MAP:
            name = f"{''.join(part[:1].upper() + part[1:] for part in name.split('_'))}{_ENTRY}"
        elif name == field:
            name += "Message"
        while name in taken:
            name = self._made_name() + (_ENTRY if schema.type is Type.MAP else "")
        return name

    def _fill(self, message: Any, schema: Schema, path: str) -> None:
        for number, struct_field in enumerate(schema.fields, 1):
            field = message.field.add(name=_name(struct_field.name), number=number)
            self._type(message, field, struct_field.schema, path)
            if struct_field.schema.optional and field.label != self._label("REPEATED") and not field.type_name:
                field.proto3_optional = True
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")

    def _label(self, name: str) -> Any:
        return self._pb2.FieldDescriptorProto.Label.Value(f"LABEL_{name}")

    def _type(self, message: Any, field: Any, schema: Schema, path: str) -> None:
        types = self._pb2.FieldDescriptorProto.Type
        field.label = self._label("OPTIONAL")
        if schema.name in _MESSAGES:
            self._refer(field, *_MESSAGES[schema.name])
            if schema.name == logical.DECIMAL_NAME:
                options = decimal_options(schema.parameter(logical.PRECISION), str(logical.scale_of(schema)))
                field.options.MergeFromString(options)
        elif schema.type is Type.STRUCT:
            nested = message.nested_type.add(name=self._name_within(message, schema, field.name))
            self._fill(nested, schema, f"{path}.{nested.name}")
            field.type, field.type_name = types.Value("TYPE_MESSAGE"), f"{path}.{nested.name}"
        elif schema.type is Type.ARRAY:
            self._type(message, field, schema.elements, path)
            field.label = self._label("REPEATED")
        elif schema.type is Type.MAP:
            self._map(message, field, schema, path)
        elif self._boxes and schema.optional:
            box = f"google.protobuf.{_BOX_NAMES[_SCALARS[schema.type]]}Value"
            self._refer(field, box, "google/protobuf/wrappers.proto")
        else:
            field.type = types.Value(f"TYPE_{_SCALARS[schema.type]}")

    def _refer(self, field: Any, name: str, path: str) -> None:
        """Give a field the type of a message of another file."""
        field.type, field.type_name = self._pb2.FieldDescriptorProto.Type.Value("TYPE_MESSAGE"), f".{name}"
        if path not in self.file.dependency:
            self.file.dependency.append(path)

    def _map(self, message: Any, field: Any, schema: Schema, path: str) -> None:
        assert schema.key_schema is not None
        name = self._name_within(message, schema, field.name)
        entry = message.nested_type.add(name=name)
        for number, (part, of_part) in enumerate((("key", schema.key_schema), ("value", schema.elements)), 1):
            self._type(entry, entry.field.add(name=part, number=number), of_part, f"{path}.{name}")
        field.type = self._pb2.FieldDescriptorProto.Type.Value("TYPE_MESSAGE")
        field.type_name, field.label = f"{path}.{name}", self._label("REPEATED")


def _name(name: str) -> str:
    made = re.sub(r"\W", "_", name, flags=re.ASCII)
    return made if made and not made[0].isdigit() else f"_{made}"


def _message_class(files: list[Any], name: str) -> Any:
    """Return the class of a message. Raises DataError for descriptors that do not fit together."""
    google = _google()
    pool = import_module("google.protobuf.descriptor_pool").DescriptorPool()
    factory = import_module("google.protobuf.message_factory")
    names_added = {file.name for file in files}

    def add(file: Any) -> None:
        for dependency in file.dependency:
            if dependency not in names_added:
                names_added.add(dependency)
                add(built_in_descriptor(dependency))
        pool.Add(file)

    try:
        for file in files:
            add(file)
        return factory.GetMessageClass(pool.FindMessageTypeByName(name))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"the Protobuf schema cannot be used with protobuf {google.__version__}: {error}") from error


def _fill_message(message: Any, schema: Schema, value: Struct) -> None:
    for struct_field in schema.fields:
        field_value = value[struct_field.name]
        if field_value is None:
            continue
        check_value(struct_field.schema, field_value, struct_field.name)
        name = _name(struct_field.name)
        if struct_field.schema.type is Type.STRUCT:
            getattr(message, name).SetInParent()
            _fill_message(getattr(message, name), struct_field.schema, field_value)
        elif struct_field.schema.type is Type.ARRAY:
            for element in field_value:
                _add(getattr(message, name), struct_field.schema.elements, element)
        elif struct_field.schema.type is Type.MAP:
            _fill_map(getattr(message, name), struct_field.schema, field_value)
        elif struct_field.schema.name == logical.TIMESTAMP_NAME:
            getattr(message, name).FromMilliseconds(logical.ms_of(field_value))
        elif message.DESCRIPTOR.fields_by_name[name].message_type is not None:
            _set_message(getattr(message, name), struct_field.schema, field_value)
        else:
            setattr(message, name, _scalar(struct_field.schema, field_value))


def _set_message(message: Any, schema: Schema, value: Any) -> None:
    """Write a value into the message that stands for it: a built-in one, or a box."""
    if message.DESCRIPTOR.full_name not in VALUES:
        message.value = _scalar(schema, value)
        return
    if schema.name == logical.DECIMAL_NAME:  # with all digits of its scale
        value = logical.decode(schema, logical.encode(schema, value))
    try:
        set_value(message, Decimal(value) if isinstance(value, str) else value)
    except InvalidOperation:
        raise DataError(f"{value!r} is no decimal") from None


def _scalar(schema: Schema, value: Any) -> Any:
    if schema.name == logical.DECIMAL_NAME:  # of a registered schema that has it as text
        return str(value)
    if logical.is_logical(schema):
        return logical.encode(schema, value)
    return bytes(value) if schema.type is Type.BYTES else value


def _add(target: Any, schema: Schema, element: Any) -> None:
    if element is None:
        raise DataError("a Protobuf list cannot contain null")
    if schema.type is Type.STRUCT:
        _fill_message(target.add(), schema, element)
    elif schema.name == logical.TIMESTAMP_NAME:
        target.add().FromMilliseconds(logical.ms_of(element))
    elif schema.type in (Type.ARRAY, Type.MAP):
        raise DataError("a Protobuf list cannot contain lists or maps: put them into structs")
    elif hasattr(target, "add"):
        _set_message(target.add(), schema, element)
    else:
        target.append(_scalar(schema, element))


def _fill_map(target: Any, schema: Schema, values: Mapping[Any, Any]) -> None:
    assert schema.key_schema is not None
    if hasattr(target, "add"):  # a list of entries
        entry = schemas.struct([("key", schema.key_schema), ("value", schema.elements)])
        for key, element in values.items():
            _fill_message(target.add(), entry, Struct(entry, {"key": key, "value": element}))
        return
    for key, element in values.items():
        if schema.elements.type is Type.STRUCT:
            _fill_message(target[key], schema.elements, element)
        elif schema.elements.name == logical.TIMESTAMP_NAME:
            target[key].FromMilliseconds(logical.ms_of(element))
        elif target.GetEntryClass().DESCRIPTOR.fields_by_name["value"].message_type is not None:
            _set_message(target[key], schema.elements, element)
        else:
            target[key] = _scalar(schema.elements, element)


# --- reading ----------------------------------------------------------------------------------------------------------


def _read_schema(descriptor: Any, inside: tuple[str, ...] = ()) -> Schema:
    name = str(descriptor.full_name)
    if name in inside:
        raise DataError(f"the Protobuf message {name} refers to itself, which Connect's schemas cannot")
    fields = [(str(field.name), _field_schema(field, (*inside, name))) for field in descriptor.fields]
    return schemas.struct(fields, name=None if name == _DEFAULT_NAME else name)


def _field_schema(field: Any, inside: tuple[str, ...]) -> Schema:
    if is_map(field):
        key, value = (field.message_type.fields_by_name[part] for part in ("key", "value"))
        elements = _single(value, inside, field)
        is_list = not field.message_type.GetOptions().map_entry
        return schemas.map_of(_single(key, inside), elements.as_optional(is_list and bool(value.has_presence)))
    if is_repeated(field):
        return schemas.array(_single(field, inside))
    return _single(field, inside).as_optional(bool(field.has_presence))


def _single(field: Any, inside: tuple[str, ...], declared: Any = None) -> Schema:
    """Return the schema of one value. Args: the field that declares what a Decimal is, if it is another."""
    kinds = {
        field.CPPTYPE_INT32: schemas.INT32,
        field.CPPTYPE_INT64: schemas.INT64,
        field.CPPTYPE_UINT32: schemas.INT64,
        field.CPPTYPE_UINT64: schemas.INT64,
        field.CPPTYPE_FLOAT: schemas.FLOAT32,
        field.CPPTYPE_DOUBLE: schemas.FLOAT64,
        field.CPPTYPE_BOOL: schemas.BOOLEAN,
        field.CPPTYPE_ENUM: schemas.STRING,
    }
    if field.cpp_type in kinds:
        return kinds[field.cpp_type]
    if field.cpp_type == field.CPPTYPE_STRING:
        return schemas.BYTES if field.type == field.TYPE_BYTES else schemas.STRING
    if field.message_type.full_name == _TIMESTAMP:
        return logical.TIMESTAMP
    if field.message_type.full_name == DECIMAL:
        decimal_digits = decimal_of(field) or (decimal_of(declared) if declared is not None else None)
        return (
            schemas.STRING
            if decimal_digits is None
            else logical.decimal(decimal_digits[1], precision=decimal_digits[0])
        )
    if field.message_type.full_name in _DAYS:
        return _DAYS[field.message_type.full_name]
    if field.message_type.full_name in _BOXES:
        return _single(field.message_type.fields_by_name["value"], inside)
    return _read_schema(field.message_type, inside)


def _read_message(message: Any, schema: Schema) -> Struct:
    made = Struct(schema)
    for field in message.DESCRIPTOR.fields:
        of_field = schemas.Schema.field(schema, field.name)
        assert of_field is not None
        field_value = getattr(message, field.name)
        if is_map(field):
            value_field = field.message_type.fields_by_name["value"]
            elements = of_field.schema.elements
            is_list = not field.message_type.GetOptions().map_entry
            pairs = (
                [(entry.key, _value_of(entry)) for entry in field_value]
                if is_list
                else [(key, field_value[key]) for key in field_value]
            )
            made[field.name] = {
                key: None if value is None else _read_single(value_field, elements, value) for key, value in pairs
            }
        elif is_repeated(field):
            made[field.name] = [_read_single(field, of_field.schema.elements, element) for element in field_value]
        elif not field.has_presence or message.HasField(field.name):
            made[field.name] = _read_single(field, of_field.schema, field_value)
    return made


def _value_of(entry: Any) -> Any:
    """Return the value of an entry; None for one that is not there, which only a message tells."""
    field = entry.DESCRIPTOR.fields_by_name["value"]
    return entry.value if not field.has_presence or entry.HasField("value") else None


def _read_single(field: Any, schema: Schema, value: Any) -> Any:
    if field.cpp_type == field.CPPTYPE_ENUM:
        converted = field.enum_type.values_by_number.get(value)
        return str(value) if converted is None else converted.name
    if schema.name == logical.TIMESTAMP_NAME:
        return logical.moment_of(value.ToMilliseconds())
    if field.message_type is not None and field.message_type.full_name in VALUES:
        try:
            converted = VALUES[field.message_type.full_name](value)
            return str(converted) if schema.type is Type.STRING else converted
        except ValueError as error:
            raise DataError(f"{field.name} is no {field.message_type.full_name}: {error}") from error
    if field.message_type is not None and field.message_type.full_name in _BOXES:
        return value.value
    if field.message_type is not None:
        return _read_message(value, schema.as_optional(False) if schema.optional else schema)
    return value


class ProtobufConverter(RegisteredConverter):
    """Protobuf messages with the schemas of a registry."""

    config_def = RegisteredConverter.config_def + (
        ConfigDef().define(
            "wrapper.for.nullables", Kind.BOOLEAN, False,
            "Whether optional scalars are the messages of google/protobuf/wrappers.proto, instead of `optional`.",
        )
    )  # fmt: skip

    def configure(self, configs: Mapping[str, Any], *, is_key: bool) -> None:
        super().configure(configs, is_key=is_key)
        _google()
        self._written: dict[Schema, tuple[registries.Schema, Any, Schema]] = {}
        self._read: dict[tuple[int, tuple[int, ...]], tuple[Any, Schema]] = {}

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None and (schema is None or schema.optional):
            return None
        schema = schema or infer_schema(value)
        if schema is None:
            raise DataError("a Protobuf schema does not follow from the value: use a JSON converter")
        if schema not in self._written:
            self._written[schema] = self._described(topic, schema)
        registered, message_class, struct_schema = self._written[schema]
        schema_id = self.written_id(topic, registered, str(message_class.DESCRIPTOR.full_name))
        message = message_class()
        whole = value if schema.type is Type.STRUCT else Struct(struct_schema, {_WRAPPED: value})
        try:
            _fill_message(message, struct_schema, whole)
        except (TypeError, ValueError) as error:
            raise DataError(f"the value does not fit its Protobuf schema: {error}") from error
        return self.prefixed(schema_id, message.SerializeToString(), path_of(message_class.DESCRIPTOR))

    def _described(self, topic: str, schema: Schema) -> tuple[registries.Schema, Any, Schema]:
        struct_schema = schema if schema.type is Type.STRUCT else schemas.struct({_WRAPPED: schema})
        boxes = bool(self.configs["wrapper.for.nullables"])
        messages = _Messages(f"{_name(topic)}-{'key' if self.is_key else 'value'}.proto", boxes=boxes)
        name = messages.add(struct_schema)
        text = base64.b64encode(messages.file.SerializeToString(deterministic=True)).decode()
        return registries.Schema(text, "PROTOBUF"), _message_class([messages.file], name), struct_schema

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return NULL
        try:
            schema_id, after_id = decode_prefix(data)
            path, payload = decode_indexes(after_id)
        except FormatError as error:
            raise as_data_error(error) from error
        message_key = schema_id, tuple(path)
        if message_key not in self._read:
            self._read[message_key] = self._message_of(schema_id, path)
        message_class, schema = self._read[message_key]
        message = message_class()
        try:
            message.ParseFromString(payload)
        except Exception as error:  # protobuf's DecodeError
            raise DataError(f"the bytes do not match schema {schema_id}: {error}") from error
        made = _read_message(message, schema)
        if [field.name for field in schema.fields] == [_WRAPPED]:
            return SchemaAndValue(schema.fields[0].schema, made[_WRAPPED])
        return SchemaAndValue(schema, made)

    def _message_of(self, schema_id: int, path: list[int]) -> tuple[Any, Schema]:
        registered = self.asked(lambda: self.registry.schema(schema_id, serialized=True))
        if registered.kind != "PROTOBUF":
            raise DataError(f"schema {schema_id} is {registered.kind}, not PROTOBUF")
        files: list[Any] = []
        last = self._collect(registered, "", files)
        name, types = last.package, last.message_type
        try:
            for index in path:
                name, types = f"{name}.{types[index].name}".lstrip("."), types[index].nested_type
        except IndexError:
            raise DataError(f"schema {schema_id} has no message at {path}") from None
        message_class = _message_class(files, name)
        return message_class, _read_schema(message_class.DESCRIPTOR)

    def path_to(self, schema_id: int, name: str) -> list[int]:
        """Return the path of the message of a registered schema that has a name; of the first one for none."""
        if not name:
            return [0]
        registered = self.asked(lambda: self.registry.schema(schema_id, serialized=True))
        file = self._collect(registered, "", [])
        for number, message_type in enumerate(file.message_type):
            if name in (message_type.name, f"{file.package}.{message_type.name}"):
                return [number]
        raise DataError(f"schema {schema_id} has no message {name}")

    def writes(self, schema_id: int, path: list[int]) -> Schema:
        """Return the schema of a registered message, whose values are then written as that message."""
        message_class, schema = self._message_of(schema_id, path)
        self._written[schema] = (self.registry.schema(schema_id), message_class, schema)
        return schema

    def _collect(self, registered: registries.Schema, name: str, files: list[Any]) -> Any:
        """Add the files that a schema imports, and its own; return its own."""
        for reference in registered.references:
            self._collect(self._referred(reference), reference.name, files)
        file = import_module("google.protobuf.descriptor_pb2").FileDescriptorProto()
        try:
            file.ParseFromString(base64.b64decode(registered.text, validate=True))
        except (binascii.Error, ValueError) as error:
            raise DataError("the registry gives no descriptor (?format=serialized) of a Protobuf schema") from error
        file.name = name or file.name or "schema.proto"
        files.append(file)
        return file

    def _referred(self, reference: registries.SchemaReference) -> registries.Schema:
        referenced: registries.Schema = self.asked(
            lambda: self.registry.at(reference.subject, reference.version, serialized=True)[1]
        )
        return referenced

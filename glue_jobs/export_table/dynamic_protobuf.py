"""Protobuf messages in Confluent's wire format as values, by the registry's schemas, without classes from protoc.

    magic, schema_id                      client/serializers/wire.py
    schema_id -> file descriptor          as the registry serializes it; built here if the registry returns text
    its references, Google's own files    in a separate descriptor pool per schema, so that versions do not conflict
    indexes -> message type               in the file, then in each enclosing type

Values follow Protobuf's JSON mapping, with fields under their names in the .proto file: enums by name (a number without
a name as text), well-known types as their JSON. The exceptions: 64-bit integers stay numbers, and bytes stay bytes. A
field with presence is left out if it is not set; any other has its default, a repeated one is empty.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import MutableMapping, MutableSequence
from importlib import import_module
from typing import Any

from odradek.client.serializers import Registry, Schema
from odradek.columnar.typed.protobuf_built_in import built_in_descriptor
from odradek.columnar.typed.schema_prefix import decode_indexes, decode_prefix
from odradek.errors import ErrorCode, KafkaError, OdradekError
from odradek.model.protobuf_types import BUILT_IN
from odradek.registry.protobuf import files, wire
from odradek.registry.schemas import is_serialized, parse_proto

_MODULES = ("descriptor_pb2", "descriptor_pool", "json_format", "message", "message_factory")
_WELL_KNOWN = "google.protobuf."
_HAVE_JSON = {f"{_WELL_KNOWN}{name}" for name in ("Timestamp", "Duration", "FieldMask", "Struct", "Value", "ListValue")}
_WRAPPERS = {
    f"{_WELL_KNOWN}{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
_EMPTY = 'syntax = "proto3";'
_FLOAT32 = struct.Struct("<f")


class DynamicProtobufDeserializer:
    """Deserializes Protobuf to a value: a dict of fields, or for a well-known type its JSON.

    Raises KafkaError, when called: INVALID_RECORD for bytes that do not match their schema, an id that is unknown to
    the registry, an invalid path to a type, or an invalid schema; the registry's error if it does not answer.
    """

    def __init__(self, registry: Registry) -> None:
        """Prepare for a registry. Raises KafkaError(INVALID_CONFIG) without protobuf."""
        try:
            self._google = {name: import_module(f"google.protobuf.{name}") for name in _MODULES}
        except ImportError as error:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, "Protobuf needs protobuf: pip install 'odradek[protobuf]'"
            ) from error
        self._registry = registry
        self._files: dict[int, Any] = {}
        self._types: dict[tuple[int, ...], Any] = {}

    def __call__(self, data: bytes | None) -> Any:
        if data is None:
            return None
        schema_id, after_prefix = decode_prefix(data)
        indexes, payload = decode_indexes(after_prefix)
        try:
            message_type = self._types.get((schema_id, *indexes))
            if message_type is None:
                message_type = self._type_at(schema_id, indexes)
                self._types[schema_id, *indexes] = message_type
            return self._value_of(message_type.FromString(payload))
        except OdradekError:
            raise
        except Exception as error:  # protobuf's DecodeError; ValueError and others for values without a JSON form
            raise KafkaError(
                ErrorCode.INVALID_RECORD, f"the bytes do not match schema {schema_id}: {type(error).__name__} {error}"
            ) from error

    # --- types --------------------------------------------------------------------------------------------------------

    def _type_at(self, schema_id: int, indexes: list[int]) -> Any:
        """Return the class of the messages at the path."""
        file = self._files.get(schema_id)
        if file is None:
            file = self._files[schema_id] = self._file_of(schema_id)
        types, descriptor = list(file.message_types_by_name.values()), None
        for index in indexes:
            if index >= len(types):
                raise KafkaError(ErrorCode.INVALID_RECORD, f"schema {schema_id} has no message type at {indexes}")
            descriptor = types[index]
            types = list(descriptor.nested_types)
        return self._google["message_factory"].GetMessageClass(descriptor)

    def _file_of(self, schema_id: int) -> Any:
        schema = self._registry.schema(schema_id, serialized=True)
        if schema.kind != "PROTOBUF":
            raise KafkaError(ErrorCode.INVALID_RECORD, f"schema {schema_id} is {schema.kind}, not PROTOBUF")
        texts: dict[str, str] = {}
        self._gather(schema, texts)
        name = f"schema-{schema_id}.proto"  # a descriptor may have no name, and the pool needs one
        pool = self._google["descriptor_pool"].DescriptorPool()
        self._add(pool, name, schema.text, texts, set())
        return pool.FindFileByName(name)

    def _gather(self, schema: Schema, texts: dict[str, str]) -> None:
        """Collect the files that a schema refers to, directly or not, by their import paths."""
        for reference in schema.references:
            if reference.name not in texts:
                _, referenced = self._registry.at(reference.subject, reference.version, serialized=True)
                texts[reference.name] = referenced.text
                self._gather(referenced, texts)

    def _add(self, pool: Any, name: str, text: str, texts: dict[str, str], added: set[str]) -> None:
        """Add a file to the pool, after its imports."""
        added.add(name)
        descriptor = base64.b64decode(text if is_serialized(text) else _serialized(text, texts))
        file = self._google["descriptor_pb2"].FileDescriptorProto.FromString(descriptor)
        file.name = name
        for path in file.dependency:
            if path not in added:
                self._add(pool, path, texts.get(path) or _unregistered(path), texts, added)
        pool.AddSerializedFile(file.SerializeToString())

    # --- values -------------------------------------------------------------------------------------------------------

    def _value_of(self, message: Any) -> Any:
        name = message.DESCRIPTOR.full_name
        if name in _HAVE_JSON:
            return self._google["json_format"].MessageToDict(message)
        if name in _WRAPPERS:
            return self._single(message.value, message.DESCRIPTOR.fields_by_name["value"])
        if name == f"{_WELL_KNOWN}Any":
            return self._any(message)
        return {
            field.name: self._field(getattr(message, field.name), field)
            for field in message.DESCRIPTOR.fields
            if not field.has_presence or message.HasField(field.name)
        }

    def _any(self, message: Any) -> dict[str, Any]:
        """Return the packed message with its type; its bytes if the schema does not contain that type."""
        if not message.type_url:
            return {}
        document = {"@type": message.type_url}
        try:
            descriptor = message.DESCRIPTOR.file.pool.FindMessageTypeByName(message.type_url.rpartition("/")[2])
        except KeyError:
            return {**document, "value": message.value}
        inner = self._value_of(self._google["message_factory"].GetMessageClass(descriptor).FromString(message.value))
        is_plain = descriptor.full_name not in {*_HAVE_JSON, *_WRAPPERS, f"{_WELL_KNOWN}Any"}
        return {**document, **inner} if is_plain else {**document, "value": inner}

    def _field(self, value: Any, field: Any) -> Any:
        # Checked first: google.protobuf.Struct is a mapping too, and ListValue a sequence.
        if isinstance(value, self._google["message"].Message):
            return self._value_of(value)
        if isinstance(value, MutableMapping):
            value_field = field.message_type.fields_by_name["value"]
            return {_key(key): self._single(value[key], value_field) for key in value}
        if isinstance(value, MutableSequence):
            return [self._single(element, field) for element in value]
        return self._single(value, field)

    def _single(self, value: Any, field: Any) -> Any:
        if isinstance(value, self._google["message"].Message):
            return self._value_of(value)
        if field.enum_type is not None:
            enum_value = field.enum_type.values_by_number.get(value)
            return str(value) if enum_value is None else enum_value.name
        return _shortest(value) if field.type == field.TYPE_FLOAT else value


def _key(key: Any) -> str:
    """Return a map's key in JSON."""
    return key if isinstance(key, str) else json.dumps(key)


def _shortest(value: float) -> float:
    """Return the shortest decimal that equals this 32-bit number: 0.1, not 0.10000000149011612."""
    for digits in range(6, 9):
        short = float(f"{value:.{digits}g}")
        if _FLOAT32.unpack(_FLOAT32.pack(short))[0] == value:
            return short
    return value


def _serialized(text: str, texts: dict[str, str]) -> str:
    """Return the descriptor, in base64, of a file that a registry returned as text. Raises SchemaInvalid."""
    file = parse_proto(text)
    references = {path: parse_proto(schema_text) for path, schema_text in texts.items()}
    imported = {path for proto_file in (file, *references.values()) for path, _ in proto_file.imports}
    for path in imported - references.keys() - BUILT_IN.keys():
        if not path.startswith(files.GOOGLE):  # those are known, as those of BUILT_IN
            references[path] = parse_proto(_unregistered(path))
    return wire.encode_descriptor(*files.resolve(file, references))


def _unregistered(path: str) -> str:
    """Return a file that clients do not register: one of BUILT_IN, or of Google's that are installed.

    Any other file is empty: it may be imported only for its options, and a missing type is reported.
    """
    if path in BUILT_IN:
        return base64.b64encode(built_in_descriptor(path).SerializeToString()).decode()
    if path.startswith("google/"):
        try:
            module = import_module(path.removesuffix(".proto").replace("/", ".") + "_pb2")
            return base64.b64encode(module.DESCRIPTOR.serialized_pb).decode()
        except ImportError:
            pass
    return _EMPTY

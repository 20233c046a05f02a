"""Protobuf over a registry, for message classes that protoc has generated.

The schema is registered as its file descriptor in base64, as Confluent's Python client does; the files that it imports,
Google's own excepted, are registered before it under their paths and referred to.
"""

from __future__ import annotations

import base64
from typing import Any

from odradek.client.serializers.registry import Registry, Schema, SchemaReference
from odradek.client.serializers.subject_names import OfTopic, SubjectName, topic_name
from odradek.client.serializers.wire import decode_indexes, decode_prefix, encode_prefix
from odradek.errors import ErrorCode, KafkaError

_OWN = "google/protobuf/"


class ProtobufSerializer(OfTopic):
    """Messages of one type to Protobuf, with the id of their schema and the path to their type before it.

    Args:
        message_type: a generated class.
        subject: such as `orders-value`, or a strategy (subject_names.py).
        auto_register: False looks the schema up in place of registering it.
    """

    def __init__(
        self,
        registry: Registry,
        message_type: Any,
        subject: str | SubjectName = topic_name,
        *,
        auto_register: bool = True,
    ) -> None:
        descriptor = message_type.DESCRIPTOR
        self._type, self._registry, self._subject = message_type, registry, subject
        self._auto_register = auto_register
        self._record = str(descriptor.full_name)
        self._file = descriptor.file
        self._schema: Schema | None = None
        self._indexes = path_of(descriptor)

    def _serialize(self, value: Any, subject: str) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, self._type):
            raise KafkaError(
                ErrorCode.INVALID_RECORD, f"the value must be a {self._type.__name__}, not {type(value).__name__}"
            )
        if self._schema is None:
            self._schema = self._schema_of(self._file)
        payload: bytes = value.SerializeToString()
        return encode_prefix(self._find(subject, self._schema), self._indexes) + payload

    def _find(self, subject: str, schema: Schema) -> int:
        return (self._registry.register if self._auto_register else self._registry.lookup)(subject, schema)

    def _schema_of(self, file: Any) -> Schema:
        """A file's schema; what it imports is registered (or looked up) on the way."""
        references = []
        for each in file.dependencies:
            if not each.name.startswith(_OWN):
                schema = self._schema_of(each)
                self._find(each.name, schema)
                version = self._registry.version_of(each.name, schema)
                references.append(SchemaReference(each.name, each.name, version))
        return Schema(base64.b64encode(file.serialized_pb).decode(), "PROTOBUF", tuple(references))


class ProtobufDeserializer:
    """Protobuf to messages of one type; the type at hand is trusted, so no call is made.

    Raises KafkaError(INVALID_RECORD), when called, for bytes that are no such message.
    """

    def __init__(self, message_type: Any) -> None:
        self._type = message_type

    def __call__(self, data: bytes | None) -> Any:
        if data is None:
            return None
        _, payload = decode_indexes(decode_prefix(data)[1])
        message = self._type()
        try:
            message.ParseFromString(payload)
        except Exception as error:  # protobuf's DecodeError, without importing protobuf here
            raise KafkaError(ErrorCode.INVALID_RECORD, f"the bytes are not a {self._type.__name__}: {error}") from error
        return message


def path_of(descriptor: Any) -> list[int]:
    """Where a message type stands in its file: the index in each enclosing type, outermost first."""
    path: list[int] = []
    while descriptor is not None:
        parent = descriptor.containing_type
        siblings = descriptor.file.message_types_by_name if parent is None else parent.nested_types_by_name
        path.insert(0, list(siblings).index(descriptor.name))
        descriptor = parent
    return path

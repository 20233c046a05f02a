"""Protobuf over a registry, for message classes that protoc has generated.

The schema is registered as its file descriptor in base64, as Confluent's Python client does. A file that imports others
than Google's own is refused: references are not registered here.
"""

from __future__ import annotations

import base64
from typing import Any

from odradek.client.serializers.registry import Registry, Schema
from odradek.client.serializers.wire import decode_indexes, decode_prefix, encode_prefix
from odradek.errors import ErrorCode, KafkaError


class ProtobufSerializer:
    """Messages of one type to Protobuf, with the id of their schema and the path to their type before it.

    Args:
        message_type: a generated class.
        auto_register: False looks the schema up in place of registering it.
    """

    def __init__(self, registry: Registry, message_type: Any, subject: str, *, auto_register: bool = True) -> None:
        descriptor = message_type.DESCRIPTOR
        foreign = [each.name for each in descriptor.file.dependencies if not each.name.startswith("google/protobuf/")]
        if foreign:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"{descriptor.file.name} imports {', '.join(foreign)}: not supported"
            )
        self._type, self._registry, self._subject = message_type, registry, subject
        self._auto_register = auto_register
        self._schema = Schema(base64.b64encode(descriptor.file.serialized_pb).decode(), "PROTOBUF")
        self._indexes = path_of(descriptor)

    def __call__(self, value: Any) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, self._type):
            raise KafkaError(ErrorCode.INVALID_RECORD, f"a {self._type.__name__} is wanted, not {type(value).__name__}")
        find = self._registry.register if self._auto_register else self._registry.lookup
        payload: bytes = value.SerializeToString()
        return encode_prefix(find(self._subject, self._schema), self._indexes) + payload


class ProtobufDeserializer:
    """Protobuf to messages of one type; the type at hand is trusted, so no call is made."""

    def __init__(self, message_type: Any) -> None:
        self._type = message_type

    def __call__(self, data: bytes | None) -> Any:
        if data is None:
            return None
        _, payload = decode_indexes(decode_prefix(data)[1])
        message = self._type()
        message.ParseFromString(payload)
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

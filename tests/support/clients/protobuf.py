"""Protobuf messages of a .proto file's text, as a writer with protoc would have them, framed as serializers do."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from odradek.columnar.typed.schema_prefix import encode_prefix
from odradek.registry.protobuf.files import resolve
from odradek.registry.protobuf.text import parse_text
from odradek.registry.protobuf.wire import encode_descriptor

GOOGLES = [
    google_module.DESCRIPTOR.serialized_pb
    for google_module in (timestamp_pb2, duration_pb2, wrappers_pb2, struct_pb2, any_pb2)
]


def descriptor_of(text: str, *imported: str) -> descriptor_pb2.FileDescriptorProto:
    references = {f"shop/{i}.proto": parse_text(imported_text) for i, imported_text in enumerate(imported)}
    encoded = encode_descriptor(*resolve(parse_text(text), references))
    return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(encoded))


def messages_of(text: str, *imported: str) -> Callable[[str], Any]:
    """Classes by full name; what is imported is shop/0.proto, shop/1.proto and on."""
    pool = descriptor_pool.DescriptorPool()
    for google in GOOGLES:
        pool.AddSerializedFile(google)
    for i, schema_text in enumerate([*imported, text]):
        file = descriptor_of(schema_text, *imported[:i])
        file.name = f"shop/{i}.proto"
        pool.Add(file)  # type: ignore[no-untyped-call]
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))  # type: ignore[no-untyped-call]


def framed(schema_id: int, indexes: list[int], message: Any) -> bytes:
    payload: bytes = message.SerializeToString()
    return encode_prefix(schema_id, indexes) + payload

"""Serializers in Confluent's wire format: JSON, Avro (fastavro), Protobuf (protobuf), over a schema registry.

    registry = HttpRegistry.discover("https://....lambda-url.eu-west-1.on.aws")      # a deployment's own
    registry = HttpRegistry("https://registry.example", user="ann", password="...")   # any other
    Producer(..., value_serializer=AvroSerializer(registry, schema))                  # under <topic>-value
    Consumer(..., value_deserializer=AvroDeserializer(registry))

Each is a function of one value, so it fits `key_serializer` and the rest. None stays None: a tombstone.
"""

from __future__ import annotations

from odradek.client.serializers.avro import AvroDeserializer, AvroSerializer
from odradek.client.serializers.json import JsonDeserializer, JsonSerializer
from odradek.client.serializers.protobuf import ProtobufDeserializer, ProtobufSerializer
from odradek.client.serializers.registry import (
    HttpRegistry,
    MemoryRegistry,
    Registry,
    Schema,
    SchemaReference,
)
from odradek.client.serializers.subject_names import record_name, topic_name, topic_record_name

__all__ = [
    "AvroDeserializer",
    "AvroSerializer",
    "HttpRegistry",
    "JsonDeserializer",
    "JsonSerializer",
    "MemoryRegistry",
    "ProtobufDeserializer",
    "ProtobufSerializer",
    "Registry",
    "Schema",
    "SchemaReference",
    "record_name",
    "topic_name",
    "topic_record_name",
]

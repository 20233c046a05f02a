"""Confluent's registry client and serializers against our registry, and ours beside them: byte for byte the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import odradek
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.schema_registry.schema_registry_client import ConfigCompatibilityLevel, ServerConfig
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import duration_pb2
from google.rpc import error_details_pb2
from google.rpc.context import attribute_context_pb2
from odradek.client import serializers as ours
from odradek.errors import ErrorCode, KafkaError
from odradek.glue_jobs.export_table.dynamic_protobuf import DynamicProtobufDeserializer
from odradek.local import ThreadedService
from odradek.registry.schemas import is_serialized

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [{"name": "id", "type": "long"}, {"name": "who", "type": ["null", "string"], "default": None}],
    }
)
ORDER_2 = ORDER.replace("]}", ', {"name": "note", "type": "string", "default": "-"}]}', 1)
JSON_ORDER = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Order",
        "type": "object",
        "properties": {"id": {"type": "integer"}, "who": {"type": "string"}},
        "required": ["id"],
        "additionalProperties": False,
    }
)
VALUE = {"id": 7, "who": "ann"}


@pytest.fixture(scope="module")
def service() -> Iterator[ThreadedService]:
    with odradek.local(registry_port=0) as running:
        yield running


@pytest.fixture
def client(service: ThreadedService) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": service.registry_url}) as made:
        yield made


@pytest.fixture
def registry(service: ThreadedService) -> ours.HttpRegistry:
    """Ours, over the signed function."""
    return ours.HttpRegistry.discover(**service.client_config)


def value_of(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def test_avro_both_ways(client: SchemaRegistryClient, registry: ours.HttpRegistry) -> None:
    theirs = AvroSerializer(client, ORDER)(VALUE, value_of("avro"))
    mine = ours.AvroSerializer(registry, ORDER).for_topic("avro", False)(VALUE)
    assert theirs == mine
    assert AvroDeserializer(client)(mine, value_of("avro")) == VALUE
    assert ours.AvroDeserializer(registry)(theirs) == VALUE
    assert client.get_latest_version("avro-value").version == 1  # nobody registered it twice


def test_avro_evolves_under_the_default_level(client: SchemaRegistryClient, registry: ours.HttpRegistry) -> None:
    first = AvroSerializer(client, ORDER)(VALUE, value_of("evolves"))
    second = AvroSerializer(client, ORDER_2)({**VALUE, "note": "n"}, value_of("evolves"))
    read = ours.AvroDeserializer(registry, ORDER_2)
    assert read(first) == {**VALUE, "note": "-"}
    assert read(second) == {**VALUE, "note": "n"}
    third = ORDER.replace("]}", ', {"name": "must", "type": "string"}]}', 1)
    with pytest.raises(SchemaRegistryError) as refused:
        AvroSerializer(client, third)({**VALUE, "must": "m"}, value_of("evolves"))
    assert (refused.value.http_status_code, refused.value.error_code) == (409, 409)
    assert "'must'" in refused.value.error_message
    with pytest.raises(KafkaError, match="'must'"):
        ours.AvroSerializer(registry, third, "evolves-value")({**VALUE, "must": "m"})


def test_avro_with_references(client: SchemaRegistryClient, registry: ours.HttpRegistry) -> None:
    unit = '{"type": "enum", "name": "Unit", "namespace": "shop", "symbols": ["C", "F"]}'
    client.register_schema("unit", Schema(unit, "AVRO"))
    text = '{"type": "record", "name": "Heat", "fields": [{"name": "unit", "type": "shop.Unit"}]}'
    theirs = AvroSerializer(client, Schema(text, "AVRO", [SchemaReference("shop.Unit", "unit", 1)]))
    data = theirs({"unit": "C"}, value_of("heat"))
    reference = ours.SchemaReference("shop.Unit", "unit", 1)
    assert ours.AvroSerializer(registry, text, "heat-value", references=(reference,))({"unit": "C"}) == data
    assert ours.AvroDeserializer(registry)(data) == {"unit": "C"}
    assert AvroDeserializer(client)(data, value_of("heat")) == {"unit": "C"}
    with pytest.raises(SchemaRegistryError) as refused:
        client.delete_version("unit", 1)
    assert refused.value.error_code == 42206


def test_json_both_ways(client: SchemaRegistryClient, registry: ours.HttpRegistry) -> None:
    theirs = JSONSerializer(JSON_ORDER, client)(VALUE, value_of("json"))
    mine = ours.JsonSerializer(registry, JSON_ORDER).for_topic("json", False)(VALUE)
    assert theirs is not None
    assert mine is not None
    assert theirs[:5] == mine[:5]  # spaces differ in the payload: each library writes its own
    assert JSONDeserializer(JSON_ORDER, schema_registry_client=client)(mine, value_of("json")) == VALUE
    assert ours.JsonDeserializer(has_schema=True)(theirs) == VALUE


def test_protobuf_both_ways(client: SchemaRegistryClient, registry: ours.HttpRegistry) -> None:
    link_type = error_details_pb2.Help.Link  # a type within the ninth of its file
    link = link_type(description="read this", url="https://example.com")
    theirs = ProtobufSerializer(link_type, client)(link, value_of("proto"))
    mine = ours.ProtobufSerializer(registry, link_type).for_topic("proto", False)(link)
    assert theirs == mine
    assert ProtobufDeserializer(link_type, {}, client)(mine, value_of("proto")) == link
    assert ours.ProtobufDeserializer(link_type)(theirs) == link


def test_a_table_gets_confluents_messages_by_the_registry_alone(
    client: SchemaRegistryClient, registry: ours.HttpRegistry
) -> None:
    read = DynamicProtobufDeserializer(registry)
    link = error_details_pb2.Help.Link(description="read this", url="https://example.com")
    written = ProtobufSerializer(type(link), client)(link, value_of("columns"))
    assert read(written) == {"description": "read this", "url": "https://example.com"}
    context = attribute_context_pb2.AttributeContext()
    context.api.service = "flights"
    context.request.time.seconds = 1
    written = ProtobufSerializer(type(context), client)(context, value_of("context"))
    decoded = read(written)
    assert decoded["api"]["service"] == "flights"
    assert decoded["request"]["time"] == "1970-01-01T00:00:01Z"
    text = 'syntax = "proto3"; message A { map<string, B> b = 1; message B { int64 c = 1; } }'  # as Java clients write
    schema_id = client.register_schema("text", Schema(text, "PROTOBUF"))
    assert registry.schema(schema_id).text == registry.at("text", 1)[1].text == text
    descriptor = registry.schema(schema_id, serialized=True)
    assert registry.at("text", 1, serialized=True) == (schema_id, descriptor)
    assert is_serialized(descriptor.text)
    assert read(b"\x00" + schema_id.to_bytes(4) + b"\x04\x00\x00" + b"\x08\x07") == {"c": 7}
    with pytest.raises(KafkaError, match="refused /schemas/ids/9999") as caught:
        read(b"\x00\x00\x00\x27\x0f\x00")
    assert caught.value.code is ErrorCode.INVALID_RECORD


def test_a_proto_file_in_text_is_the_one_in_a_descriptor(client: SchemaRegistryClient) -> None:
    """Java clients write text, Python clients descriptors: one schema, one id; and Python reads Java's."""
    text = """
        syntax = "proto3";
        package shop;
        import "google/protobuf/duration.proto";
        message Order { // with a comment
          int64 id = 1; map<string, Line> lines = 2; google.protobuf.Duration wait = 3;
          oneof pay { string card = 4; bool cash = 5; }
          optional string note = 6;
          enum State { NEW = 0; SENT = 1; }
          State state = 7;
          message Line { double price = 1; }
        }"""
    schema_id = client.register_schema("from-java", Schema(text, "PROTOBUF"))
    serialized = client.get_schema(schema_id, fmt="serialized").schema_str
    assert client.register_schema("from-python", Schema(serialized, "PROTOBUF")) == schema_id
    message = _message_of(serialized, "shop.Order")
    order = message(id=1, note="")
    order.wait.seconds = 2
    order.lines["a"].price = 2.5
    order.card = "visa"
    data = ProtobufSerializer(message, client)(order, value_of("from-java"))
    assert int.from_bytes(data[1:5]) == schema_id
    assert ProtobufDeserializer(message, {}, client)(data, value_of("from-java")) == order


def _message_of(serialized: str, name: str) -> Any:
    import base64

    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(serialized))
    file.name = "shop/order.proto"
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(duration_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def test_protobuf_imports_are_registered_and_referred_to(
    client: SchemaRegistryClient, registry: ours.HttpRegistry
) -> None:
    context = attribute_context_pb2.AttributeContext(destination={"ip": "192.0.2.1"})
    theirs = ProtobufSerializer(attribute_context_pb2.AttributeContext, client)(context, value_of("imports"))
    mine = ours.ProtobufSerializer(registry, attribute_context_pb2.AttributeContext).for_topic("imports", False)
    assert mine(context) == theirs
    names = [dependency.name for dependency in attribute_context_pb2.DESCRIPTOR.dependencies]
    foreign = [name for name in names if not name.startswith("google/protobuf/")]
    latest = client.get_latest_version("imports-value").schema
    assert [reference.name for reference in latest.references] == foreign


def test_subjects_versions_and_deletion(client: SchemaRegistryClient) -> None:
    one = client.register_schema("life", Schema('"string"', "AVRO"))
    client.set_compatibility("life", "NONE")
    two = client.register_schema("life", Schema('"int"', "AVRO"))
    assert two != one
    assert client.register_schema("life-elsewhere", Schema(' { "type" : "string" } ', "AVRO")) == one
    assert client.get_versions("life") == [1, 2]
    assert client.get_latest_version("life").schema_id == two
    assert client.lookup_schema("life", Schema('"string"', "AVRO")).version == 1
    assert client.delete_version("life", 1) == 1
    assert client.get_versions("life") == [2]
    with pytest.raises(SchemaRegistryError) as raised:
        client.get_version("life", 1)
    assert raised.value.error_code == 40402
    assert client.get_version("life", 1, deleted=True).version == 1
    assert client.delete_version("life", 1, permanent=True) == 1
    assert client.delete_subject("life") == [2]
    assert "life" not in client.get_subjects()
    assert client.delete_subject("life", permanent=True) == [2]
    with pytest.raises(SchemaRegistryError) as raised:
        client.get_versions("life")
    assert raised.value.error_code == 40401


def test_levels_and_configuration(client: SchemaRegistryClient) -> None:
    assert client.get_compatibility() == "BACKWARD"
    client.set_config("levels", ServerConfig(compatibility=ConfigCompatibilityLevel.FULL_TRANSITIVE))
    assert client.get_compatibility("levels") == "FULL_TRANSITIVE"
    client.register_schema("levels", Schema(ORDER, "AVRO"))
    assert client.test_compatibility("levels", Schema(ORDER_2, "AVRO"))
    assert not client.test_compatibility("levels", Schema('"string"', "AVRO"))
    assert client.get_config("levels").compatibility_level == "FULL_TRANSITIVE"
    client.delete_config("levels")
    with pytest.raises(SchemaRegistryError) as none:
        client.get_compatibility("levels")
    assert none.value.error_code == 40408
    assert client.get_global_mode() == "READWRITE"


def test_producer_and_consumer_use_the_topic(service: ThreadedService, registry: ours.HttpRegistry) -> None:
    with odradek.Admin(**service.client_config) as admin:
        admin.create_topics([odradek.NewTopic("orders", 1)])
    make = ours.AvroSerializer(registry, ORDER)
    with odradek.Producer(**service.client_config, key_serializer=make, value_serializer=make) as producer:
        producer.send("orders", VALUE, key=VALUE).result()
    assert registry.at("orders-key", None)[0] == registry.at("orders-value", None)[0]
    read = ours.AvroDeserializer(registry)
    with odradek.Consumer(
        **service.client_config, auto_offset_reset="earliest", key_deserializer=read, value_deserializer=read
    ) as consumer:
        consumer.assign([odradek.TopicPartition("orders", 0)])
        [record] = [record for _ in range(1) for record in _records(consumer)]
        assert record.key == record.value == VALUE


def _records(consumer: Any) -> list[Any]:
    while True:
        polled = consumer.poll(timeout_ms=5_000)
        records = [record for part in polled.values() for record in part] if isinstance(polled, dict) else list(polled)
        if records:
            return records

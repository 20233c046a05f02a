"""Confluent's wire format, the registry's REST API and the serializers over it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from odradek.client.serializers import (
    AvroDeserializer,
    AvroSerializer,
    HttpRegistry,
    JsonDeserializer,
    JsonSerializer,
    MemoryRegistry,
    ProtobufDeserializer,
    ProtobufSerializer,
    Registry,
    Schema,
)
from odradek.columnar.typed.schema_prefix import decode_indexes, decode_prefix, encode_prefix
from odradek.errors import ErrorCode, FormatError, KafkaError

AVRO = json.dumps(
    {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, {"name": "who", "type": "string"}]}
)


@pytest.fixture
def service() -> Iterator[HttpRegistry]:
    """Confluent's REST API, as much of it as serializers call."""
    memory = MemoryRegistry()
    calls: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            calls.append(self.path)
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            schema = Schema(body["schema"], body.get("schemaType", "AVRO"))
            subject = self.path.split("/")[2]
            if "refused" in subject:
                self.answer(409, {"error_code": 409, "message": "incompatible"})
            elif self.path.endswith("/versions"):
                self.answer(200, {"id": memory.register(subject, schema)})
            else:
                self.answer(404, {"error_code": 40403, "message": "Schema not found"})

        def do_GET(self) -> None:
            calls.append(self.path)
            schema = memory.schema(int(self.path.rpartition("/")[2]))
            self.answer(200, {"schema": schema.text, "schemaType": schema.kind})

        def answer(self, status: int, body: dict[str, Any]) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    registry = HttpRegistry(f"http://127.0.0.1:{server.server_port}")
    registry.calls = calls  # type: ignore[attr-defined]
    yield registry
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_prefix_is_confluents() -> None:
    assert encode_prefix(258) == b"\x00\x00\x00\x01\x02"
    assert encode_prefix(1, [0]) == b"\x00\x00\x00\x00\x01\x00"
    assert encode_prefix(1, [1, 0]) == b"\x00\x00\x00\x00\x01\x04\x02\x00"
    assert decode_prefix(b"\x00\x00\x00\x01\x02rest") == (258, b"rest")
    assert decode_indexes(b"\x00x") == ([0], b"x")
    assert decode_indexes(b"\x04\x02\x00x") == ([1, 0], b"x")


@pytest.mark.parametrize("data", [b"", b"\x00\x00", b"\x01\x00\x00\x00\x01", b"{}"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        decode_prefix(data)


@pytest.mark.parametrize("data", [b"", b"\x04\x02", b"\x01", b"\x02\x01", b"\xff\xff\x03"])
def test_broken_paths_are_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        decode_indexes(data)


def test_json_with_and_without_a_schema() -> None:
    value = {"a": [1, None, "ä"]}
    assert JsonDeserializer()(JsonSerializer()(value)) == value
    registry = MemoryRegistry()
    data = JsonSerializer(registry, "{}", "orders-value")(value)
    assert data is not None
    assert data.startswith(b"\x00\x00\x00\x00\x01{")
    assert JsonDeserializer(has_schema=True)(data) == value
    assert registry.schema(1) == Schema("{}", "JSON")
    assert JsonSerializer()(None) is None
    assert JsonDeserializer()(None) is None
    with pytest.raises(KafkaError) as caught:
        JsonSerializer()({1, 2})
    assert caught.value.code is ErrorCode.INVALID_RECORD
    with pytest.raises(KafkaError):
        JsonSerializer(registry)


def test_a_registry_is_asked_once_for_each_schema(service: HttpRegistry) -> None:
    serialize = JsonSerializer(service, "{}", "my topic/value")
    first = serialize(1)
    assert first == serialize(1) == b"\x00\x00\x00\x00\x011"
    assert service.schema(1) == service.schema(1) == Schema("{}", "JSON")
    assert service.calls == ["/subjects/my%20topic%2Fvalue/versions", "/schemas/ids/1"]  # type: ignore[attr-defined]


def test_what_a_registry_refuses_is_told(service: HttpRegistry) -> None:
    with pytest.raises(KafkaError, match="incompatible") as caught:
        JsonSerializer(service, "{}", "refused")(1)
    assert caught.value.code is ErrorCode.INVALID_RECORD
    with pytest.raises(KafkaError, match="Schema not found"):
        JsonSerializer(service, "{}", "t", auto_register=False)(1)
    with pytest.raises(KafkaError) as caught:
        HttpRegistry("http://127.0.0.1:1", timeout_ms=500).schema(1)
    assert caught.value.code is ErrorCode.NETWORK_EXCEPTION
    with pytest.raises(KafkaError):
        HttpRegistry("registry:8081")


def test_avro_without_fastavro_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fastavro", None)
    with pytest.raises(KafkaError, match=r"pip install .odradek"):
        AvroSerializer(MemoryRegistry(), AVRO, "s")


def test_avro_round_trips_and_resolves_to_a_readers_schema() -> None:
    registry: Registry = MemoryRegistry()
    data = AvroSerializer(registry, AVRO, "orders-value")({"id": 7, "who": "ann"})
    assert data == b"\x00\x00\x00\x00\x01\x0e\x06ann"
    assert AvroDeserializer(registry)(data) == {"id": 7, "who": "ann"}
    newer = json.loads(AVRO)
    newer["fields"] = [newer["fields"][0], {"name": "note", "type": "string", "default": "-"}]
    assert AvroDeserializer(registry, json.dumps(newer))(data) == {"id": 7, "note": "-"}
    with pytest.raises(KafkaError, match="does not fit"):
        AvroSerializer(registry, AVRO, "orders-value")({"id": "x"})
    with pytest.raises(KafkaError, match="invalid Avro schema"):
        AvroSerializer(registry, '{"type": "nonsense"}', "s")


def test_protobuf_carries_the_path_to_its_type() -> None:
    from google.protobuf import struct_pb2

    registry = MemoryRegistry()
    value = struct_pb2.Value(string_value="x")
    data = ProtobufSerializer(registry, struct_pb2.Value, "v")(value)
    assert data == b"\x00\x00\x00\x00\x01\x02\x02" + value.SerializeToString()  # the second type of its file
    assert ProtobufDeserializer(struct_pb2.Value)(data) == value
    assert registry.schema(1).kind == "PROTOBUF"
    with pytest.raises(KafkaError, match="must be a"):
        ProtobufSerializer(registry, struct_pb2.Value, "v")("text")

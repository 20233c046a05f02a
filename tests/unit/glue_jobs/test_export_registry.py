"""Values of a registry on their way into a table: as JSON by their schema, or as they were where they are not of it."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from odradek.client.serializers import AvroDeserializer, AvroSerializer, MemoryRegistry
from odradek.errors import ErrorCode, KafkaError
from odradek.glue_jobs.export_table.registry_values import address_of, decode_batch

FLIGHT = json.dumps(
    {
        "type": "record",
        "name": "Flight",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "fare", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
            {"name": "ref", "type": {"type": "string", "logicalType": "uuid"}},
            {"name": "raw", "type": ["null", "bytes"]},
            {"name": "legs", "type": {"type": "array", "items": "double"}},
        ],
    }
)
VALUE: dict[str, Any] = {
    "id": 7,
    "at": datetime(2013, 1, 2, 3, 4, 5, 6_000, UTC),
    "fare": Decimal("12.30"),
    "ref": UUID(int=5),
    "raw": b"\x00\xff",
    "legs": [1.5, float("nan")],
}


def records(values: list[bytes | None]) -> pa.RecordBatch:
    columns = {"key": pa.array([b"k"] * len(values), pa.binary()), "value": pa.array(values, pa.binary())}
    return pa.RecordBatch.from_pydict({**columns, "offset": list(range(len(values)))})


def test_records_become_json_and_the_rest_is_kept_as_it_was() -> None:
    registry = MemoryRegistry()
    whole = AvroSerializer(registry, FLIGHT, subject="flights-value")(VALUE)
    number = AvroSerializer(registry, '"long"', subject="numbers-value")(7)
    assert whole is not None
    originals = [whole, None, b"no Avro", whole[:9], number]
    decoded = decode_batch(records(originals), AvroDeserializer(registry))
    assert decoded.schema.names == ["key", "value", "offset", "original"]
    values = decoded.column("value").to_pylist()
    assert json.loads(values[0]) == {
        "id": 7,
        "at": "2013-01-02T03:04:05.006000Z",
        "fare": "12.30",
        "ref": "00000000-0000-0000-0000-000000000005",
        "raw": "AP8=",
        "legs": [1.5, None],
    }
    assert values[1:] == [None, b"", b"", b""]
    assert decoded.column("original").to_pylist() == originals


def test_a_registry_that_does_not_answer_makes_no_dead_letters() -> None:
    def away(_: bytes | None) -> Any:
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the registry does not answer")

    with pytest.raises(KafkaError, match="does not answer"):
        decode_batch(records([b"\x00\x00\x00\x00\x01x"]), away)


@pytest.mark.parametrize("value_format", ["avro", "protobuf"])
def test_the_format_needs_a_registry(value_format: str) -> None:
    with pytest.raises(KafkaError, match=f"--format {value_format} needs --registry"):
        address_of(value_format, "", "", "")
    with pytest.raises(KafkaError, match="must begin with http"):
        address_of(value_format, "registry.example", "", "")


def test_protobuf_that_is_missing_is_told_before_anything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf.json_format", None)
    with pytest.raises(KafkaError, match=r"pip install .odradek\[protobuf\]"):
        address_of("protobuf", "http://registry.example", "", "")

"""Valid bytes to start from: what Kafka's clients wrote, what we write, and frames of every API and version served."""

from __future__ import annotations

import dataclasses
import random
import typing
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode as KioErrorCode
from odradek.engine.partition.head import PartitionHead, ProducerState, RecentBatch, encode_head
from odradek.engine.partition.index_row import IndexRow, encode_index_row
from odradek.format.compression import compress
from odradek.format.offset_index import encode_offset_index
from odradek.format.record_batch import RecordBatchBuilder, encode_batch, patch_log_append_time
from odradek.format.segment import SegmentBuilder
from odradek.format.tail_entry import TailEntry, encode_tail_entry
from odradek.model.record import CompressionType, Record
from odradek.protocol.frame import encode_request, encode_response, request_schema, response_schema
from odradek.protocol.versions import SUPPORTED_VERSIONS

GOLDEN = Path(__file__).parents[2] / "golden" / "batches"
MESSAGES_A_SCHEMA = 3
BATCH_BYTES_MAX = 4_000  # larger ones cost time and show nothing more


@cache
def batches() -> list[bytes]:
    """Whole batches in every compression, with and without headers, gaps, producers, LogAppendTime."""
    inputs = [path.read_bytes() for path in sorted(GOLDEN.glob("*.bin"))]
    for compression in CompressionType:
        for size in (1, 3, 40):
            builder = RecordBatchBuilder(compression)
            for n in range(size):
                key = None if n % 3 == 0 else b"key-%d" % (n % 5)
                value = None if n % 7 == 6 else b"value %d " % n * (n % 4)
                builder.append(
                    1_700_000_000_000 + n * (-1) ** n * 1_000, key, value, (("h", b"x"), ("", None))[: n % 3]
                )
            data = builder.build(producer_id=size * 7 - 8, producer_epoch=0 if size > 1 else -1, base_sequence=size - 1)
            inputs += [data, patch_log_append_time(data, 1_700_000_000_000)]
        gaps = [Record(offset, offset, b"k", b"v" * offset, ()) for offset in (3, 4, 17, 30)]
        inputs.append(encode_batch(gaps, compression_type=compression, base_offset=2, last_offset=50))
    inputs = [data for data in inputs if len(data) <= BATCH_BYTES_MAX]
    return inputs + [a + b for a, b in zip(inputs[::3], inputs[1::3], strict=False)]


@cache
def packed() -> list[tuple[CompressionType, bytes]]:
    """Compressed bytes."""
    contents = [b"", b"a", b"abc" * 40, bytes(5_000), random.Random(1).randbytes(700), bytes(range(256)) * 9]
    made = [(codec, compress(codec, content)) for codec in CompressionType for content in contents]
    return made + [(codec, one + other) for (codec, one), (again, other) in pairwise(made) if codec is again]


@cache
def tail_entries() -> list[bytes]:
    """Packed tail entries, one and several."""
    chance = random.Random(2)
    one = [
        encode_tail_entry(
            TailEntry(
                chance.randbytes(16), n * 100, 100 + n, n + 1, 1_700_000_000_000 + n, n - 1, n - 1, n - 1, n, n % 4
            )
        )
        for n in range(12)
    ]
    return [*one, b"".join(one), b"".join(one[:3])]


@cache
def heads() -> list[Any]:
    """Items of partition heads."""
    producers = {
        n: ProducerState(n % 7, n % 1000, tuple(RecentBatch(n % 7, i, 1, i) for i in range(n % 6)))
        for n in (0, 1, 5, 2**62)
    }
    entries = tuple(tail_entries()[:12])
    return [
        encode_head(head)
        for head in (
            PartitionHead(),
            PartitionHead(next_offset=78, tail=entries, producers=producers, evictions=3),
            PartitionHead(next_offset=10, tail_base_offset=4, tail=entries[:3], log_start_offset=2),
        )
    ]


@cache
def index_rows() -> list[Any]:
    """Items of index rows of both kinds."""
    entries = tuple(TailEntry(bytes([n] * 16), 0, 100, 5, n) for n in range(6))
    return [
        encode_index_row(IndexRow(0, 30, 5, 600, 9, entries)),
        encode_index_row(IndexRow(0, 5, 0, 100, 0, entries[:1])),
        encode_index_row(IndexRow(9, 12, 5, 30, 4, segment_started_ms=3, elements=(4, 8))),
        encode_index_row(IndexRow(100, 200, 77, 5_000, 1, segment_id=bytes(16), index_bytes=400)),
    ]


@cache
def offset_indexes() -> list[bytes]:
    """Index objects of segments."""
    made = []
    for size in (0, 1, 7, 40):
        builder = SegmentBuilder(10, interval_bytes=100)
        for n in range(size):
            builder.append(encode_batch([Record(0, n * 7 % 5, b"k", b"v" * n)]), builder.next_offset + n % 2, n // 10)
        made.append(encode_offset_index(builder.build(builder.next_offset + 3).index))
    return made


@cache
def requests() -> list[bytes]:
    """Request frames of every API and version."""
    chance = random.Random(3)
    return [
        encode_request(message(request_schema(api_key, version), chance), correlation_id=7, client_id="fuzz")
        for api_key, (low, high) in SUPPORTED_VERSIONS.items()
        for version in range(low, high + 1)
        for _ in range(MESSAGES_A_SCHEMA)
    ]


@cache
def responses() -> list[tuple[type[Any], bytes]]:
    """Response frames of every API and version, with the class that a client reads them as."""
    chance = random.Random(4)
    schemas = [
        response_schema(api_key, version)
        for api_key, (low, high) in SUPPORTED_VERSIONS.items()
        for version in range(low, high + 1)
    ]
    return [
        (schema, b"".join(encode_response(message(schema, chance), correlation_id=7)))
        for schema in schemas
        for _ in range(MESSAGES_A_SCHEMA)
    ]


def message(schema: type[Any], chance: random.Random) -> Any:
    """A message of a schema: arrays of up to three, nulls where they may be, real batches as records."""
    return schema(**{field.name: _field(field, chance) for field in dataclasses.fields(schema)})


def _field(field: dataclasses.Field[Any], chance: random.Random) -> Any:
    field_type, nullable = _without_none(field.type)
    if "tag" in field.metadata:
        if chance.random() < 0.5:
            return field.default
    elif nullable and chance.random() < 0.2:
        return None
    if typing.get_origin(field_type) is tuple:
        element = _without_none(typing.get_args(field_type)[0])[0]
        return tuple(_value(field, element, chance) for _ in range(chance.choice([0, 1, 1, 2, 3])))
    return _value(field, field_type, chance)


def _value(field: dataclasses.Field[Any], field_type: Any, chance: random.Random) -> Any:
    if dataclasses.is_dataclass(field_type):
        return message(typing.cast("type[Any]", field_type), chance)
    match field.metadata["kafka_type"]:
        case "bool":
            return chance.random() < 0.5
        case "string":
            return chance.choice(["", "t", "topic-ä", "x" * 30])
        case "bytes":
            return chance.randbytes(chance.choice([0, 5, 40]))
        case "records":
            return chance.choice(batches())
        case "error_code":
            return chance.choice(list(KioErrorCode))
        case "uuid":
            return chance.choice([None, UUID(bytes=chance.randbytes(16), version=4)])
        case "timedelta_i32" | "timedelta_i64":
            return timedelta(milliseconds=chance.choice([0, -1, 30_000]))
        case "datetime_i64":
            return datetime(2026, 1, 1, tzinfo=UTC)
        case "float64":
            return chance.random()
        case integer:
            bits = int(integer.lstrip("uint"))
            low = 0 if integer.startswith("u") else -1
            return chance.choice([low, 0, 1, 5, 2 ** (bits - 1) - 1])


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if typing.get_origin(annotation) not in (UnionType, typing.Union):
        return annotation, False
    return next(part for part in typing.get_args(annotation) if part is not NoneType), True

"""Bad input through frames: Kafka's code for each, no trace in any log, and never an exception but BadFrame."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

import pytest
from odradek.dispatcher import BadFrame
from odradek.dispatcher.answer import build
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.format.crc import crc32c
from odradek.protocol.api import ApiKey
from odradek.protocol.frame import encode_request, request_schema

from tests.support.dispatching import ask, context, dispatcher
from tests.support.engine import Store, batch, memory_store
from tests.support.kafka.messages import request_frame

PRODUCE_VERSIONS = [3, 7, 9, 10, 12]
MESSAGE_BYTES_MAX = 100_000
GOOD = batch([b"one", b"two"])


@pytest.fixture
def store() -> Store:
    return memory_store()


@pytest.fixture
async def engine(store: Store) -> Engine:
    engine = store.engine(message_bytes_max=MESSAGE_BYTES_MAX)
    await engine.topics.create("flights", 2)
    await engine.topics.create("planes", 1, {"cleanup.policy": "compact"})
    await put(engine, batch([b"zero"]))
    return engine


async def put(
    engine: Engine, records: bytes | None, topic: str = "flights", partition: int = 0, version: int = 9
) -> Any:
    data = {"index": partition, "records": records}
    fields = {"acks": -1, "topic_data": [{"name": topic, "partition_data": [data]}]}
    response = await ask(engine, ApiKey.PRODUCE, version, fields)
    return response.responses[0].partition_responses[0]


async def get(engine: Engine, offset: int, topic: str = "flights", partition: int = 0, **fields: Any) -> Any:
    partition_asked = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **fields}
    request = {"max_bytes": 1 << 20, "topics": [{"topic": topic, "partitions": [partition_asked]}]}
    response = await ask(engine, ApiKey.FETCH, 11, request)
    return response.responses[0].partitions[0]


async def trace(store: Store, engine: Engine) -> Any:
    """Everything of the logs that an append changes."""
    marks = [(await get(engine, 0, topic)).high_watermark for topic in ("flights", "planes")]
    return marks, [info.key for info in await store.objects.list("")]


def rewritten(records: bytes, at: int, layout: str, value: int) -> bytes:
    """The batch with a field changed and the CRC made right again."""
    changed = bytearray(records)
    struct.pack_into(layout, changed, at, value)
    struct.pack_into(">I", changed, 17, crc32c(changed[21:]))
    return bytes(changed)


BAD_BATCHES = {
    "nothing": (b"", ErrorCode.INVALID_RECORD),
    "null": (None, ErrorCode.INVALID_RECORD),
    "corrupt CRC": (GOOD[:-1] + bytes([GOOD[-1] ^ 1]), ErrorCode.CORRUPT_MESSAGE),
    "truncated body": (GOOD[:-3], ErrorCode.CORRUPT_MESSAGE),
    "truncated header": (GOOD[:40], ErrorCode.CORRUPT_MESSAGE),
    "trailing bytes": (GOOD + b"\0\0\0", ErrorCode.CORRUPT_MESSAGE),
    "negative length": (GOOD[:8] + b"\xff\xff\xff\xff" + GOOD[12:], ErrorCode.CORRUPT_MESSAGE),
    "good then bad": (GOOD + GOOD[:-1] + b"!", ErrorCode.CORRUPT_MESSAGE),
    "oversized": (batch([bytes(MESSAGE_BYTES_MAX)]), ErrorCode.MESSAGE_TOO_LARGE),
    "old magic": (GOOD[:16] + b"\1" + GOOD[17:], ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
    "future magic": (GOOD[:16] + b"\3" + GOOD[17:], ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
    "count too large": (rewritten(GOOD, 57, ">i", 3), ErrorCode.INVALID_RECORD),
    "count too small": (rewritten(GOOD, 57, ">i", 1), ErrorCode.INVALID_RECORD),
    "count negative": (rewritten(GOOD, 57, ">i", -1), ErrorCode.INVALID_RECORD),
    "reserved compression": (rewritten(GOOD, 21, ">h", 7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "control batch": (rewritten(GOOD, 21, ">h", 0x20), ErrorCode.INVALID_RECORD),
    "transactional": (batch([b"x"], producer=(5, 0, 0)), ErrorCode.INVALID_TXN_STATE),
}
BAD_BATCHES["transactional"] = (
    rewritten(BAD_BATCHES["transactional"][0] or b"", 21, ">h", 0x10),
    ErrorCode.INVALID_TXN_STATE,
)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize("name", BAD_BATCHES)
async def test_a_bad_batch_gets_its_code_and_leaves_no_trace(
    name: str, version: int, store: Store, engine: Engine
) -> None:
    records, code = BAD_BATCHES[name]
    before = await trace(store, engine)
    response = await put(engine, records, version=version)
    assert (ErrorCode(response.error_code), response.base_offset) == (code, -1)
    if version >= 8:
        assert response.error_message
        assert "Traceback" not in response.error_message
    assert await trace(store, engine) == before


@pytest.mark.parametrize(
    ("topic", "partition", "code"),
    [
        ("nope", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("flights", 2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("flights", -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("a/b", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("..", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("x" * 250, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("naïve\n", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
async def test_places_that_do_not_exist(
    topic: str, partition: int, code: ErrorCode, store: Store, engine: Engine
) -> None:
    before = await trace(store, engine)
    assert (await put(engine, GOOD, topic, partition)).error_code == code
    assert (await get(engine, 0, topic, partition)).error_code == code
    fields = {"topics": [{"name": topic, "partitions": [{"partition_index": partition, "timestamp": -1}]}]}
    response = await ask(engine, ApiKey.LIST_OFFSETS, 5, fields)
    assert response.topics[0].partitions[0].error_code == code
    assert await trace(store, engine) == before


@pytest.mark.parametrize("unknown", [UUID(int=77), None])
async def test_topic_ids_that_do_not_exist(unknown: UUID | None, store: Store, engine: Engine) -> None:
    before = await trace(store, engine)
    data = {"topic_id": unknown, "partition_data": [{"index": 0, "records": GOOD}]}
    response = await ask(engine, ApiKey.PRODUCE, 13, {"acks": -1, "topic_data": [data]})
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    topic_asked = {"topic_id": unknown, "partitions": [{"partition": 0, "partition_max_bytes": 100}]}
    response = await ask(engine, ApiKey.FETCH, 13, {"max_bytes": 100, "topics": [topic_asked]})
    assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert await trace(store, engine) == before


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ü", "x" * 250])
async def test_names_that_no_topic_may_have(name: str, engine: Engine) -> None:
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1}]
    response = await ask(engine, ApiKey.CREATE_TOPICS, 5, {"topics": topics})
    assert response.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    response = await ask(engine, ApiKey.METADATA, 9, {"topics": [{"name": name}]})
    assert response.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("count", [0, -2, 10_001])
async def test_counts_that_no_topic_may_have(count: int, engine: Engine) -> None:
    topics = [{"name": "new", "num_partitions": count, "replication_factor": 1}]
    response = await ask(engine, ApiKey.CREATE_TOPICS, 5, {"topics": topics})
    assert response.topics[0].error_code == ErrorCode.INVALID_PARTITIONS


@pytest.mark.parametrize(("name", "value"), [("no.such.config", "1"), ("retention.ms", "soon")])
async def test_configs_that_no_topic_may_have(name: str, value: str, engine: Engine) -> None:
    config = {"name": name, "value": value, "config_operation": 0}
    topics = [{"name": "new", "num_partitions": 1, "replication_factor": 1, "configs": [config]}]
    response = await ask(engine, ApiKey.CREATE_TOPICS, 5, {"topics": topics})
    assert response.topics[0].error_code == ErrorCode.INVALID_CONFIG
    resource = {"resource_type": 2, "resource_name": "flights", "configs": [config]}
    response = await ask(engine, ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, {"resources": [resource]})
    assert response.responses[0].error_code == ErrorCode.INVALID_CONFIG


async def test_a_null_key_in_a_compacted_topic(store: Store, engine: Engine) -> None:
    before = await trace(store, engine)
    response = await put(engine, batch([b"a", b"b"], keys=[b"k", None]), "planes")
    assert response.error_code == ErrorCode.INVALID_RECORD
    assert await trace(store, engine) == before
    assert (await put(engine, batch([b"a"], keys=[b"k"]), "planes")).error_code == 0


async def test_offsets_out_of_range(engine: Engine) -> None:
    for offset in (-1, 2, 2**63 - 1, -(2**63)):
        partition = await get(engine, offset)
        assert partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert not partition.records
    assert (await get(engine, 1)).error_code == 0, "the end of the log is not out of range"


async def test_one_bad_partition_does_not_fail_its_neighbours(engine: Engine) -> None:
    data = [{"index": 0, "records": GOOD[:-1] + b"!"}, {"index": 1, "records": GOOD}, {"index": 9, "records": GOOD}]
    fields = {"acks": 1, "topic_data": [{"name": "flights", "partition_data": data}]}
    response = await ask(engine, ApiKey.PRODUCE, 9, fields)
    assert [(p.index, p.error_code, p.base_offset) for p in response.responses[0].partition_responses] == [
        (0, ErrorCode.CORRUPT_MESSAGE, -1),
        (1, 0, 0),
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
    ]
    assert [(await get(engine, 0, partition=p)).high_watermark for p in (0, 1)] == [1, 2]


@pytest.mark.parametrize("acks", [2, -2])
async def test_acks_that_mean_nothing(acks: int, store: Store, engine: Engine) -> None:
    before = await trace(store, engine)
    data = {"name": "flights", "partition_data": [{"index": 0, "records": GOOD}]}
    response = await ask(engine, ApiKey.PRODUCE, 9, {"acks": acks, "topic_data": [data]})
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert await trace(store, engine) == before


def produce_frame(version: int = 9) -> bytes:
    data = {"name": "flights", "partition_data": [{"index": 0, "records": GOOD}]}
    message = build(request_schema(ApiKey.PRODUCE, version), {"acks": -1, "topic_data": [data]})
    return encode_request(message, correlation_id=1, client_id="bad")


@pytest.mark.parametrize("version", [3, 9, 13])
async def test_malformed_frames_are_refused_before_anything_is_written(
    version: int, store: Store, engine: Engine
) -> None:
    before = await trace(store, engine)
    frame = produce_frame(version)
    bad = [
        b"",
        frame[:7],
        frame[:20],
        frame[:-1],
        request_frame(0, version, b"\xff" * 40),
        request_frame(0, 99, frame),
        request_frame(0, -1, frame),
        request_frame(1234, 0, frame),
        request_frame(-1, 0, frame),
    ]
    for data in bad:
        with pytest.raises(BadFrame) as caught:
            await dispatcher(engine).dispatch(data, context())
        assert 400 <= caught.value.http_status < 500
    assert await trace(store, engine) == before


async def test_a_group_that_cannot_be(engine: Engine) -> None:
    partition_commit = {"partition_index": 0, "committed_offset": 1}
    topics = [{"name": "flights", "partitions": [partition_commit]}]
    response = await ask(engine, ApiKey.OFFSET_COMMIT, 8, {"group_id": "", "member_id": "", "topics": topics})
    assert response.topics[0].partitions[0].error_code == ErrorCode.INVALID_GROUP_ID
    stale = {"group_id": "g", "member_id": "gone", "generation_id_or_member_epoch": 3, "topics": topics}
    response = await ask(engine, ApiKey.OFFSET_COMMIT, 9, stale)
    assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    heartbeat = {"group_id": "g", "member_id": "gone", "member_epoch": 3}
    response = await ask(engine, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, heartbeat)
    assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_offsets_for_places_that_do_not_exist(engine: Engine) -> None:
    partition_commit = {"partition_index": 5, "committed_offset": 1}
    topics = [{"name": "flights", "partitions": [partition_commit]}, {"name": "nope", "partitions": [partition_commit]}]
    fields = {"group_id": "g", "generation_id_or_member_epoch": -1, "topics": topics}
    response = await ask(engine, ApiKey.OFFSET_COMMIT, 8, fields)
    assert [t.partitions[0].error_code for t in response.topics] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2

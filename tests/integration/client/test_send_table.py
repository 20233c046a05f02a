"""send_table against the real engine: partitions, order, offsets, columns, failures; by both engines."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from odradek import KafkaError, NewTopic, TopicPartition
from odradek.aio import Admin, Consumer, Producer
from odradek.client.producer.partitioner import partition_for_key
from odradek.errors import ErrorCode
from odradek.protocol.api import ApiKey

from tests.support.clients.in_process import Server

ROWS = 5_000


@pytest.fixture(params=["numba", "python"])
def engine(request: pytest.FixtureRequest) -> Any:
    return request.param


async def served(partitions: int = 4) -> Server:
    server = Server()
    async with Admin(transport=server.transport()) as admin:
        await admin.create_topics([NewTopic("t", partitions)])
    return server


async def everything(server: Server, partitions: int = 4) -> dict[int, list[Any]]:
    names = [TopicPartition("t", number) for number in range(partitions)]
    records_by_partition: dict[int, list[Any]] = {number: [] for number in range(partitions)}
    async with Consumer(transport=server.transport(), auto_offset_reset="earliest", fetch_max_wait_ms=0) as consumer:
        consumer.assign(names)
        ends = await consumer.end_offsets(names)
        while any([await consumer.position(name) < ends[name] for name in names]):
            for name, records in (await consumer.poll(1000)).items():
                records_by_partition[name.partition] += records
    return records_by_partition


async def test_rows_go_where_their_keys_go_and_keep_their_order(engine: Any) -> None:
    server = await served()
    keys = [b"key-%d" % (number % 97) for number in range(ROWS)]
    table = pa.table(
        {
            "key": keys,
            "value": [b"%d" % number for number in range(ROWS)],
            "timestamp": pa.array(range(ROWS), pa.int64()),
            "headers": pa.array([[("n", b"%d" % number)] for number in range(ROWS)], pa.map_(pa.string(), pa.binary())),
        }
    )
    async with Producer(transport=server.transport(), batch_size=20_000) as producer:
        metadata = await (await producer.send_table("t", table, engine=engine))
    records_by_partition = await everything(server)
    for partition, records in records_by_partition.items():
        mine = [number for number in range(ROWS) if partition_for_key(keys[number], 4) == partition]
        assert [int(record.value) for record in records] == mine
        assert [record.timestamp_ms for record in records] == mine
        assert all(record.headers == (("n", record.value),) for record in records)
        tp = TopicPartition("t", partition)
        assert metadata.counts[tp] == len(mine)
        assert metadata.offsets[tp] == (range(len(mine)),)
    assert metadata.row_count == ROWS


async def test_rows_without_a_key_fill_batches_of_several_partitions(engine: Any) -> None:
    server = await served()
    table = pa.table({"value": [b"%05d" % number for number in range(ROWS)]})
    async with Producer(transport=server.transport(), batch_size=10_000, compression_type="lz4") as producer:
        metadata = await (await producer.send_table("t", table, engine=engine))
        batches = producer.metrics()["batch_total"]
    assert len(metadata.counts) == 4
    assert batches <= ROWS * 20 / 10_000 + 2  # full ones
    values = sorted(record.value for records in (await everything(server)).values() for record in records)
    assert values == table["value"].to_pylist()


async def test_a_column_or_a_number_names_the_partition(engine: Any) -> None:
    server = await served()
    table = pa.table({"text": ["a", "b", "c"], "where": [3, 0, 3], "who": [b"x", None, b""]})
    async with Producer(transport=server.transport()) as producer:
        await (await producer.send_table("t", table, value="text", key="who", partition="where", engine=engine))
        await (await producer.send_table("t", table, value="text", partition=1, engine=engine))
    records_by_partition = await everything(server)
    assert [[(r.key, r.value) for r in records_by_partition[number]] for number in range(4)] == [
        [(None, b"b")],
        [(None, b"a"), (None, b"b"), (None, b"c")],
        [],
        [(b"x", b"a"), (b"", b"c")],
    ]


async def test_round_robin_and_a_partitioner_of_the_user(engine: Any) -> None:
    server = await served()
    table = pa.table({"value": [b"%d" % number for number in range(8)]})
    async with Producer(transport=server.transport(), partitioner="round_robin") as producer:
        metadata = await (await producer.send_table("t", table, engine=engine))
    assert set(metadata.counts.values()) == {2}
    async with Producer(
        transport=server.transport(), partitioner=lambda topic, key, value, count: int(value) // 7
    ) as producer:
        metadata = await (await producer.send_table("t", table, engine=engine))
    assert metadata.counts == {TopicPartition("t", 0): 7, TopicPartition("t", 1): 1}


async def test_a_lost_answer_duplicates_nothing() -> None:
    server = await served(1)
    transport = server.transport(lambda api, n: "unanswered" if api is ApiKey.PRODUCE and n in {1, 3} else None)
    table = pa.table({"value": [b"%05d" % number for number in range(ROWS)]})
    async with Producer(transport=transport, batch_size=10_000, retry_backoff_ms=1) as producer:
        metadata = await (await producer.send_table("t", table))
    assert metadata.offsets[TopicPartition("t", 0)] == (range(ROWS),)
    assert [record.value for record in (await everything(server, 1))[0]] == table["value"].to_pylist()


async def test_a_batch_too_large_for_its_topic_is_split() -> None:
    server = Server()
    async with Admin(transport=server.transport()) as admin:
        await admin.create_topics([NewTopic("t", 1, configs={"max.message.bytes": "5000"})])
    table = pa.table({"value": [b"%05d" % number for number in range(1_000)]})
    async with Producer(transport=server.transport()) as producer:
        metadata = await (await producer.send_table("t", table))
    assert metadata.offsets == {TopicPartition("t", 0): (range(1_000),)}
    assert [record.value for record in (await everything(server, 1))[0]] == table["value"].to_pylist()


async def test_memory_is_bounded_and_waits_for_room() -> None:
    server = await served(1)
    table = pa.table({"value": [b"x" * 1_000] * 500})
    async with Producer(transport=server.transport(), buffer_memory=40_000, batch_size=10_000) as producer:
        metadata = await (await producer.send_table("t", table))
    assert metadata.row_count == 500
    async with Producer(
        transport=server.transport(lambda api, n: "lost" if api is ApiKey.PRODUCE else None),
        buffer_memory=40_000,
        batch_size=10_000,
        max_block_ms=50,
        delivery_timeout_ms=300,
        request_timeout_ms=100,
    ) as producer:
        with pytest.raises(KafkaError) as caught:
            await producer.send_table("t", table)
        assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
        with pytest.raises(KafkaError):
            await producer.flush()


async def test_failed_rows_are_counted_and_told_once() -> None:
    server = await served(1)
    transport = server.transport(lambda api, n: "lost" if api is ApiKey.PRODUCE else None)
    async with Producer(
        transport=transport, delivery_timeout_ms=200, request_timeout_ms=100, retry_backoff_ms=10
    ) as producer:
        future = await producer.send_table("t", pa.table({"value": ["a", "b"]}))
        with pytest.raises(KafkaError, match="2 of 2 rows"):
            await future
        await producer.flush()
        await producer.send_table("t", pa.table({"value": ["a", "b", "c"]}))
        with pytest.raises(KafkaError, match="3 record"):
            await producer.flush()


async def test_a_table_in_a_transaction_is_visible_with_its_commit() -> None:
    server = await served(1)
    async with Producer(transport=server.transport(), transactional_id="x") as producer:
        await producer.init_transactions()
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction():
                await producer.send_table("t", pa.table({"value": ["never"]}))
                raise ZeroDivisionError
        async with producer.transaction():
            await producer.send_table("t", pa.table({"value": ["a", "b"]}))
    assert [record.value for record in (await everything(server, 1))[0]] == [b"a", b"b"]


@pytest.mark.parametrize(
    ("table", "options", "code"),
    [
        (pa.table({"other": [b"a"]}), {}, ErrorCode.INVALID_RECORD),
        (pa.table({"value": [1]}), {}, ErrorCode.INVALID_RECORD),
        (pa.table({"value": [b"a"]}), {"key": "id"}, ErrorCode.INVALID_RECORD),
        (pa.table({"value": [b"a"], "p": [4]}), {"partition": "p"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (pa.table({"value": [b"a"], "p": [None]}), {"partition": "p"}, ErrorCode.INVALID_RECORD),
        (pa.table({"value": [b"a"]}), {"partition": 4}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (object(), {}, ErrorCode.INVALID_RECORD),
        (pa.table({"value": [b"x" * 5_000_000]}), {}, ErrorCode.MESSAGE_TOO_LARGE),
    ],
)
async def test_what_cannot_be_sent_is_refused(table: Any, options: dict[str, Any], code: ErrorCode) -> None:
    server = await served()
    async with Producer(transport=server.transport()) as producer:
        with pytest.raises(KafkaError) as caught:
            await producer.send_table("t", table, **options)
    assert caught.value.code is code
    assert not any((await everything(server)).values())


async def test_frames_of_other_libraries_and_empty_tables() -> None:
    pandas = pytest.importorskip("pandas")
    server = await served(1)
    async with Producer(transport=server.transport()) as producer:
        await producer.send_table("t", pandas.DataFrame({"value": ["a", "b"]}))
        await producer.send_table("t", pa.record_batch({"value": ["c"]}))
        await producer.send_table("t", pa.table({"value": ["d", "e"]}).to_reader(max_chunksize=1))
        empty = await (await producer.send_table("t", pa.table({"value": pa.array([], pa.string())})))
    assert empty.row_count == 0
    assert [record.value for record in (await everything(server, 1))[0]] == [b"a", b"b", b"c", b"d", b"e"]

"""poll_table against the real engine: columns, positions, mixtures with poll, broken batches; by both engines."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from odradek import KafkaError, NewTopic, TopicPartition
from odradek.aio import Admin, Consumer, Producer
from odradek.errors import ErrorCode
from odradek.protocol.api import ApiKey

from tests.support.clients.in_process import Server

PLACES = [TopicPartition("t", number) for number in range(3)]


@pytest.fixture(params=["numba", "python"])
def engine(request: pytest.FixtureRequest) -> Any:
    return request.param


async def filled(rows: int = 3_000, **configs: Any) -> Server:
    server = Server()
    async with Admin(transport=server.transport()) as admin:
        await admin.create_topics([NewTopic("t", 3)])
    table = pa.table(
        {
            "key": [None if number % 5 == 0 else b"%d" % number for number in range(rows)],
            "value": [b"%05d" % number for number in range(rows)],
            "timestamp": pa.array(range(rows), pa.int64()),
            "partition": [number % 3 for number in range(rows)],
        }
    )
    async with Producer(transport=server.transport(), batch_size=2_000, **configs) as producer:
        await producer.send_table("t", table, partition="partition")
    return server


def reader(server: Server, **configs: Any) -> Consumer:
    return Consumer(transport=server.transport(), auto_offset_reset="earliest", fetch_max_wait_ms=0, **configs)


async def read_all(consumer: Consumer, rows: int, **options: Any) -> pa.Table:
    tables: list[pa.Table] = []
    while sum(table.num_rows for table in tables) < rows:
        tables.append(await consumer.poll_table(1_000, **options))
    return pa.concat_tables(tables)


@pytest.mark.parametrize("compression", ["none", "zstd"])
async def test_all_rows_come_in_order_with_their_places(engine: Any, compression: str) -> None:
    server = await filled(compression_type=compression)
    async with reader(server) as consumer:
        consumer.assign(PLACES)
        table = await read_all(consumer, 3_000, engine=engine)
        assert {tp: await consumer.position(tp) for tp in PLACES} == dict.fromkeys(PLACES, 1_000)
    assert table.column_names == ["topic", "partition", "offset", "timestamp", "key", "value"]
    assert pa.types.is_dictionary(table.schema.field("topic").type)
    rows = table.to_pylist()
    for tp in PLACES:
        mine = [row for row in rows if row["partition"] == tp.partition]
        assert [row["offset"] for row in mine] == list(range(1_000))
        assert [int(row["value"]) for row in mine] == list(range(tp.partition, 3_000, 3))
        assert all(row["key"] == (None if int(row["value"]) % 5 == 0 else b"%d" % int(row["value"])) for row in mine)
        assert all(row["timestamp"].timestamp() * 1000 == pytest.approx(int(row["value"])) for row in mine)
        assert {row["topic"] for row in mine} == {"t"}


async def test_columns_are_chosen_and_wrong_ones_named(engine: Any) -> None:
    server = await filled(30)
    async with reader(server) as consumer:
        consumer.assign(PLACES)
        table = await read_all(consumer, 30, columns=["topic"], engine=engine)
        assert table.column_names == ["topic"]
        consumer.seek_to_beginning()
        table = await read_all(consumer, 30, columns=["headers", "value", "timestampType"], engine=engine)
        assert table.column_names == ["headers", "value", "timestampType"]
        with pytest.raises(KafkaError, match="unknown column values"):
            await consumer.poll_table(0, ["values"])


async def test_max_records_bounds_a_table_and_nothing_is_lost_or_twice(engine: Any) -> None:
    server = await filled(900)
    numbers: list[int] = []
    async with reader(server, max_partition_fetch_bytes=5_000) as consumer:
        consumer.assign(PLACES)
        turn = 0
        while len(numbers) < 900:
            turn += 1
            if turn % 4 == 0:  # by records in between
                records = [r for part in (await consumer.poll(1_000, max_records=13)).values() for r in part]
                assert len(records) <= 13
                numbers += [int(record.value) for record in records]
            elif turn % 4 == 1:
                numbers += [int((await anext(aiter(consumer))).value) for _ in range(5)] if len(numbers) < 880 else []
            else:
                table = await consumer.poll_table(1_000, max_records=37, engine=engine)
                assert table.num_rows <= 37
                numbers += [int(value) for value in table["value"].to_pylist()]
        assert (await consumer.poll_table(0)).num_rows == 0
    assert sorted(numbers) == list(range(900))
    for partition in range(3):
        assert [n for n in numbers if n % 3 == partition] == list(range(partition, 900, 3))


async def test_a_group_commits_what_tables_have_handed_out() -> None:
    server = await filled(300)
    for expected in (300, 0):
        async with reader(server, group_id="g") as consumer:
            consumer.subscribe(["t"])
            rows = 0
            for _ in range(8):
                rows += (await consumer.poll_table(300)).num_rows
                if rows == 300:
                    break
        assert rows == expected


class _Corrupting:
    """Breaks a byte near the end of the fetched records of one partition."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.is_on = True

    def transport(self) -> Any:
        inner = self.server.transport()
        exchange = inner.exchange

        async def corrupted(function: Any, frame: bytes, timeout_s: float) -> bytes:
            response = bytearray(await exchange(function, frame, timeout_s))
            if self.is_on and int.from_bytes(frame[:2], "big") == ApiKey.FETCH and (at := response.find(b"00080")) > 0:
                response[at] ^= 1
            return bytes(response)

        inner.exchange = corrupted  # type: ignore[method-assign]
        return inner


async def test_rows_before_a_broken_batch_come_first_then_the_error(engine: Any) -> None:
    server = Server()
    async with Admin(transport=server.transport()) as admin:
        await admin.create_topics([NewTopic("t", 1)])
    async with Producer(transport=server.transport(), batch_size=500) as producer:
        await producer.send_table("t", pa.table({"value": [b"%05d" % number for number in range(100)]}))
    broken = _Corrupting(server)
    async with Consumer(transport=broken.transport(), auto_offset_reset="earliest", fetch_max_wait_ms=0) as consumer:
        consumer.assign(PLACES[:1])
        table = await consumer.poll_table(1_000, engine=engine)
        assert 0 < table.num_rows <= 80
        with pytest.raises(KafkaError) as caught:
            await consumer.poll_table(1_000, engine=engine)
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
        assert await consumer.position(PLACES[0]) == table.num_rows
        broken.is_on = False
        remaining = await read_all(consumer, 100 - table.num_rows, engine=engine)
    assert pa.concat_tables([table, remaining])["value"].to_pylist() == [b"%05d" % number for number in range(100)]

"""Closed segments of table topics are Parquet files: readers see no difference, and nothing stops for them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from odradek.engine.audit.decisions import AuditReport
from odradek.engine.audit.store import audit_store
from odradek.engine.engine import Engine
from odradek.engine.maintenance import catch_up
from odradek.engine.maintenance.maintenance import MaintenanceReport
from odradek.engine.partition.index_row import IndexRow
from odradek.engine.partition.maintenance_lease import MaintenanceLeases
from odradek.errors import ErrorCode, FormatError, KafkaError, StoreFull
from odradek.format.object_keys import index_key, partition_prefix, segment_key
from odradek.format.record_batch import decode_batches, iter_headers
from odradek.model.log import DeleteRecordsPartition, FetchPartition, ListOffsetsPartition
from odradek.model.record import CompressionType, Record
from odradek.settings import Settings

from tests.support.clients.transactional_producer import Transactor
from tests.support.engine import Store, batch, memory_store, produce, read_all
from tests.support.stores.segments import partition_of, rows_of

SMALL = {"head_bytes_max": 400, "spill_entries": 2, "merge_rows_min": 1, "table_group_bytes": 600}
TABLE = {"odradek.table.enable": "true", "odradek.table.segment.bytes": "3000", "odradek.table.schema": "n bigint"}
T0 = 1_700_000_000_000


async def filled(configs: dict[str, str], batches: int = 60) -> Store:
    store = memory_store()
    engine = store.engine(**SMALL)
    await engine.topics.create("t", 1, configs)
    for i in range(batches):
        values: Sequence[bytes | None] = [b'{"n": %d}' % i, None, b"x" * (100 if i % 4 else 10)]
        compression = list(CompressionType)[i % len(CompressionType)]
        packed = batch(values, keys=[b"a", b"b", None], timestamp_ms=T0 + i, compression=compression)
        assert not (await produce(engine, "t", 0, packed)).error
        if i % 10 == 9:
            store.clock.advance(61)
    return store


async def merged(store: Store) -> MaintenanceReport:
    report = await store.engine(7, **SMALL).maintenance.run()
    assert report.failures == []
    return report


async def rows(store: Store) -> list[IndexRow]:
    engine = store.engine(**SMALL)
    return await rows_of(engine, await partition_of(engine, "t"))


async def audit_of(engine: Engine, *, fast: bool = False) -> AuditReport:
    return await audit_store(engine, fast=fast)


async def headers(engine: Engine) -> list[tuple[Any, ...]]:
    """Every batch by a fetch of a megabyte each, without what compression decides."""
    headers_read: list[tuple[Any, ...]] = []
    offset = 0
    while True:
        [result] = await engine.fetch([FetchPartition("t", 0, offset, 1_000_000)], max_wait_ms=0, min_bytes=0)
        batches = [header for _, header in iter_headers(b"".join(result.records))]
        if not batches:
            return headers_read
        headers_read += [
            (
                header.base_offset,
                header.attributes,
                header.base_timestamp_ms,
                header.max_timestamp_ms,
                header.producer_id,
            )
            for header in batches
        ]
        offset = batches[-1].next_offset


async def test_consumers_see_the_same_before_and_after() -> None:
    store = await filled(TABLE)
    before, records_before = await headers(store.engine()), await read_all(store.engine(), "t", 0)
    report = await merged(store)
    assert report.done["table_segments_written"] >= 2
    assert not report.done["table_segments_refused"]
    columnar = [row for row in await rows(store) if row.is_columnar]
    assert len(columnar) >= 2
    assert await headers(store.engine()) == before
    assert await read_all(store.engine(), "t", 0) == records_before
    for offset in range(0, 180, 7):
        records = await read_all(store.engine(), "t", 0, offset)
        assert [record for record in records if record.offset >= offset] == records_before[offset:]
    for i in range(0, 60, 11):
        [result] = await store.engine().list_offsets([ListOffsetsPartition("t", 0, T0 + i + 1)])
        expected = next(record for record in records_before if record.timestamp_ms >= T0 + i + 1)
        assert (result.offset, result.timestamp_ms) == (expected.offset, expected.timestamp_ms)


async def test_the_file_is_parquet_with_the_typed_columns() -> None:
    store = await filled(TABLE)
    await merged(store)
    partition = await partition_of(store.engine(), "t")
    row = (await rows(store))[0]
    assert row.segment_id is not None
    file = await store.objects.get(segment_key(partition, row.base_offset, row.segment_id, is_columnar=True))
    table = pq.read_table(pa.BufferReader(file))
    assert table.column("offset").to_pylist() == list(range(row.base_offset, row.end_offset))
    assert [n for n in table.column("n").to_pylist() if n is not None] == [
        *range(row.base_offset // 3, row.end_offset // 3)
    ]
    assert pq.ParquetFile(pa.BufferReader(file)).num_row_groups > 1


async def test_a_read_costs_one_index_and_one_row_group() -> None:
    store = await filled(TABLE)
    await merged(store)
    store.objects.calls.clear()
    engine = store.engine()
    await engine.fetch([FetchPartition("t", 0, 5, 400)], max_wait_ms=0, min_bytes=0)
    assert [call for call in store.objects.calls if call.startswith("get")] == ["get", "get_range"]
    await engine.fetch([FetchPartition("t", 0, 8, 400)], max_wait_ms=0, min_bytes=0)
    assert [call for call in store.objects.calls if call.startswith("get")] == ["get", "get_range"], "both are kept"


async def test_the_audit_reads_every_page_and_finds_a_file_without_its_last_row_group() -> None:
    store = await filled(TABLE)
    await merged(store)
    engine = store.engine(**SMALL)
    assert (await audit_of(engine)).findings == []
    partition = await partition_of(engine, "t")
    row = (await rows(store))[0]
    assert row.segment_id is not None
    key = segment_key(partition, row.base_offset, row.segment_id, is_columnar=True)
    file = await store.objects.get(key)
    await store.objects.delete([key])
    await store.objects.put(key, [file[: len(file) // 2]])
    [finding] = (await audit_of(engine, fast=True)).findings
    assert "bytes exist of" in str(finding)
    await store.objects.delete([key])
    await store.objects.put(key, [file[:100] + bytes((file[100] ^ 1,)) + file[101:]])
    [finding] = (await audit_of(engine)).findings
    assert "does not match" in str(finding)


async def test_retention_and_delete_records_remove_files_with_their_rows() -> None:
    store = await filled(TABLE)
    await merged(store)
    engine = store.engine(**SMALL)
    partition = await partition_of(engine, "t")
    columnar = [row for row in await rows(store) if row.is_columnar]
    [result] = await engine.delete_records([DeleteRecordsPartition("t", 0, columnar[0].end_offset + 1)])
    assert result.error is ErrorCode.NONE
    await merged(store)
    kept = {row.segment_id for row in await rows(store) if row.segment_id is not None}
    assert columnar[0].segment_id not in kept
    names = {info.key for info in await store.objects.list(partition_prefix(partition))}
    assert len(names) == 2 * len(kept)
    first = await read_all(store.engine(), "t", 0, columnar[0].end_offset + 1)
    assert next(r.offset for r in first if r.offset > columnar[0].end_offset) == columnar[0].end_offset + 1


async def test_compaction_reads_columnar_segments_of_a_topic_that_was_a_table() -> None:
    store = await filled(TABLE)
    await merged(store)
    records_before = await read_all(store.engine(), "t", 0)
    engine = store.engine(**SMALL)
    changes = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "record.validation": "header"}
    await engine.topics.alter_configs("t", set=changes)
    for _ in range(3):
        store.clock.advance(86_400)
        await store.engine(9, **SMALL).maintenance.run()
    assert not any(row.is_columnar for row in await rows(store) if row.is_segment and row.end_offset < 100)
    records: list[Record] = []
    offset = 0
    while offset < 180:
        [result] = await store.engine().fetch([FetchPartition("t", 0, offset)], max_wait_ms=0, min_bytes=0)
        log = b"".join(result.records)
        records += [record for record in decode_batches(log) if record.offset >= offset]
        offset = max(header.next_offset for _, header in iter_headers(log))
    assert len(records) < 180
    assert all(record in records_before for record in records)
    assert [record.value for record in records if record.key == b"a"][-1] == b'{"n": 59}'
    assert (await audit_of(engine)).findings == []


@pytest.mark.parametrize("why", ["no pyarrow", "cannot be made again", "a library raises"])
async def test_what_cannot_be_a_table_stays_batches_and_is_counted(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await filled(TABLE)
    if why == "no pyarrow":
        monkeypatch.delitem(sys.modules, "odradek.columnar.table_file", raising=False)
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        monkeypatch.setattr(catch_up, "can_write_tables", lambda: False)
    else:
        from odradek.columnar import table_file

        def refuse(*_: object) -> None:
            raise FormatError("no") if why == "cannot be made again" else LookupError("no")

        monkeypatch.setattr(table_file, "_compare", refuse)
    records_before = await read_all(store.engine(), "t", 0)
    report = await merged(store)
    refused = report.done["table_segments_refused"]
    assert refused >= 2
    assert report.tables_behind == {"table_segments_refused": refused}
    assert not any(row.is_columnar for row in await rows(store))
    assert await read_all(store.engine(), "t", 0) == records_before
    [state] = await store.engine().tables.states.all()
    assert state.refused == refused
    assert ("odradek[table]" if why == "no pyarrow" else "no") in state.refused_why
    store.clock.advance(3_700)
    assert not (await merged(store)).done["table_segments_refused"], "not again and again"
    monkeypatch.undo()
    monkeypatch.setattr(catch_up, "can_write_tables", lambda: True)
    store.clock.advance(3_700)
    report = await merged(store)
    if why == "no pyarrow":
        assert report.done["table_segments_written"] >= refused
        assert all(row.is_columnar for row in await rows(store) if row.end_offset < 100)
    else:
        assert not report.done["table_segments_written"], "the same writer would refuse them again"
        monkeypatch.setattr(catch_up, "TABLE_WRITER", 2)
        store.clock.advance(3_700)
        assert (await merged(store)).done["table_segments_written"] >= refused
    assert await read_all(store.engine(), "t", 0) == records_before
    assert (await audit_of(store.engine(**SMALL))).findings == []


async def test_a_conversion_that_takes_minutes_renews_its_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    from odradek.columnar import table_file

    store = await filled(TABLE)
    original, renew = table_file._table, MaintenanceLeases.renew
    left_ms: list[int] = []

    def slow(*arguments: Any) -> Any:
        store.clock.advance(25)
        return original(*arguments)

    async def noted(self: MaintenanceLeases, lease: Any) -> Any:
        left_ms.append(lease.expires_ms - store.clock.now_ms())
        return await renew(self, lease)

    monkeypatch.setattr(table_file, "_table", slow)
    monkeypatch.setattr(MaintenanceLeases, "renew", noted)
    before = store.clock.now_ms()
    assert (await merged(store)).done["table_segments_written"] >= 2
    assert store.clock.now_ms() - before > 2 * Settings().maintenance_lease_ms
    assert len(left_ms) >= 3
    assert min(left_ms) > 0, "no other maintainer could take the partition"


async def test_a_process_that_serves_clients_converts_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    from odradek.columnar import table_file

    store = await filled(TABLE)
    records_before = await read_all(store.engine(), "t", 0)
    original, threads = table_file._table, set()

    def noted(*arguments: Any) -> Any:
        threads.add(threading.current_thread())
        return original(*arguments)

    monkeypatch.setattr(table_file, "_table", noted)
    report = await store.engine(7, **SMALL).use_threads().maintenance.run()
    assert report.done["table_segments_written"] >= 2
    assert threads
    assert threading.main_thread() not in threads
    assert await read_all(store.engine(), "t", 0) == records_before


async def test_a_disk_without_room_for_files_stops_no_append_and_maintenance_catches_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = await filled(TABLE)
    values_before = [record.value for record in await read_all(store.engine(), "t", 0)]
    put = store.objects.put

    async def full(key: str, parts: Sequence[Any]) -> None:
        if key.endswith(".parquet"):
            raise StoreFull("cannot write: No space left on device")
        await put(key, parts)

    monkeypatch.setattr(store.objects, "put", full)
    for i in range(5):
        report = await store.engine(7 + i, **SMALL).maintenance.run()
        assert any("No space left" in failure for failure in report.failures), report.failures
        assert not (await produce(store.engine(**SMALL), "t", 0, batch([b"%d" % i]))).error
        values_before.append(b"%d" % i)
        assert [record.value for record in await read_all(store.engine(), "t", 0)] == values_before
        store.clock.advance(61)
    monkeypatch.undo()
    assert (await merged(store)).done["table_segments_written"] >= 2
    assert any(row.is_columnar for row in await rows(store))
    assert [record.value for record in await read_all(store.engine(), "t", 0)] == values_before
    assert (await audit_of(store.engine(**SMALL))).findings == [], "what was uploaded in vain is gone"


async def test_a_topic_that_becomes_a_table_has_its_history_converted() -> None:
    store = await filled({"odradek.table.segment.bytes": "3000", "segment.bytes": "1048576"})
    await store.engine(7, **SMALL, segment_bytes_max=3000).maintenance.run()
    records_before = await read_all(store.engine(), "t", 0)
    assert not any(row.is_columnar for row in await rows(store))
    await store.engine().topics.alter_configs("t", set=TABLE)
    store.clock.advance(3_700)
    engine = store.engine(9, **SMALL)
    for _ in range(2):
        report = await engine.maintenance.run()
    assert report.failures == []
    index_rows = await rows(store)
    assert sum(row.is_columnar for row in index_rows) >= 2
    assert not [a for a, b in pairwise(index_rows) if a.is_segment and not a.is_columnar and b.is_columnar], (
        "no gap stays"
    )
    assert await read_all(store.engine(), "t", 0) == records_before
    assert (await audit_of(engine)).findings == []


async def test_wrong_configurations_are_refused() -> None:
    engine = memory_store().engine()
    for name, value in (
        ("odradek.table.schema", "n integer"),
        ("odradek.table.schema", "offset bigint"),
        ("odradek.table.schema", "a string, A bigint"),
        ("odradek.table.segment.bytes", "100"),
        ("odradek.table.enable", "yes"),
    ):
        with pytest.raises(KafkaError, match=name):
            await engine.topics.create("t", 1, {name: value})
    await engine.topics.create("t", 1, {"odradek.table.schema": ", ".join(f"column_{i} bigint" for i in range(40))})


def test_names_of_columnar_segments_are_found_as_orphans() -> None:
    from uuid import UUID

    from odradek.engine.maintenance.orphans import parse_segment_name
    from odradek.model.topic_partition import PartitionId
    from odradek.ports.object_store import ObjectInfo

    partition = PartitionId(UUID(int=1), 0)
    for key in (segment_key(partition, 5, bytes(16), is_columnar=True), index_key(partition, 5, bytes(16))):
        segment_name = parse_segment_name(partition, ObjectInfo(key, 1, 0))
        assert segment_name is not None
        assert segment_name.base_offset == 5


async def test_transactions_come_back_from_files_as_they_were_committed() -> None:
    """A log has no records of aborted transactions, nor of open ones, and no control batches: so have its files."""
    store = memory_store()
    engine = store.engine(**SMALL)
    await engine.topics.create("t", 1, TABLE)
    committed: list[bytes] = []
    producers = [await Transactor(engine, f"tx{i}").init() for i in range(2)]
    for i in range(30):
        transactor = producers[i % 2]
        values = [b'{"n": %d}' % (10 * i + k) for k in range(4)]
        await transactor.send("t", 0, *values[:2])
        await transactor.send("t", 0, *values[2:])
        if i % 3 == 2:
            await transactor.abort()
        else:
            await transactor.commit()
            committed += values
        assert not (await produce(engine, "t", 0, batch([b"plain"], producer=(7, 0, i)))).error
        committed.append(b"plain")
        if i % 10 == 9:
            store.clock.advance(61)
    await producers[0].send("t", 0, b"open")
    before, records_before = await whole_headers(store.engine()), await read_all(store.engine(), "t", 0)
    assert sorted(record.value or b"" for record in records_before) == sorted(committed)
    report = await merged(store)
    assert report.done["table_segments_written"] >= 2
    assert not report.done["table_segments_refused"]
    after = await whole_headers(store.engine())
    assert after == before
    assert sum(is_transactional for *_, is_transactional in after) > 20
    assert await read_all(store.engine(), "t", 0) == records_before
    await producers[0].commit()
    assert [record.value for record in await read_all(store.engine(), "t", 0)][-1] == b"open"
    partition = await partition_of(store.engine(), "t")
    values = []
    for row in await rows(store):
        if row.is_columnar and row.segment_id is not None:
            file = await store.objects.get(segment_key(partition, row.base_offset, row.segment_id, is_columnar=True))
            values += pq.read_table(pa.BufferReader(file)).column("value").to_pylist()
    assert values == [record.value for record in records_before][: len(values)]
    assert len(values) > 40


async def whole_headers(engine: Engine) -> list[tuple[Any, ...]]:
    """The headers of all batches: producers, sequences, epochs, and whether they are transactional."""
    headers_read: list[tuple[Any, ...]] = []
    offset = 0
    while True:
        [result] = await engine.fetch([FetchPartition("t", 0, offset, 1_000_000)], max_wait_ms=0, min_bytes=0)
        batches = [header for _, header in iter_headers(b"".join(result.records))]
        if not batches:
            return headers_read
        headers_read += [
            (
                header.base_offset,
                header.last_offset_delta,
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.partition_leader_epoch,
                header.is_transactional,
            )
            for header in batches
        ]
        offset = batches[-1].next_offset

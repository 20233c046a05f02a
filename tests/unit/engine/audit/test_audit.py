"""The audit: silent about a store that is whole, at rest or at work; each kind of damage is found by its name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from odradek.engine.audit.decisions import AuditReport, FindingKind
from odradek.engine.audit.store import audit_store
from odradek.engine.engine import Engine
from odradek.engine.partition.head import encode_head, head_key
from odradek.engine.partition.index_row import encode_index_row
from odradek.format.item_keys import (
    DELETED_TOPICS_PK,
    TOPIC_IDS_PK,
    index_sk,
    partition_pk,
    topic_id_sk,
    wal_item_key,
)
from odradek.format.object_id import new_object_id
from odradek.format.object_keys import index_key, segment_key, wal_key
from odradek.model.log import DeleteRecordsPartition
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Delete, Key, Put
from odradek.testing.faults import Fault
from odradek.testing.seeded_rng import SeededRng

from tests.support.engine import Store, batch, memory_store, produce, read_all
from tests.support.stores.segments import merge_by_hand, partition_of, rows_of, upload_segment

SPILLING: dict[str, int] = {"head_bytes_max": 400, "spill_entries": 1}
Damage = Callable[["Damaged"], Awaitable[None]]


class Damaged:
    """A store with a topic `t`: segments, spilled rows and a tail, in objects and in items."""

    def __init__(self) -> None:
        self.store: Store = memory_store(per_head=1)
        self.engine: Engine = self.store.engine(1, **SPILLING)
        self.partition: PartitionId

    async def fill(self) -> Damaged:
        await self.engine.topics.create("t", 2)
        large = self.store.engine(2, **SPILLING, item_bytes_max=0)
        self.partition = await partition_of(self.engine, "t")
        for n in range(40):
            engine = large if n % 3 == 0 else self.engine
            self.store.clock.advance(0.01)
            result = await produce(engine, "t", 0, batch([b"%d" % n, b"more"], producer=(9, 0, 2 * n)))
            assert not result.error
            if n == 22:
                await merge_by_hand(self.engine, self.partition, rows_per_segment=2)
        assert len([row for row in await rows_of(self.engine, self.partition) if not row.is_segment]) > 1
        return self

    async def audit(self, *, fast: bool = False, strict: bool = False, repair: bool = False) -> AuditReport:
        engine = self.store.engine(7, **SPILLING, catalog_cache_ms=0)
        return await audit_store(engine, fast=fast, strict=strict, repair=repair)

    async def put_row(self, number: int, **changes: object) -> None:
        row = (await rows_of(self.engine, self.partition))[number]
        item = encode_index_row(replace(row, **changes))  # type: ignore[arg-type]
        await self.store.log.put(Put(Key(partition_pk(self.partition), index_sk(row.base_offset)), item))

    async def put_head(self, **changes: object) -> None:
        head = await self.engine.index.read_head(self.partition)
        assert head is not None
        await self.store.log.put(Put(head_key(self.partition), encode_head(replace(head, **changes))))  # type: ignore[arg-type]

    async def rewrite(self, key: str, change: Callable[[bytes], bytes]) -> None:
        data = change(await self.store.objects.get(key))
        await self.store.objects.delete([key])
        await self.store.objects.put(key, [data])

    async def segment(self, number: int = 0) -> tuple[str, str]:
        row = (await rows_of(self.engine, self.partition))[number]
        assert row.segment_id is not None
        return (
            segment_key(self.partition, row.base_offset, row.segment_id),
            index_key(self.partition, row.base_offset, row.segment_id),
        )

    async def upload_in_use(self, *, item: bool) -> bytes:
        head = await self.engine.index.read_head(self.partition)
        assert head is not None
        entries = [entry for row in await rows_of(self.engine, self.partition) for entry in row.entries]
        entries += [entry for _, entry in head.entries()]
        return next(entry.object_id for entry in entries if entry.is_item == item)

    async def drop_row(self, number: int) -> None:
        row = (await rows_of(self.engine, self.partition))[number]
        await self.store.log.delete(Delete(Key(partition_pk(self.partition), index_sk(row.base_offset))))


@pytest.mark.parametrize("fast", [True, False])
async def test_a_whole_store_is_clean(fast: bool) -> None:
    damaged = await Damaged().fill()
    report = await damaged.audit(fast=fast, strict=True)
    assert report.findings == []
    assert report.checked["partitions"] == 2
    assert report.checked["segments"] > 2
    assert report.checked["batches"] > 2
    damaged.store.clock.advance(5 * 3600)
    await damaged.engine.maintenance.run()
    assert (await damaged.audit(fast=fast, strict=True)).findings == []


async def test_an_audit_writes_nothing() -> None:
    damaged = await Damaged().fill()
    before = [list(port.calls) for port in (damaged.store.log, damaged.store.catalog, damaged.store.objects)]
    await damaged.audit()
    for port, earlier in zip((damaged.store.log, damaged.store.catalog, damaged.store.objects), before, strict=True):
        assert set(port.calls[len(earlier) :]) <= {"get", "get_many", "query", "list", "head", "get_range"}


def flip(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


async def no_head(d: Damaged) -> None:
    await d.store.log.delete(Delete(head_key(d.partition)))


async def damaged_head(d: Damaged) -> None:
    await d.store.log.put(Put(head_key(d.partition), {"v": 1, "no": "seven"}))


async def next_offset(d: Damaged) -> None:
    await d.put_head(next_offset=1_000)


async def log_start(d: Damaged) -> None:
    await d.put_head(log_start_offset=1_000)


async def merged_offset(d: Damaged) -> None:
    await d.put_head(merged_offset=0)


async def first_row_gone(d: Damaged) -> None:
    await d.drop_row(0)


async def row_gone(d: Damaged) -> None:
    await d.drop_row(2)


async def last_row_gone(d: Damaged) -> None:
    await d.drop_row(-1)


async def row_too_long(d: Damaged) -> None:
    row = (await rows_of(d.engine, d.partition))[1]
    await d.put_row(1, end_offset=row.end_offset + 1)


async def row_size(d: Damaged) -> None:
    await d.put_row(-1, size_bytes=1)


async def row_timestamp(d: Damaged) -> None:
    await d.put_row(-1, max_timestamp_ms=1)


async def damaged_row(d: Damaged) -> None:
    row = (await rows_of(d.engine, d.partition))[1]
    await d.store.log.put(Put(Key(partition_pk(d.partition), index_sk(row.base_offset)), {"v": 9}))


async def object_gone(d: Damaged) -> None:
    await d.store.objects.delete([wal_key(await d.upload_in_use(item=False))])


async def item_gone(d: Damaged) -> None:
    await d.store.log.delete(Delete(Key(*wal_item_key(await d.upload_in_use(item=True)))))


async def object_short(d: Damaged) -> None:
    await d.rewrite(wal_key(await d.upload_in_use(item=False)), lambda data: data[:-1])


async def object_flipped(d: Damaged) -> None:
    await d.rewrite(wal_key(await d.upload_in_use(item=False)), flip)


async def other_batch(d: Damaged) -> None:
    """The bytes of another record: whole, with a right CRC, and not those that were appended."""
    key = wal_key(await d.upload_in_use(item=False))
    size = len(await d.store.objects.get(key))
    other = next(made for n in range(200) if len(made := batch([b"x" * n, b"y"], producer=(9, 0, 999))) == size)
    await d.rewrite(key, lambda _: other)


async def segment_gone(d: Damaged) -> None:
    await d.store.objects.delete([(await d.segment())[0]])


async def index_gone(d: Damaged) -> None:
    await d.store.objects.delete([(await d.segment())[1]])


async def segment_flipped(d: Damaged) -> None:
    await d.rewrite((await d.segment())[0], flip)


async def index_flipped(d: Damaged) -> None:
    await d.rewrite((await d.segment())[1], flip)


async def topic_id_gone(d: Damaged) -> None:
    await d.store.catalog.delete(Delete(Key(TOPIC_IDS_PK, topic_id_sk(d.partition.topic_id))))


@pytest.mark.parametrize(
    ("damage", "finding_kind", "fast_too"),
    [
        (no_head, FindingKind.HEAD, True),
        (damaged_head, FindingKind.DAMAGED, True),
        (next_offset, FindingKind.HEAD, True),
        (log_start, FindingKind.HEAD, True),
        (merged_offset, FindingKind.ROWS, True),
        (first_row_gone, FindingKind.ROWS, True),
        (row_gone, FindingKind.ROWS, True),
        (last_row_gone, FindingKind.ROWS, True),
        (row_too_long, FindingKind.ROWS, True),
        (row_size, FindingKind.ROWS, True),
        (row_timestamp, FindingKind.ROWS, True),
        (damaged_row, FindingKind.DAMAGED, True),
        (object_gone, FindingKind.MISSING, True),
        (item_gone, FindingKind.MISSING, True),
        (object_short, FindingKind.MISSING, True),
        (object_flipped, FindingKind.DAMAGED, False),
        (other_batch, FindingKind.DAMAGED, False),
        (segment_gone, FindingKind.MISSING, True),
        (index_gone, FindingKind.MISSING, True),
        (segment_flipped, FindingKind.DAMAGED, False),
        (index_flipped, FindingKind.DAMAGED, False),
        (topic_id_gone, FindingKind.CATALOG, True),
    ],
)
async def test_each_damage_is_found_and_no_repair_hides_it(
    damage: Damage, finding_kind: FindingKind, fast_too: bool
) -> None:
    damaged = await Damaged().fill()
    await damage(damaged)
    report = await damaged.audit()
    assert finding_kind in {finding.kind for finding in report.findings}, report.findings
    assert not report.is_clean
    assert (finding_kind in {finding.kind for finding in (await damaged.audit(fast=True)).findings}) == fast_too


async def test_an_orphan_is_pending_while_a_maintainer_may_be_at_work_then_a_finding_and_repaired() -> None:
    d = await Damaged().fill()
    spilled = [row for row in await rows_of(d.engine, d.partition) if not row.is_segment]
    lease = await d.engine.leases.take(d.partition)
    assert lease is not None
    await upload_segment(d.engine, d.partition, spilled)
    report = await d.audit()
    assert (report.findings, report.pending["orphans"]) == ([], 2)
    await d.engine.leases.release(lease, clean=True)
    report = await d.audit()
    assert [finding.kind for finding in report.findings] == [FindingKind.ORPHAN] * 2
    before = await read_all(d.store.engine(5), "t", 0)
    repaired = await d.audit(repair=True)
    assert (repaired.findings, repaired.repaired["orphans_removed"]) == ([], 2)
    assert await read_all(d.store.engine(6), "t", 0) == before


@pytest.mark.parametrize("hours", [0, 4, 1_000])
async def test_old_uploads_that_the_next_sweep_removes_are_pending_however_late_it_is(hours: int) -> None:
    """A service that was off for a night has not lost anything."""
    d = await Damaged().fill()
    d.store.clock.advance(2 * 3600)
    await d.engine.maintenance.run()
    late = new_object_id(d.store.clock.now_ms() - 3 * 3_600_000, SeededRng(9).random_bytes)
    await d.engine.wal.upload(late, [b"late"])
    d.store.clock.advance(hours * 3600)
    report = await d.audit()
    assert (report.findings, report.pending["uploads_to_sweep"]) == ([], 1)
    assert [finding.kind for finding in (await d.audit(strict=True)).findings] == [FindingKind.UNREFERENCED]
    repaired = await d.audit(repair=True)
    assert repaired.is_clean
    assert repaired.repaired["uploads_swept"] >= 1 or not hours


async def test_what_is_left_of_a_deleted_topic_is_found_and_removed() -> None:
    d = await Damaged().fill()
    await d.engine.topics.delete("t")
    report = await d.audit()
    assert (report.findings, report.pending["deletions"]) == ([], 1)
    assert [finding.kind for finding in (await d.audit(strict=True)).findings] == [FindingKind.LEFTOVER]
    await d.engine.maintenance.run()
    late = segment_key(d.partition, 0, bytes(16))
    await d.store.objects.put(late, [b"uploaded by a maintainer that slept"])
    report = await d.audit()
    assert (report.findings, report.pending["deletions"]) == ([], 1)
    assert (await d.audit(repair=True, strict=True)).is_clean
    assert await d.store.objects.list("topics/") == []

    d.store.clock.advance(6 * 3600)
    await d.engine.maintenance.run()
    assert await d.store.catalog.query(DELETED_TOPICS_PK) == []
    await d.store.objects.put(late, [b"by one that slept for a day"])
    report = await d.audit()
    assert [finding.kind for finding in report.findings] == [FindingKind.LEFTOVER]
    assert (await d.audit(repair=True, strict=True)).is_clean
    assert await d.store.objects.list("topics/") == []


async def test_a_topic_without_its_id_row_keeps_its_objects_whatever_is_repaired() -> None:
    d = await Damaged().fill()
    await topic_id_gone(d)
    before = await read_all(d.store.engine(5), "t", 0)
    assert not (await d.audit(repair=True)).is_clean
    assert await read_all(d.store.engine(6), "t", 0) == before


async def test_a_repair_of_a_damaged_partition_deletes_nothing_of_it() -> None:
    d = await Damaged().fill()
    await damaged_head(d)
    d.store.clock.advance(3 * 3600)
    kept = await d.store.objects.list("wal/")
    report = await d.audit(repair=True)
    assert FindingKind.DAMAGED in {finding.kind for finding in report.findings}
    assert await d.store.objects.list("wal/") == kept


async def test_rows_below_the_log_start_and_ghosts_are_pending() -> None:
    d = await Damaged().fill()
    ghost = (await rows_of(d.engine, d.partition))[-1]
    await merge_by_hand(d.engine, d.partition)
    await d.store.log.put(Put(Key(partition_pk(d.partition), index_sk(ghost.base_offset)), encode_index_row(ghost)))
    await d.engine.delete_records([DeleteRecordsPartition("t", 0, 12)])
    report = await d.audit()
    assert report.findings == []
    assert report.pending["ghost_rows"] == 1 or ghost.base_offset == 0
    assert report.pending["rows_below_log_start"] >= 1
    assert not (await d.audit(strict=True)).is_clean


async def test_a_store_at_work_is_clean_all_the_time() -> None:
    store = memory_store(per_head=1)
    engine = store.engine(1, **SPILLING, merge_rows_min=2, catalog_cache_ms=0)
    await engine.topics.create("t", 1, {"retention.bytes": "2000"})
    stop = asyncio.Event()

    async def write() -> None:
        for n in range(60):
            await produce(engine, "t", 0, batch([b"%d" % n]))
            await asyncio.sleep(0)
        stop.set()

    async def maintain() -> None:
        while not stop.is_set():
            await engine.maintenance.run()
            await asyncio.sleep(0)

    async def audit() -> None:
        audits = 0
        while not stop.is_set():
            report = await audit_store(store.engine(2, catalog_cache_ms=0))
            assert report.findings == []
            audits += 1
            await asyncio.sleep(0)
        assert audits > 2

    await asyncio.gather(write(), maintain(), audit())


async def test_a_store_that_does_not_answer_is_an_error_not_a_finding() -> None:
    d = await Damaged().fill()
    d.store.log.script = {("query", d.store.log.count("query") + n): Fault.UNAVAILABLE for n in range(1, 500)}
    with pytest.raises(Exception, match="made to fail"):
        await d.audit()

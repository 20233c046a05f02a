"""Damage of columnar segments, with and without the bytes of values: row groups, footers and indexes."""

from __future__ import annotations

import pytest
from odradek.engine.audit.store import audit_store
from odradek.engine.partition.index_row import IndexRow
from odradek.errors import ErrorCode
from odradek.format.object_keys import index_key, segment_key
from odradek.format.offset_index import decode_offset_index
from odradek.format.record_batch import decode_batches
from odradek.model.log import FetchPartition

from tests.support.engine import Store, batch, memory_store, produce, read_all
from tests.support.stores.damage import damage, readable, replace
from tests.support.stores.segments import partition_of, rows_of

SMALL = {"head_bytes_max": 400, "spill_entries": 2, "merge_rows_min": 1, "table_group_bytes": 600}
TABLE = {
    "odradek.table.enable": "true",
    "odradek.table.segment.bytes": "8000",
    "odradek.table.schema": "id bigint, note string",
}


class Table:
    """A topic whose log begins with columnar segments of several row groups."""

    def __init__(self, store: Store) -> None:
        self.store = store

    @classmethod
    async def filled(cls, value_bytes: str) -> Table:
        table = cls(memory_store(per_head=1))
        engine = table.store.engine(**SMALL)
        await engine.topics.create("t", 1, TABLE | {"odradek.table.value.bytes": value_bytes})
        for i in range(120):
            values: list[bytes | None] = [b'{"id":%d,"note":"n%04d"}' % (i, i * 7919), b"no JSON %d" % i]
            assert not (await produce(engine, "t", 0, batch(values, timestamp_ms=1_700_000_000_000 + i))).error
        table.store.clock.advance(61)
        assert (await table.store.engine(7, **SMALL).maintenance.run()).failures == []
        return table

    async def first(self) -> IndexRow:
        engine = self.store.engine(**SMALL)
        row = (await rows_of(engine, await partition_of(engine, "t")))[0]
        assert row.is_columnar
        return row

    async def keys(self) -> tuple[str, str]:
        row, partition = await self.first(), await partition_of(self.store.engine(), "t")
        assert row.segment_id is not None
        return (
            segment_key(partition, row.base_offset, row.segment_id, is_columnar=True),
            index_key(partition, row.base_offset, row.segment_id),
        )

    async def repaired(self) -> list[str]:
        report = await audit_store(self.store.engine(9, **SMALL), repair=True, skip_damaged=True)
        assert report.findings == []
        return report.skipped


@pytest.mark.parametrize("value_bytes", ["true", "false"])
async def test_a_damaged_row_group_hides_no_other(value_bytes: str) -> None:
    table = await Table.filled(value_bytes)
    before = await read_all(table.store.engine(), "t", 0)
    file, index_name = await table.keys()
    index = decode_offset_index(await table.store.objects.get(index_name))
    assert len(index.groups) > 3
    data = bytearray(await table.store.objects.get(file))
    group, first, end = index.groups[1], index.offsets[1], index.offsets[2]
    data[group.position : group.position + group.size_bytes] = bytes(group.size_bytes)
    await replace(table.store, file, bytes(data))
    lost = list(range(first, end))
    intact = [n for n in range(240) if n not in lost]
    assert await readable(table.store.engine(3), 240) == (intact, lost)
    assert await table.repaired() == [f"t-0 [{first}, {end})"]
    assert await readable(table.store.engine(4), 240) == (intact, [])
    after: list[object] = []
    for offset in (0, end):
        [result] = await table.store.engine().fetch([FetchPartition("t", 0, offset, max_bytes=1 << 24)])
        assert result.error is ErrorCode.NONE
        after += [record for record in decode_batches(b"".join(result.records)) if record not in after]
    assert all(record in before for record in after)
    # The log goes on: its next merges and catch-ups are not kept by it.
    engine = table.store.engine(**SMALL)
    for i in range(60):
        await produce(engine, "t", 0, batch([b'{"id":%d}' % i, b"-"]))
    table.store.clock.advance(3601)
    assert (await table.store.engine(8, **SMALL).maintenance.run()).failures == []
    assert await readable(table.store.engine(5), 360) == ([*intact, *range(240, 360)], [])


@pytest.mark.parametrize("value_bytes", ["true", "false"])
async def test_a_damaged_footer_hides_nothing_from_consumers(value_bytes: str) -> None:
    table = await Table.filled(value_bytes)
    file, _ = await table.keys()
    await damage(table.store, file, "one bit")
    assert await readable(table.store.engine(3), 240) == (list(range(240)), [])
    assert (await audit_store(table.store.engine(4, **SMALL))).findings


@pytest.mark.parametrize("how", ["missing", "truncated", "zeros", "one bit"])
@pytest.mark.parametrize("value_bytes", ["true", "false"])
async def test_a_lost_index_is_made_again_from_the_file(how: str, value_bytes: str) -> None:
    table = await Table.filled(value_bytes)
    before = await read_all(table.store.engine(), "t", 0)
    row = await table.first()
    _, index = await table.keys()
    original = await table.store.objects.get(index)
    await damage(table.store, index, how)
    lost = list(range(row.base_offset, row.end_offset))
    assert await readable(table.store.engine(3), 240) == ([n for n in range(240) if n not in lost], lost)
    assert await table.repaired() == []
    assert await table.store.objects.get(index) == original
    assert await read_all(table.store.engine(4), "t", 0) == before

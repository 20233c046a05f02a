"""Iceberg tables follow the rows of their topics: exactly once, over crashes, and never behind a deletion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from odradek.adapters.memory import MemoryTableCatalog
from odradek.engine.audit.store import audit_store
from odradek.engine.engine import Engine
from odradek.engine.iceberg.decisions import OFFSETS, covered_by, covered_without, decode_covered, encode_covered
from odradek.engine.maintenance.maintenance import MaintenanceReport
from odradek.errors import ErrorCode, KafkaError, OutcomeUnknown
from odradek.format.object_keys import partition_prefix
from odradek.model.log import DeleteRecordsPartition
from odradek.ports.table_catalog import TableName
from odradek.settings import Settings
from odradek.testing.faults import Fault, Faulty
from odradek.testing.seeded_rng import SeededRng

from tests.support.engine import Store, batch, memory_store, produce, read_all
from tests.support.examples import some
from tests.support.stores.segments import partition_of, rows_of

SMALL = {"head_bytes_max": 400, "spill_entries": 2, "merge_rows_min": 1, "table_group_bytes": 600, "paged_appends": 2}
TABLE = {
    "odradek.table.enable": "true",
    "odradek.table.segment.bytes": "3000",
    "odradek.table.schema": "n bigint",
    "odradek.table.iceberg.enable": "true",
}
NAME = TableName("odradek", "t")


class Lake:
    """A store with a catalog, both with faults to order; `check` is what must hold after every call."""

    def __init__(self) -> None:
        self.store: Store = memory_store()
        self.memory = MemoryTableCatalog(self.store.clock)
        self.catalog = Faulty(self.memory)

    def engine(self, seed: int = 0, *, catalog: bool = True) -> Engine:
        store = self.store
        return Engine(
            tables=store.tables,
            objects=store.objects,  # type: ignore[arg-type]
            clock=store.clock,
            rng=SeededRng(seed),
            settings=Settings(**SMALL),  # type: ignore[arg-type]
        ).keep_tables(self.catalog if catalog else None)  # type: ignore[arg-type]

    async def fill(self, batches: int = 60, first: int = 0, partitions: Sequence[int] = (0,)) -> None:
        engine = self.engine()
        for i in range(first, first + batches):
            for number in partitions:
                packed = batch([b'{"n": %d}' % i, None, b"x" * 60], timestamp_ms=1_700_000_000_000 + i)
                assert not (await produce(engine, "t", number, packed)).error
            if i % 10 == 9:
                self.store.clock.advance(61)

    async def maintain(self, seed: int = 7, *, catalog: bool = True) -> MaintenanceReport:
        return await self.engine(seed, catalog=catalog).maintenance.run()

    async def columnar(self, number: int = 0) -> dict[str, tuple[int, int]]:
        from odradek.engine.iceberg.decisions import files_of

        engine = self.engine()
        partition = await partition_of(engine, "t", number)
        return files_of(partition, await rows_of(engine, partition))

    def files(self) -> frozenset[str]:
        return self.memory.tables[NAME].snapshots[-1].files

    def covered(self) -> dict[int, list[tuple[int, int]]]:
        return decode_covered(self.memory.tables[NAME].snapshots[-1].summary[OFFSETS])

    async def objects(self, number: int = 0) -> set[str]:
        partition = await partition_of(self.engine(), "t", number)
        return {info.key for info in await self.store.objects.list(partition_prefix(partition))}

    async def check(self) -> None:
        """No snapshot has a file that is not there: what any reader of the table needs."""
        names = {info.key for info in await self.store.objects.list("topics/")}
        for name, table in self.memory.tables.items():
            for snapshot in table.snapshots:
                assert snapshot.files <= names, (name, snapshot.files - names)


async def made(**configs: str) -> Lake:
    lake = Lake()
    await lake.engine().topics.create("t", 2, {**TABLE, **configs})
    await lake.fill(partitions=(0, 1))
    return lake


async def test_the_table_has_the_files_of_the_rows_and_says_their_offsets() -> None:
    lake = await made()
    report = await lake.maintain()
    assert report.failures == []
    first = await lake.columnar(0) | await lake.columnar(1)
    assert len(first) >= 4, report.done
    assert lake.files() == first.keys()
    assert lake.covered() == {
        number: [(0, max(end for _, end in (await lake.columnar(number)).values()))] for number in (0, 1)
    }
    table = lake.memory.tables[NAME]
    assert len(table.snapshots) == 1, "one commit for all partitions"
    await lake.maintain(8)
    assert len(table.snapshots) == 1, "nothing to do, no commit"
    await lake.fill(40, first=60)
    await lake.maintain(9)
    assert lake.files() == (await lake.columnar(0) | await lake.columnar(1)).keys() > first.keys()
    await lake.check()


async def test_a_table_at_rest_is_not_loaded() -> None:
    lake = await made()
    await lake.maintain()
    lake.catalog.calls.clear()
    await lake.maintain(8)
    assert lake.catalog.calls == []


async def test_a_maintainer_that_comes_late_commits_nothing_twice() -> None:
    lake = await made()
    slow, fast = lake.engine(1), lake.engine(2)
    await lake.engine(3, catalog=False).maintenance.run()
    topic = await slow.topics.resolve("t")
    report = MaintenanceReport()
    commits: list[Any] = []
    original = lake.memory.commit

    async def commit(table: Any, change: Any) -> Any:
        if not commits:
            commits.append(change)
            await fast.tables.follow(topic, report.done)  # between decision and commit of the slow one
        return await original(table, change)

    lake.memory.commit = commit  # type: ignore[method-assign]
    await slow.tables.follow(topic, report.done)
    table = lake.memory.tables[NAME]
    assert len(table.snapshots) == 1
    assert lake.files() == (await lake.columnar(0) | await lake.columnar(1)).keys()


async def test_a_commit_decided_before_a_deletion_is_refused_after_it() -> None:
    lake = await made()
    await lake.maintain(3, catalog=False)
    slow = lake.engine(1)
    topic = await slow.topics.resolve("t")
    original, waiting = lake.memory.commit, True

    async def commit(table: Any, change: Any) -> Any:
        nonlocal waiting
        if waiting:
            waiting = False
            end = max(end for _, end in (await lake.columnar()).values())
            [result] = await slow.delete_records([DeleteRecordsPartition("t", 0, end)])
            assert result.error is ErrorCode.NONE
            await lake.maintain(5)
        return await original(table, change)

    lake.memory.commit = commit  # type: ignore[method-assign]
    await slow.tables.follow(topic, MaintenanceReport().done)
    await lake.check()
    assert lake.files() == (await lake.columnar(0) | await lake.columnar(1)).keys()


async def test_retention_and_delete_records_take_files_out_before_they_go() -> None:
    lake = await made()
    await lake.maintain()
    before = await lake.columnar()
    first_end = min(end for _, end in before.values())
    await lake.engine().delete_records([DeleteRecordsPartition("t", 0, first_end)])
    report = await lake.maintain(8)
    assert report.failures == []
    assert report.done["table_files_removed"] == 1
    assert lake.files() == (await lake.columnar(0) | await lake.columnar(1)).keys()
    assert lake.covered()[0][0][0] == first_end
    await lake.check()
    assert len(await lake.objects()) == 2 * len([k for k in await lake.objects() if not k.endswith(".index")])


async def test_files_wait_while_the_catalog_does_not_answer_and_go_later() -> None:
    lake = await made()
    await lake.maintain()
    end = max(end for _, end in (await lake.columnar()).values())
    await lake.engine().delete_records([DeleteRecordsPartition("t", 0, end)])
    lake.catalog.script = {("load", n): Fault.UNAVAILABLE for n in range(1, 100)}
    report = await lake.maintain(8)
    assert report.done["table_files_waiting"] > 0
    await lake.check()
    kept = await lake.objects()
    assert any(key in kept for key in lake.files())
    state = (await lake.engine().tables.states.all())[0]
    assert state.behind_why is not None
    assert "made to fail" in state.behind_why
    lake.catalog.script = {}
    assert (await lake.maintain(9)).failures == []
    await lake.maintain(10)
    assert await lake.columnar() == {}
    assert not any(key.endswith(".parquet") for key in await lake.objects())
    assert (await lake.engine().tables.states.all())[0].behind_why is None
    await lake.check()


async def test_a_process_without_a_catalog_deletes_no_file_of_a_table() -> None:
    lake = await made()
    await lake.maintain()
    end = max(end for _, end in (await lake.columnar()).values())
    await lake.engine().delete_records([DeleteRecordsPartition("t", 0, end)])
    report = await lake.maintain(8, catalog=False)
    assert report.done["table_files_waiting"] > 0
    await lake.check()
    await lake.maintain(9)
    await lake.check()
    assert not any(key.endswith(".parquet") for key in await lake.objects())


async def test_deletion_of_the_topic_drops_the_table_first() -> None:
    lake = await made()
    await lake.maintain()
    await lake.engine().topics.delete("t")
    lake.catalog.script = {("drop", 1): Fault.UNAVAILABLE}
    assert (await lake.maintain(8)).failures
    await lake.check()
    lake.store.clock.advance(61)
    lake.catalog.script = {}
    assert (await lake.maintain(9)).failures == []
    assert lake.memory.tables == {}
    assert await lake.store.objects.list("topics/") == []
    assert await lake.engine().tables.states.all() == []


async def test_disabling_drops_the_table_and_a_new_name_moves_it() -> None:
    lake = await made()
    await lake.maintain()
    await lake.engine().topics.alter_configs("t", set={"odradek.table.iceberg.table": "flights"})
    lake.store.clock.advance(61)
    await lake.maintain(8)
    assert list(lake.memory.tables) == [TableName("odradek", "flights")]
    await lake.engine().topics.alter_configs("t", set={"odradek.table.iceberg.enable": "false"})
    lake.store.clock.advance(61)
    await lake.maintain(9)
    assert lake.memory.tables == {}
    assert await lake.columnar()


async def test_a_table_of_something_else_is_left_alone_and_told() -> None:
    lake = await made()
    await lake.memory.create(NAME, UUID(int=5), ())
    report = await lake.maintain()
    assert [failure for failure in report.failures if "is of the topic" in failure]
    assert report.done["table_segments_written"] > 0, "the log goes on"
    assert not lake.memory.tables[NAME].snapshots
    lake.memory.tables.clear()
    assert (await lake.maintain(8)).failures == []
    assert lake.files()


async def test_orphans_that_a_table_may_have_are_taken_out_first() -> None:
    """A maintainer that died between the removal of rows and the deletion of objects."""
    lake = await made()
    await lake.maintain()
    end = min(end for _, end in (await lake.columnar()).values())
    await lake.engine().delete_records([DeleteRecordsPartition("t", 0, end)])
    lake.store.objects.script = {("delete", n): Fault.UNAVAILABLE for n in range(1, 9)}
    lake.store.objects.calls.clear()
    lake.catalog.script = {("load", n): Fault.UNAVAILABLE for n in range(1, 100)}
    await lake.maintain(8)
    await lake.check()
    lake.store.objects.script = {}
    lake.catalog.script = {}
    report = await lake.maintain(9)
    assert report.done["orphans_removed"] >= 2
    await lake.check()


@pytest.mark.parametrize("fault", some([Fault.LOST_ANSWER, Fault.UNAVAILABLE, Fault.LATE, Fault.LOST_REQUEST], every=2))
async def test_faults_at_every_call_leave_the_table_equal_to_the_rows(fault: Fault) -> None:
    """Each call of a pass that merges, drops and follows fails once; then one clean pass."""
    for call in ("load", "create", "commit", "expire"):
        lake = await made()
        lake.catalog.script = {(call, 1): fault}
        await lake.maintain()
        await lake.check()
        first_end = min(end for _, end in (await lake.columnar()).values())
        await lake.engine().delete_records([DeleteRecordsPartition("t", 0, first_end)])
        lake.catalog.calls.clear()
        await lake.maintain(8)
        await lake.check()
        await lake.catalog.deliver_late()
        await lake.check()
        lake.catalog.script = {}
        for seed in (9, 10):
            lake.store.clock.advance(61)
            report = await lake.maintain(seed)
        assert report.failures == [], call
        assert lake.files() == (await lake.columnar(0) | await lake.columnar(1)).keys(), call
        await lake.check()
        files = {key for key in await lake.objects() if key.endswith(".parquet")}
        assert files == (await lake.columnar()).keys(), call


async def test_the_reason_of_a_commit_that_never_goes_through_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = await made()

    async def unknown(*_: object) -> None:
        raise OutcomeUnknown("the disk of the catalog is full")

    monkeypatch.setattr(lake.memory, "commit", unknown)
    report = await lake.maintain()
    assert "the disk of the catalog is full" in " ".join(map(str, report.failures))
    [state] = await lake.engine().tables.states.all()
    assert "the disk of the catalog is full" in (state.behind_why or "")


def is_whole(lake: Lake) -> bool:
    """Return True if each snapshot of the table covers what the one before covered."""
    ends = [
        decode_covered(snapshot.summary[OFFSETS]).get(0, [(0, 0)]) for snapshot in lake.memory.tables[NAME].snapshots
    ]
    return all(len(ranges) == 1 and ranges[0][0] == 0 for ranges in ends) and ends == sorted(ends)


async def test_a_flush_brings_the_whole_topic_into_the_table() -> None:
    lake = Lake()
    await lake.engine().topics.create("t", 1, {**TABLE, "odradek.table.segment.bytes": "1000000"})
    await lake.fill(20)
    lake.store.clock.advance(600)
    assert (await lake.maintain()).failures == []
    assert not lake.memory.tables[NAME].snapshots, "no segment is full"
    now_ms = lake.store.clock.now_ms()
    assert (await lake.engine().backlogs.look()).table_behind_seconds >= 600
    await lake.engine().topics.alter_configs("t", set={"odradek.table.flush.ms": str(now_ms)})
    lake.store.clock.advance(600)
    for seed in (8, 9):
        assert (await lake.maintain(seed)).failures == []
    assert lake.covered() == {0: [(0, 60)]}
    assert (await lake.engine().backlogs.look()).table_behind_seconds == 0
    await lake.fill(2, first=20)
    lake.store.clock.advance(600)
    await lake.maintain(10)
    assert lake.covered() == {0: [(0, 60)]}, "once"
    await lake.check()


async def test_an_interval_keeps_the_table_close_and_joins_its_small_files() -> None:
    lake = Lake()
    interval = {"odradek.table.commit.interval.ms": "60000", "odradek.table.segment.bytes": "20000"}
    await lake.engine().topics.create("t", 1, {**TABLE, **interval})
    before: list[Any] = []
    for turn in range(40):
        await lake.fill(2, first=2 * turn)
        before = await read_all(lake.engine(), "t", 0)
        for _ in range(2):
            lake.store.clock.advance(90)
            assert (await lake.maintain(turn + 100)).failures == []
        assert lake.covered()[0][-1][1] == 6 * (turn + 1), turn
        assert await read_all(lake.engine(), "t", 0) == before
        await lake.check()
    assert is_whole(lake)
    files = await lake.columnar()
    assert lake.files() == files.keys()
    assert len(files) < 15, "forty files were joined"
    assert (await audit_store(lake.engine(), fast=False)).findings == []


async def test_wrong_names_are_refused() -> None:
    engine = memory_store().engine()
    for name, value in (
        ("odradek.table.iceberg.enable", "yes"),
        ("odradek.table.iceberg.namespace", ""),
        ("odradek.table.iceberg.table", "a.b"),
    ):
        with pytest.raises(KafkaError, match=name):
            await engine.topics.create("t", 1, {name: value})


async def test_a_column_of_an_iceberg_table_keeps_its_type() -> None:
    engine = memory_store().engine()
    await engine.topics.create("t", 1, TABLE)
    with pytest.raises(KafkaError, match="cannot become string"):
        await engine.topics.alter_configs("t", set={"odradek.table.schema": "n string"})
    await engine.topics.alter_configs("t", set={"odradek.table.schema": "n bigint, s string"})
    await engine.topics.alter_configs("t", set={"odradek.table.iceberg.enable": "false"})
    await engine.topics.alter_configs("t", set={"odradek.table.schema": "n string"})


def test_what_remains_covered_when_files_go() -> None:
    files = {
        f"topics/{UUID(int=1)}/{number}/{base:020d}-{base:032x}.parquet": (base, end)
        for number, base, end in ((0, 0, 10), (0, 10, 25), (0, 25, 30), (0, 40, 50), (1, 5, 9))
    }
    keys = sorted(files)
    covered = covered_by(files)
    assert covered == {0: [(0, 30), (40, 50)], 1: [(5, 9)]}
    assert decode_covered(encode_covered(covered)) == covered
    for removed_bits in range(2 ** len(keys)):
        removed = [key for i, key in enumerate(keys) if removed_bits >> i & 1]
        kept = {key: span for key, span in files.items() if key not in removed}
        assert covered_without(covered, removed, kept) == covered_by(kept)


async def test_a_repair_brings_tables_up_where_maintainers_have_no_catalog() -> None:
    lake = await made()
    await lake.maintain(7, catalog=False)
    assert lake.memory.tables == {}
    lake.store.clock.advance(7_300)
    report = await audit_store(lake.engine(8), fast=True, repair=True)
    assert report.repaired["table_files_added"] == len(lake.files()) > 0
    assert lake.files() == (await lake.columnar(0) | await lake.columnar(1)).keys()
    end = max(end for _, end in (await lake.columnar()).values())
    await lake.engine().delete_records([DeleteRecordsPartition("t", 0, end)])
    await lake.maintain(9, catalog=False)
    await lake.check()
    lake.store.clock.advance(7_300)
    await audit_store(lake.engine(10), fast=True, repair=True)
    await lake.check()
    assert not any(key.endswith(".parquet") for key in await lake.objects())


async def test_a_reason_that_does_not_last_does_not_rewrite_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    from odradek.columnar import table_file

    def full(*_: object) -> None:
        raise MemoryError

    lake = await made()
    with monkeypatch.context() as patched:
        patched.setattr(table_file, "_table", full)
        await lake.maintain(7)
        before = await lake.objects()
        lake.store.clock.advance(3_700)
        report = await lake.maintain(8)
        assert 0 < report.done["table_segments_refused"] <= 2, "one try a partition"
        assert await lake.objects() == before
    lake.store.clock.advance(3_700)
    await lake.maintain(9)
    assert await lake.columnar()


async def test_rows_that_change_after_they_were_read_are_followed_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The epochs are read before the rows: whoever changes rows afterwards has raised an epoch that is not noted."""
    lake = await made()
    engine = lake.engine(3)
    follower = engine.maintenance.tables
    segments, merges = follower._segments, 0

    async def merged_meanwhile(partition: Any) -> Any:
        nonlocal merges
        rows = await segments(partition)
        if not merges:
            merges += 1
            await lake.maintain(catalog=False)  # takes the leases, swaps rows, and gives the leases back
        return rows

    monkeypatch.setattr(follower, "_segments", merged_meanwhile)
    topic = await engine.topics.resolve("t")
    done: Any = Counter()
    await follower.follow(topic, done)
    assert merges
    fresh = lake.engine(4)
    assert [table.name for table in await fresh.maintenance.tables.due([topic])] == ["t"]
    await fresh.maintenance.tables.follow(topic, done)
    assert lake.files() == (await lake.columnar(0)).keys() | (await lake.columnar(1)).keys()
    assert await fresh.maintenance.tables.due([topic]) == []


@pytest.mark.parametrize("change", ["renamed", "disabled"])
async def test_a_maintainer_that_has_an_older_row_of_the_topic_changes_nothing(change: str) -> None:
    """It may have been frozen since before the configuration changed: what it knows of the table's name is old."""
    lake = await made()
    await lake.maintain()
    late = lake.engine(3)
    old = await late.topics.resolve("t")
    new_name = TableName("odradek", "renamed")
    admin = lake.engine(4)
    if change == "renamed":
        await admin.topics.alter_configs("t", set={"odradek.table.iceberg.table": "renamed"})
    else:
        await admin.topics.alter_configs("t", set={"odradek.table.iceberg.enable": "false"})
    await lake.maintain(seed=8)
    expected = {new_name} if change == "renamed" else set()
    assert set(lake.memory.tables) == expected
    await late.maintenance.tables.follow(old, Counter())
    assert set(lake.memory.tables) == expected
    await lake.check()

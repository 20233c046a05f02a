"""The sweep: what nobody refers to goes, whatever anybody may still commit stays or is refused."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import product
from typing import Any

import pytest
from odradek.engine.catalog.sweep_floor import SWEEP_FLOOR_KEY, read_sweep_state
from odradek.engine.catalog.topics import Topics
from odradek.engine.engine import Engine
from odradek.engine.maintenance.sweep import drop_referenced
from odradek.engine.maintenance.wal_uploads import HOUR_MS, WalUploads
from odradek.engine.partition.head import PartitionHead
from odradek.errors import ErrorCode, KafkaError, StoreError, StoreUnavailable
from odradek.format.item_keys import wal_item_key
from odradek.format.object_id import new_object_id
from odradek.format.object_keys import wal_key
from odradek.model.log import ProducePartition
from odradek.model.topic_partition import PartitionId
from odradek.settings import Settings
from odradek.testing.faults import Fault
from odradek.testing.seeded_rng import SeededRng

from tests.support.engine import Store, batch, memory_store, produce, read_all
from tests.support.examples import some
from tests.support.stores.segments import merge_by_hand, partition_of

ID_END = (4_000_000_000_000).to_bytes(6, "big") + bytes(10)
SPILLING: dict[str, int] = {"head_bytes_max": 400, "spill_entries": 1}
OBJECTS: dict[str, int] = {**SPILLING, "item_bytes_max": 0}


@pytest.fixture
def store() -> Store:
    return memory_store(per_head=1)


async def uploads(store: Store, hours_back: int = 5) -> list[bytes]:
    """The ids of all uploads that are in the store."""
    hours = range(store.clock.now_ms() // HOUR_MS - hours_back, store.clock.now_ms() // HOUR_MS + 2)
    wal_uploads = WalUploads(store.log, store.objects, store.clock, SeededRng(4))  # type: ignore[arg-type]
    return [upload.object_id async for upload in wal_uploads.below(ID_END, hours)]


async def sweep(engine: Engine) -> Counter[str]:
    done: Counter[str] = Counter()
    await engine.sweep.run(done)
    return done


async def upload(engine: Engine, age_ms: int = 0) -> bytes:
    """An upload that is never committed."""
    object_id = new_object_id(engine.clock.now_ms() - age_ms, SeededRng(age_ms).random_bytes)
    await engine.wal.upload(object_id, [b"lost"])
    return object_id


@pytest.mark.parametrize("settings", [SPILLING, OBJECTS, {**OBJECTS, "sweep_uploads_max": 3}])
async def test_lost_and_merged_uploads_go_referenced_and_young_ones_stay(
    store: Store, settings: dict[str, int]
) -> None:
    engine = store.engine(**settings)
    await engine.topics.create("t", 2)
    for n in range(12):
        await produce(engine, "t", n % 2, batch([b"%d" % n]))
    await merge_by_hand(engine, await partition_of(engine, "t", 0))
    lost = await upload(engine)
    store.clock.advance(2 * 3600)
    young = await upload(engine)
    store.clock.advance(60)
    before = set(await uploads(store))
    done = await sweep(engine)
    after = set(await uploads(store))
    assert lost in before - after
    assert young in after
    assert len(before - after) == done["uploads_swept"] > 1, "what the merge took into a segment is gone as well"
    for partition in (0, 1):
        values = [record.value for record in await read_all(store.engine(3), "t", partition)]
        assert values == [b"%d" % n for n in range(12) if n % 2 == partition]
    assert (await sweep(engine))["uploads_swept"] == 0


async def test_what_a_tail_or_a_spilled_row_needs_is_kept_for_years_and_goes_once_merged(store: Store) -> None:
    engine = store.engine(**SPILLING)
    await engine.topics.create("t")
    for n in range(9):
        await produce(engine, "t", 0, batch([b"%d" % n]))
    await upload(engine)
    for _ in range(5):
        store.clock.advance(30 * 3600)
        await sweep(engine)
    assert len(await uploads(store, 160)) == 9
    assert len(await read_all(engine, "t", 0)) == 9
    await merge_by_hand(engine, await partition_of(engine, "t"))
    assert (await sweep(store.engine(1)))["uploads_swept"] > 0, "the hours that were left are remembered"
    assert len(await read_all(store.engine(2), "t", 0)) == 9


async def test_a_late_upload_to_an_hour_long_swept_is_found(store: Store) -> None:
    engine = store.engine(**SPILLING)
    await engine.topics.create("t")
    for _ in range(4):
        store.clock.advance(3600)
        await sweep(engine)
    late_item = await upload(engine, age_ms=5 * HOUR_MS)
    late_object = await upload(store.engine(item_bytes_max=0), age_ms=40 * HOUR_MS)
    assert {late_item, late_object} <= set(await uploads(store))
    assert (await sweep(engine))["uploads_swept"] == 2
    assert await uploads(store) == []


class Stalled:
    """A table whose next `update` waits until it is let go."""

    def __init__(self, table: Any) -> None:
        self._table = table
        self.reached = asyncio.Event()
        self.go = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    async def update(self, update: Any) -> Any:
        self.reached.set()
        await self.go.wait()
        return await self._table.update(update)


@pytest.mark.parametrize("producer", [(-1, -1, -1), (7, 0, 0)])
@pytest.mark.parametrize("settings", [SPILLING, OBJECTS])
async def test_a_writer_that_stalls_past_the_sweep_is_refused_and_uploads_again(
    store: Store, settings: dict[str, int], producer: tuple[int, int, int]
) -> None:
    asleep = memory_store(per_head=1)  # its clock stands while the machine sleeps
    asleep.tables, asleep.objects = store.tables, store.objects
    writer, sweeper = asleep.engine(1, **settings), store.engine(2)
    await writer.topics.create("t")
    stalled = Stalled(store.log)
    writer.index._log = stalled  # type: ignore[assignment]
    # Two batches: each of them must come back as itself.
    second = (producer[0], producer[1], 1) if producer[0] >= 0 else producer
    records = batch([b"first"], producer=producer) + batch([b"second"], producer=second)
    writing = asyncio.create_task(produce(writer, "t", 0, records))
    await stalled.reached.wait()
    [uploaded] = await uploads(store)
    store.clock.advance(2 * 3600)
    assert (await sweep(sweeper))["uploads_swept"] == 1
    assert await uploads(store) == []
    stalled.go.set()
    result = await writing
    assert (result.error, result.base_offset) == (ErrorCode.NONE, 0)
    assert uploaded not in await uploads(store)
    assert [record.value for record in await read_all(sweeper, "t", 0)] == [b"first", b"second"]
    store.clock.advance(2 * 3600)
    await sweep(sweeper)
    assert [record.value for record in await read_all(store.engine(4), "t", 0)] == [b"first", b"second"]


async def test_a_writer_that_is_too_late_to_upload_again_says_that_nothing_was_appended(store: Store) -> None:
    writer, sweeper = store.engine(1), store.engine(2)
    await writer.topics.create("t")
    await writer.topics.resolve("t")
    stalled = Stalled(store.log)
    writer.index._log = stalled  # type: ignore[assignment]
    writing = asyncio.create_task(produce(writer, "t", 0, batch([b"x"])))
    await stalled.reached.wait()
    store.clock.advance(2 * 3600)
    assert (await sweep(sweeper))["uploads_swept"] == 1
    stalled.go.set()
    assert (await writing).error is ErrorCode.NOT_ENOUGH_REPLICAS
    assert await read_all(sweeper, "t", 0) == []


async def test_a_writer_whose_clock_is_hours_behind_gets_in_all_the_same(store: Store) -> None:
    behind = memory_store(per_head=1)
    behind.tables, behind.objects = store.tables, store.objects
    engine = store.engine()
    await engine.topics.create("t")
    await upload(engine)
    store.clock.advance(10 * 3600)
    await sweep(engine)
    result = await produce(behind.engine(1), "t", 0, batch([b"x"]))
    assert result.error is ErrorCode.NONE
    store.clock.advance(20 * 3600)
    await sweep(engine)
    assert [record.value for record in await read_all(engine, "t", 0)] == [b"x"]


@pytest.mark.parametrize("act", ["create", "grow"])
@pytest.mark.parametrize("at_call", [*range(1, 9)])
async def test_a_partition_made_in_the_middle_of_a_sweep_has_the_floor(store: Store, act: str, at_call: int) -> None:
    """The sweep runs whole at each catalog call of the creation; the writer's upload is older than its floor."""
    maker, sweeper = store.engine(1, catalog_cache_ms=0), store.engine(2)
    await maker.topics.create("there")
    lost = await upload(sweeper)
    store.clock.advance(2 * 3600)
    swept: list[int] = []
    interrupting = Interrupting(store.catalog, at_call, lambda: sweep_into(sweeper, swept))
    topics = Topics(interrupting, maker.index, store.clock, SeededRng(5), Settings(catalog_cache_ms=0))  # type: ignore[arg-type]
    await (topics.create("t") if act == "create" else topics.create_partitions("there", 2))
    if not swept:
        await sweep_into(sweeper, swept)
    assert swept == [1]
    state = await read_sweep_state(store.catalog)
    assert state.floor > lost
    topic = await maker.topics.resolve("t" if act == "create" else "there")
    for number in range(topic.partition_count):
        head = await maker.index.read_head(await partition_of(maker, topic.name, number))
        assert head is not None
        assert head.sweep_floor == state.floor


async def sweep_into(engine: Engine, swept: list[int]) -> None:
    swept.append((await sweep(engine))["uploads_swept"])


class Interrupting:
    """A table at whose n-th call something else happens first."""

    def __init__(self, table: Any, at_call: int, act: Callable[[], Awaitable[None]]) -> None:
        self._table, self._left, self._act = table, at_call, act

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._table, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            self._left -= 1
            if self._left == 0:
                await self._act()
            return await method(*args, **kwargs)

        return call


async def test_a_head_left_by_a_creation_that_died_gets_the_floor_when_it_becomes_visible(store: Store) -> None:
    engine = store.engine(catalog_cache_ms=0)
    await engine.topics.create("t")
    store.catalog.script = {("transact", store.catalog.count("transact") + n): Fault.UNAVAILABLE for n in range(1, 9)}
    with pytest.raises(KafkaError):
        await engine.topics.create_partitions("t", 2)
    store.catalog.script = {}
    partition = await partition_of(engine, "t", 1)
    assert await engine.index.read_head(partition) is not None
    await upload(engine)
    store.clock.advance(2 * 3600)
    await sweep(engine)
    await engine.topics.create_partitions("t", 2)
    head = await engine.index.read_head(partition)
    assert head is not None
    assert head.sweep_floor == (await read_sweep_state(store.catalog)).floor


async def test_a_head_that_cannot_be_raised_ends_the_sweep_before_anything_is_deleted(store: Store) -> None:
    engine = store.engine()
    await engine.topics.create("t", 2)
    lost = await upload(engine)
    store.clock.advance(2 * 3600)
    done = store.log.count("update")
    store.log.script = {("update", done + n): Fault.UNAVAILABLE for n in range(2, 50)}
    with pytest.raises(StoreUnavailable):
        await sweep(engine)
    assert await uploads(store) == [lost]
    store.log.script = {}
    assert (await sweep(engine))["uploads_swept"] == 1


async def test_a_quiet_store_costs_no_write_a_head(store: Store) -> None:
    engine = store.engine(**SPILLING)
    await engine.topics.create("t", 5)
    await produce(engine, "t", 0, batch([b"x"]))
    for _ in range(3):
        store.clock.advance(2 * 3600)
        await sweep(engine)
    assert store.log.count("update") == 1 + 5
    assert len(await read_all(engine, "t", 0)) == 1


async def test_it_runs_when_the_last_one_is_an_interval_ago(store: Store) -> None:
    engine = store.engine()
    runs = []
    for minutes in (0, 30, 29, 2, 59, 1):
        store.clock.advance(60 * minutes)
        runs.append((await engine.maintenance.run()).done["sweeps"])
    assert runs == [1, 0, 0, 1, 0, 1]


async def test_two_sweeps_at_once_and_one_that_sleeps_before_it_deletes(store: Store) -> None:
    engine, slow = store.engine(1, **SPILLING), store.engine(2, sweep_uploads_max=2)
    await engine.topics.create("t", 2)
    for n in range(10):
        await produce(engine, "t", n % 2, batch([b"%d" % n]))
    lost = [await upload(engine, age_ms=n) for n in range(3)]
    store.clock.advance(2 * 3600)
    going = asyncio.Event()
    deleter = slow.sweep._uploads
    delete = deleter.delete

    async def sleepy(keys_deleted: Any) -> None:
        await going.wait()
        await delete(keys_deleted)

    deleter.delete = sleepy  # type: ignore[method-assign]
    sleeping = asyncio.create_task(sweep(slow))
    await asyncio.sleep(0)
    await sweep(engine)
    for n in range(10, 20):
        await produce(engine, "t", n % 2, batch([b"%d" % n]))
    store.clock.advance(2 * 3600)
    await sweep(engine)
    await merge_by_hand(engine, await partition_of(engine, "t", 0))
    going.set()
    await sleeping
    assert not set(lost) & set(await uploads(store))
    for partition in (0, 1):
        values = [record.value for record in await read_all(store.engine(3), "t", partition)]
        assert values == [b"%d" % n for n in range(20) if n % 2 == partition]


@pytest.mark.parametrize(("port_name", "fault"), some(product(["log", "objects", "catalog"], Fault), every=2))
async def test_cut_short_anywhere_nothing_is_lost_and_the_next_sweep_leaves_nothing(
    port_name: str, fault: Fault
) -> None:
    methods = {
        "log": ("get", "get_many", "query", "update", "delete"),
        "objects": ("list", "delete"),
        "catalog": ("get", "query", "update"),
    }
    reached_any = False
    for method in methods[port_name]:
        for n in (1, 2, 3, 4, 70):
            store = memory_store(per_head=1)
            # Two objects and an item are lost, two partitions have tails and spilled rows.
            engine = store.engine(1, **SPILLING, sweep_recheck_hours=0)
            await engine.topics.create("t", 2)
            for value in range(12):
                await produce(engine, "t", value % 2, batch([b"%d" % value]))
            await merge_by_hand(engine, await partition_of(engine, "t", 0))
            for age_ms in (1, 2):
                await upload(store.engine(item_bytes_max=0), age_ms=age_ms)
            await upload(engine, age_ms=3)
            store.clock.advance(2 * 3600)
            port = getattr(store, port_name)
            done = port.count(method)
            port.script = {(method, done + n + later): fault for later in range(60)}
            try:
                await sweep(engine)
            except (StoreError, KafkaError):
                pass
            if port.count(method) < done + n:
                break
            reached_any = True
            port.script = {}
            calm = store.engine(2, **SPILLING, sweep_recheck_hours=0)
            await sweep(calm)
            await port.deliver_late()
            store.clock.advance(1)
            await sweep(calm)
            referenced = 0
            for partition in (0, 1):
                head = await calm.index.read_head(await partition_of(calm, "t", partition))
                assert head is not None
                referenced += len({entry.object_id for _, entry in head.entries()})
                rows = await calm.index.rows_between(await partition_of(calm, "t", partition), 0, 100, 100)
                referenced += sum(len(row.entries) for row in rows)
                values = [record.value for record in await read_all(store.engine(3), "t", partition)]
                assert values == [b"%d" % value for value in range(12) if value % 2 == partition]
            assert len(await uploads(store)) == referenced, (method, n)
    assert reached_any or fault is Fault.REPEATED


def test_the_horizon_exceeds_what_may_still_commit() -> None:
    with pytest.raises(KafkaError, match="sweep_horizon_ms"):
        Settings(sweep_horizon_ms=900_000)
    for settings in ({"sweep_uploads_max": 0}, {"sweep_recheck_hours": -1}):
        with pytest.raises(KafkaError, match="sweep_uploads_max"):
            Settings(**settings)  # type: ignore[arg-type]


async def test_names_under_the_prefix_that_are_not_ours_are_left_alone(store: Store) -> None:
    engine = store.engine(item_bytes_max=0)
    await engine.topics.create("t")
    lost = await upload(engine)
    _, digit, hour, name = wal_key(lost).split("/")
    wrong_hour = f"wal/{digit}/2001010101/{name}"
    wrong_digit = f"wal/{(int(digit, 16) + 1) % 16:x}/{hour}/{name}"
    for key in ("wal/readme", "wal/0/2001010101/short", wrong_hour, wrong_digit):
        await store.objects.put(key, [b"not ours"])
    store.clock.advance(2 * 3600)
    assert (await sweep(engine))["uploads_swept"] == 1
    assert len(await store.objects.list("wal/")) == 4


async def test_the_progress_of_one_sweep_does_not_hide_what_another_left(store: Store) -> None:
    engine = store.engine()
    first = await read_sweep_state(store.catalog)
    await sweep(engine)
    noted = await store.catalog.get(SWEEP_FLOOR_KEY)
    from odradek.engine.catalog.sweep_floor import note_sweep

    await note_sweep(store.catalog, first, 1, 1, [])  # a sweep that began before the other one ended
    assert await store.catalog.get(SWEEP_FLOOR_KEY) == noted


async def test_requests_of_many_partitions_share_one_upload_until_the_last_lets_go(store: Store) -> None:
    engine = store.engine(**SPILLING)
    await engine.topics.create("t", 3)
    for n in range(6):
        await engine.produce([ProducePartition("t", p, batch([b"%d" % n])) for p in range(3)])
    store.clock.advance(2 * 3600)
    for partition in range(3):
        assert (await sweep(engine))["uploads_swept"] == 0
        await merge_by_hand(engine, await partition_of(engine, "t", partition))
    assert (await sweep(engine))["uploads_swept"] > 0
    for partition in range(3):
        assert len(await read_all(store.engine(2), "t", partition)) == 6


async def test_what_is_spilled_while_it_is_looked_for_is_found(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are read after the head: what has left the tail by then is in one of them."""
    engine = store.engine(head_bytes_max=10_000)
    await engine.topics.create("t", 1)
    partition = await partition_of(engine, "t")
    await produce(engine, "t", 0, batch([b"x"]))
    read_head, spiller = engine.index.read_head, store.engine(**SPILLING)
    head = await read_head(partition)
    assert head is not None
    [(_, entry)] = head.entries()

    async def spilled_before(partition_asked: PartitionId) -> PartitionHead | None:
        await spiller.index.spill(partition_asked, await read_head(partition_asked))  # type: ignore[arg-type]
        after = await read_head(partition_asked)
        assert after is not None
        assert not after.tail
        return after

    monkeypatch.setattr(engine.index, "read_head", spilled_before)
    left = {entry.object_id}
    await drop_referenced(engine.index, [partition], left, 1, engine.clock, engine.rng)
    assert not left


async def test_a_floor_that_comes_late_does_not_lower_the_heads(store: Store) -> None:
    engine = store.engine()
    await engine.topics.create("t", 1)
    partition = await partition_of(engine, "t")
    for floor in (b"\x02" * 16, b"\x01" * 16):
        await engine.index.raise_sweep_floor(partition, floor)
    head = await engine.index.read_head(partition)
    assert head is not None
    assert head.sweep_floor == b"\x02" * 16


@pytest.mark.parametrize("count", [31, 32, 33, 64, 65])
async def test_items_of_one_hour_and_shard_are_listed_whatever_their_number(count: int, store: Store) -> None:
    """A page has 32 items. The last page may be full, and the next one empty."""
    engine = store.engine()
    ids = [bytes.fromhex(f"{store.clock.now_ms():012x}{0:016x}{number:04x}") for number in range(count)]
    for object_id in ids:
        await engine.wal.upload(object_id, [b"lost"])
    assert len({wal_item_key(object_id)[0] for object_id in ids}) == 1, "one shard of one hour"
    assert sorted(await uploads(store)) == ids
    wal_uploads = WalUploads(store.log, store.objects, store.clock, SeededRng(4))  # type: ignore[arg-type]
    hour = store.clock.now_ms() // HOUR_MS
    assert [upload.object_id async for upload in wal_uploads.below(ids[-1], [hour])] == ids[:-1], "the end is exclusive"

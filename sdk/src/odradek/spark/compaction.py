"""Compaction of a partition on Spark: the engine's compactor, with its passes distributed over executors.

    driver      takes the maintenance lease and renews it, plans the pass, swaps rows, writes the state: with the
                engine's code (engine/compaction/compactor.py)
    executors   1. the keys of each segment: (group, digest of the key, its last offset in the dirty part)
                2. by shuffle: the last offset of each key, for each group of segments that contains the key
                3. each group rewritten by the engine's rules with that map, and uploaded under a new object id

The offset map is spread over the cluster, so one pass covers the whole dirty part, however many keys it has. Groups
are rewritten in waves, then swapped in from the log's start upwards. The state after each wave records the progress, so
the next run, or the engine's compactor, continues there.

Safety when a process dies or is late:

* Executors change nothing visible: their uploads have unique names, and no row refers to them. A task that Spark
  repeats leaves such objects, so the partition is never marked clean, and the next holder of the lease removes them
  (engine/maintenance/orphans.py).
* The driver writes rows and state in transactions under the lease. A driver that lost the lease stops.
* Tombstones get their horizon when they are rewritten, which is before the values below them are removed. The horizon
  is set later by the maximum duration of a wave, and a wave that took longer is discarded. So a tombstone stays for at
  least `delete.retention.ms`, and at most an hour longer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from odradek.backoff import Backoff
from odradek.engine.catalog.partitions import partition_of
from odradek.engine.compaction.batch import compact_batch, read_keys
from odradek.engine.compaction.compactor import CompactionPass, Compactor
from odradek.engine.compaction.decisions import Bounds, CompactionPolicy, joins
from odradek.engine.compaction.offset_map import OffsetMap
from odradek.engine.compaction.segments import NewSegment, read_stretches
from odradek.engine.compaction.state import CompactionState
from odradek.engine.engine import Engine
from odradek.engine.maintenance.maintenance import HeldPartition, Maintenance, MaintenanceReport
from odradek.engine.maintenance.segment_swap import put_once
from odradek.engine.maintenance.swap_decisions import row_in_place_of
from odradek.engine.partition.index import ROWS_REPLACED_MAX
from odradek.engine.partition.index_row import IndexRow
from odradek.errors import ErrorCode, KafkaError, StoreUnavailable
from odradek.format.object_id import new_object_id
from odradek.format.object_keys import index_key, segment_key
from odradek.format.offset_index import encode_offset_index
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId
from odradek.ports.object_store import ObjectStore
from odradek.spark.opened_store import open_store
from odradek.spark.options import StoreOptions
from odradek.system import SystemClock, SystemRng

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")

WAVE_MS_MAX = 3_600_000
_EVERYTHING = 2**62
_ONLY_KEYS = -1  # the group of segments that are not rewritten again
_ATTEMPTS = 4
_TAG = "odradek-compaction"
KEYS = "grp INT, digest BINARY, latest LONG"
REWRITTEN = "grp INT, segment_id BINARY, max_timestamp_ms LONG, size_bytes LONG, index_bytes INT, dropped LONG"


# --- tasks ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rewriting:
    """A pass in the form that tasks receive: plain data."""

    store: StoreOptions
    partition: PartitionId
    segments: tuple[tuple[int, IndexRow], ...]  # with their groups; those of _ONLY_KEYS are already rewritten
    first_dirty: int
    bounds: Bounds
    cleanable_end: int
    policy: CompactionPolicy
    read_bytes: int

    def rows_of(self, group: int) -> list[IndexRow]:
        """Return the segments that become one."""
        return [row for number, row in self.segments if number == group]


def group_segments(rows: Iterable[IndexRow], policy: CompactionPolicy) -> list[list[IndexRow]]:
    """Group neighbouring segments that become one, by their present sizes.

    The engine uses the sizes after compaction, which are not known here; the next merge joins segments that are small
    afterwards."""
    groups: list[list[IndexRow]] = []
    for row in rows:
        size = sum(segment.size_bytes for segment in groups[-1]) if groups else 0
        if groups and joins(groups[-1], size, row, policy, ROWS_REPLACED_MAX):
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups


def segment_keys(plan: Rewriting, number: int) -> pa.RecordBatch:
    """Return the keys of one segment, each with its last dirty offset, or -1 if it has none."""
    import pyarrow as pa

    group, row = plan.segments[number]

    async def read(objects: ObjectStore) -> OffsetMap:
        offset_map = OffsetMap(_EVERYTHING)
        async for stretch in read_stretches(objects, plan.partition, row, plan.read_bytes):
            for batch, header in stretch:
                if not header.is_control:
                    read_keys(batch, header, 0, offset_map)
        return offset_map

    offsets_by_digest = _with_objects(plan.store, read).items()
    latest = [offset if offset >= plan.first_dirty else -1 for _, offset in offsets_by_digest]
    digests = [digest for digest, _ in offsets_by_digest]
    return pa.RecordBatch.from_arrays(
        [pa.array([group] * len(digests), pa.int32()), pa.array(digests, pa.binary()), pa.array(latest, pa.int64())],
        ["grp", "digest", "latest"],
    )


def rewrite_group(plan: Rewriting, group: int, latest: Mapping[bytes, int]) -> list[dict[str, Any]]:
    """Upload the rest of a group's segments; return a row of REWRITTEN, or none if they stay unchanged."""
    offsets = OffsetMap(_EVERYTHING)
    for digest, offset in latest.items():
        offsets.put_digest(digest, offset)

    async def rewrite(objects: ObjectStore) -> list[dict[str, Any]]:
        made = NewSegment()
        for row in plan.rows_of(group):
            made.begin(row)
            async for stretch in read_stretches(objects, plan.partition, row, plan.read_bytes):
                for batch, header in stretch:
                    is_last = header.next_offset == plan.cleanable_end
                    left = compact_batch(batch, header, offsets, plan.bounds, plan.policy, is_last=is_last)
                    made.add(left.batch, header, left.dropped, is_changed=left.is_changed)
        if not made.is_worthwhile:
            return []
        segment = made.build()
        index = encode_offset_index(segment.index)
        segment_id = new_object_id(SystemClock().now_ms(), SystemRng().random_bytes)
        base_offset = segment.index.base_offset
        await put_once(objects, segment_key(plan.partition, base_offset, segment_id), segment.parts)
        await put_once(objects, index_key(plan.partition, base_offset, segment_id), [index])
        return [
            {
                "grp": group,
                "segment_id": segment_id,
                "max_timestamp_ms": segment.index.max_timestamp_ms,
                "size_bytes": segment.index.size_bytes,
                "index_bytes": len(index),
                "dropped": made.dropped,
            }
        ]

    return _with_objects(plan.store, rewrite)


def _with_objects(options: StoreOptions, work: Callable[[ObjectStore], Awaitable[T]]) -> T:
    async def run() -> T:
        store = await open_store(options)
        backoff = Backoff(SystemClock(), SystemRng(), first_s=0.2, max_s=1.0)
        attempt = 0
        try:
            while True:
                attempt += 1
                try:
                    return await work(store.objects)
                except StoreUnavailable:
                    if attempt == _ATTEMPTS:
                        raise
                    await backoff.pause(attempt - 1)
        finally:
            await store.aclose()

    return asyncio.run(run())


# --- the same as DataFrames -------------------------------------------------------------------------------------------


def keys_frame(spark: SparkSession, plan: Rewriting) -> DataFrame:
    """Return the keys of all segments; each task reads a few segments."""

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield segment_keys(plan, number)

    count = len(plan.segments)
    tasks = min(count, 8 * spark.sparkContext.defaultParallelism)
    return spark.range(0, count, numPartitions=tasks).mapInArrow(read, KEYS)


def latest_frame(keys: DataFrame) -> DataFrame:
    """Return the last dirty offset of each key, for each group to rewrite that contains the key."""
    from pyspark.sql import functions as F

    latest_by_digest = keys.where("latest >= 0").groupBy("digest").agg(F.max("latest").alias("latest"))
    wanted = keys.where(f"grp <> {_ONLY_KEYS}").select("grp", "digest").distinct()
    return wanted.join(latest_by_digest, "digest").select("grp", "digest", "latest")


def rewritten_frame(latest: DataFrame, plan: Rewriting, groups: Sequence[int]) -> DataFrame:
    """Rewrite some groups; return rows of REWRITTEN. Every evaluation uploads again."""
    import pyarrow as pa
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    schema = StructType.fromDDL(REWRITTEN)
    assert isinstance(schema, StructType)
    arrow_schema = to_arrow_schema(schema)

    def rewrite(key: tuple[Any, ...], rows: pa.Table) -> pa.Table:
        pairs = zip(rows["digest"].to_pylist(), rows["latest"].to_pylist(), strict=True)
        offsets_by_digest = {digest: offset for digest, offset in pairs if digest is not None}
        return pa.Table.from_pylist(rewrite_group(plan, key[0].as_py(), offsets_by_digest), arrow_schema)

    # Groups without dirty keys are included: their tombstones may have expired.
    every = latest.sparkSession.createDataFrame([(group,) for group in groups], "grp INT")
    rows = latest.where(F.col("grp").isin(list(groups))).unionByName(every, allowMissingColumns=True)
    return rows.groupBy("grp").applyInArrow(rewrite, schema)


# --- the driver -------------------------------------------------------------------------------------------------------


class SparkCompactor(Compactor):
    """Maintains compacted topics, with passes on Spark.

    Args:
        engine: over the store that `store` names.
        groups_at_once: the number of groups in a wave.
    """

    def __init__(self, spark: SparkSession, engine: Engine, store: StoreOptions, *, groups_at_once: int) -> None:
        super().__init__(engine.tools, engine.index, engine.leases)
        self._spark = spark
        self._engine = engine
        self._store = store
        self._groups_at_once = groups_at_once

    async def run_pass(self, held: HeldPartition, work: CompactionPass, policy: CompactionPolicy) -> CompactionState:
        """Implement Compactor.run_pass. Also raises KafkaError: Spark failed."""
        log_start = work.head.log_start_offset
        position = max(work.position, log_start)
        first = min(position, max(work.first_dirty, log_start))
        rows = [row async for row in self.segments_from(held.partition, work.head, first)]
        rows = [row for row in rows if row.base_offset < work.limit]
        groups = group_segments([row for row in rows if row.end_offset > position], policy)
        done = [row for row in rows if row.end_offset <= position]
        bounds = Bounds(log_start, work.limit, self._engine.clock.now_ms())
        plan = Rewriting(
            store=self._store,
            partition=held.partition,
            segments=(
                *((_ONLY_KEYS, row) for row in done),
                *((number, row) for number, group in enumerate(groups) for row in group),
            ),
            first_dirty=work.first_dirty,
            bounds=bounds,
            cleanable_end=work.cleanable_end,
            policy=replace(policy, delete_retention_ms=policy.delete_retention_ms + WAVE_MS_MAX),
            read_bytes=self._engine.settings.compaction_read_bytes,
        )
        state = CompactionState(work.first_dirty, work.limit, work.position, work.clean_bytes)
        latest = await self._spark_does(held, lambda: _kept(latest_frame(keys_frame(self._spark, plan))))
        try:
            for start in range(0, len(groups), self._groups_at_once):
                wave = range(start, min(start + self._groups_at_once, len(groups)))
                state = await self._rewrite(held, plan, latest, groups, wave, state)
        finally:
            await asyncio.to_thread(latest.unpersist)
        state = CompactionState(work.limit, work.limit, work.limit, state.clean_bytes)
        await self.write_state(held, state)
        return state

    async def _rewrite(
        self,
        held: HeldPartition,
        plan: Rewriting,
        latest: DataFrame,
        groups: Sequence[Sequence[IndexRow]],
        wave: range,
        state: CompactionState,
    ) -> CompactionState:
        """Rewrite some groups and swap them in; return the state afterwards."""
        began_ms = self._engine.clock.now_ms()
        plan = replace(plan, bounds=replace(plan.bounds, now_ms=began_ms))
        held.left_clean = False  # repeated or abandoned tasks leave objects
        rows = await self._spark_does(held, lambda: rewritten_frame(latest, plan, list(wave)).collect())
        by_group = {row.grp: row for row in rows}
        for number in wave:
            if self._engine.clock.now_ms() - began_ms > WAVE_MS_MAX:
                raise KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT, "rewriting took more than an hour: lower --groups-at-once"
                )
            old, made = groups[number], by_group.get(number)
            if made is None:
                kept_bytes = sum(row.size_bytes for row in old)
                state = replace(state, position=old[-1].end_offset, clean_bytes=state.clean_bytes + kept_bytes)
                continue
            row = row_in_place_of(
                old,
                bytes(made.segment_id),
                base_offset=old[0].base_offset,
                end_offset=old[-1].end_offset,
                max_timestamp_ms=made.max_timestamp_ms,
                size_bytes=made.size_bytes,
                index_bytes=made.index_bytes,
            )
            state = await self.put_in_place(held, old, row, made.dropped, state)
        return state

    async def _spark_does(self, held: HeldPartition, work: Callable[[], T]) -> T:
        """Run work on Spark and renew the lease meanwhile. Raises LeaseLost, KafkaError."""
        from pyspark.errors import PySparkException

        context = self._spark.sparkContext
        tag = f"{_TAG}-{SystemRng().random_bytes(8).hex()}"

        def tagged() -> T:
            context.addJobTag(tag)
            try:
                return work()
            finally:
                context.removeJobTag(tag)

        keeping = asyncio.create_task(self._keep(held))
        working = asyncio.create_task(asyncio.to_thread(tagged))
        try:
            await asyncio.wait({keeping, working}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                context.cancelJobsWithTag(tag)
                await asyncio.wait({working})
                keeping.result()
            return working.result()
        except PySparkException as error:
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"Spark failed: {reason}") from error
        finally:
            keeping.cancel()
            await asyncio.wait({keeping})

    async def _keep(self, held: HeldPartition) -> None:
        """Renew the lease until cancelled. Raises LeaseLost."""
        while True:
            await self._engine.clock.sleep(self._engine.settings.maintenance_lease_ms / 8_000)
            try:
                await self.swap.hold_on(held)
            except StoreUnavailable:
                continue  # the epoch keeps writes safe whatever the time


def _kept(frame: DataFrame) -> DataFrame:
    """Return the frame, computed and cached, since each wave reads it."""
    frame = frame.persist()
    frame.count()
    return frame


async def compact(
    spark: SparkSession, options: StoreOptions, topic_name: str, partitions: Sequence[int], *, groups_at_once: int
) -> MaintenanceReport:
    """Compact the given partitions of a topic, or all without any given, if compaction is due.

    Raises KafkaError: the topic or partition does not exist; the store cannot be opened.
    """
    store = await open_store(options, read_only=False)
    try:
        engine = Engine(tables=store, objects=store.objects, clock=store.clock, rng=SystemRng())
        topic: Topic = await engine.topics.resolve(topic_name)
        for number in partitions:
            partition_of(topic, number)
        compactor = SparkCompactor(spark, engine, options, groups_at_once=groups_at_once)
        maintenance = Maintenance(engine.tools, engine.index, engine.topics, engine.leases, [engine.orphans, compactor])
        report = MaintenanceReport()
        for number in partitions or range(topic.partition_count):
            await maintenance.run_partition(topic, number, report)
        return report
    finally:
        await store.aclose()

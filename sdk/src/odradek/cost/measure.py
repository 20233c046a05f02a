"""Count the store requests of a workload by running it over memory stores.

The memory stores count what DynamoDB and S3 would bill. Producers append requests of the workload's size, spread over
as many partitions as its keys would be, with sequences and today's timestamps; then everything is merged, read,
committed, planned and swept once. So a change of the engine changes the estimate. Two runs of different lengths tell
what a merge costs by itself from what each request in it costs.

Requests of more than SAMPLE_BYTES_MAX are counted at that size, and topics of more than PARTITIONS_MAX partitions by
their share: above the limit between items and objects the number of requests does not depend on the size. Workloads
that differ in nothing of that, but in what is kept, read or paid for a request, are measured once in a process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any, NamedTuple

from odradek.adapters.memory import MemoryObjectStore, MemoryStore
from odradek.cost.metering import UsageMeter
from odradek.cost.model import Measured, Workload
from odradek.engine.engine import Engine
from odradek.engine.maintenance.maintenance import MaintenancePlan, MaintenanceReport
from odradek.errors import KafkaError
from odradek.format.record_batch import RecordBatchBuilder
from odradek.model.log import FetchPartition, ProducePartition
from odradek.model.topic import Topic
from odradek.model.topic_partition import OffsetAndMetadata, PartitionId, TopicPartition, partitions_per_head
from odradek.ports.meter import Usage
from odradek.settings import Settings
from odradek.system import SystemClock, SystemRng

APPENDS = 256
SAMPLE_BYTES_MAX = 256 * 1024
PARTITIONS_MAX = 100
MERGE_BYTES_MAX = 256 * 1024 * 1024  # a maintainer's (infra/stages.py)
PRODUCERS_MAX = 64
_TOPIC, _GROUP = "measured", "measured"
_KEPT_MAX = 64


class _Load(NamedTuple):
    """The properties of a workload that change the engine's requests."""

    partitions: int
    partitions_per_request: float
    producers: int
    request_bytes: int


_measured: dict[_Load, Measured] = {}


async def measure(load: Workload) -> Measured:
    """Run the engine like that workload. Raises KafkaError if it refuses an append."""
    shape = _Load(load.partitions, load.partitions_per_request, load.producers, load.request_bytes)
    if shape not in _measured:
        measured = await _measure(shape)
        while len(_measured) >= _KEPT_MAX:
            del _measured[next(iter(_measured))]
        _measured[shape] = measured
    return _measured[shape]


async def _measure(load: _Load) -> Measured:
    short, long = await _Run(load, APPENDS // 2).measure(), await _Run(load, APPENDS).measure()
    per_append = _times(long.per_merge - short.per_merge, 2 / APPENDS)
    return replace(
        long, per_merge=_at_least_0(short.per_merge - _times(per_append, APPENDS / 2)), per_merged_append=per_append
    )


class _Run:
    """One engine over counting stores, and so many appends."""

    def __init__(self, load: _Load, appends: int) -> None:
        self._load = load
        self._appends = appends
        self._partitions = min(load.partitions, PARTITIONS_MAX)
        self._share = load.partitions / self._partitions  # of what is counted for each partition
        self._meter = UsageMeter()
        clock = SystemClock()
        self._clock = clock
        # Merges happen at the end, all at once: as often as the stage's, which waits for enough rows.
        settings = Settings(
            merge_delay_ms=0,
            merge_age_ms=0,
            catalog_cache_ms=3_600_000,
            leader_cache_ms=3_600_000,
            merge_bytes_max=round(MERGE_BYTES_MAX * min(1.0, SAMPLE_BYTES_MAX / load.request_bytes)),
        )
        self._engine = Engine(
            tables=MemoryStore(self._meter),
            objects=MemoryObjectStore(clock, self._meter),
            clock=clock,
            rng=SystemRng(),
            settings=settings,
        )

    async def measure(self) -> Measured:
        engine = self._engine
        topic = await engine.topics.create(_TOPIC, self._partitions)
        await self._fetch([0] * self._partitions)  # reads that happen once per process do not count
        idle_look, _ = await self._count(self._fetch([0] * self._partitions))
        before = self._meter.calls()
        appended, fetched, end_offsets = await self._append_and_fetch()
        puts = self._meter.calls().get("PutObject", 0) - before.get("PutObject", 0)
        appended += (await self._count(self._to_rows(topic)))[0]
        merged = Usage()
        for numbers in self._by_head(topic):
            merged += (await self._count(engine.maintenance.run_partitions(topic, numbers, MaintenanceReport())))[0]
        committed, _ = await self._count(
            engine.offsets.commit(
                _GROUP,
                {
                    TopicPartition(_TOPIC, number): OffsetAndMetadata(offset)
                    for number, offset in enumerate(end_offsets)
                },
            )
        )
        swept, _ = await self._count(engine.sweep.run(Counter()))
        planned, _ = await self._count(engine.maintenance.plan(MaintenancePlan()))
        looked, _ = await self._count(engine.backlogs.look())
        share = self._share
        share_of_append = (share if self._is_spread else 1) / self._appends
        return Measured(
            per_append=_times(appended, share_of_append, puts=puts / self._appends),
            per_merge=_times(merged, share if self._is_spread else 1),
            per_fetch=_times(fetched, share / self._appends),
            per_look=_times(idle_look, share),
            per_commit=_times(committed, share),
            per_plan=_times(planned + looked, share),
            per_sweep=swept,
            is_item=puts < self._appends,
        )

    async def _to_rows(self, topic: Topic) -> None:
        """Spill the entries that the last appends left, as the appends after them would."""
        index = self._engine.index
        for first, *_ in self._by_head(topic):
            partition = PartitionId(topic.topic_id, first)
            head = await index.read_head(partition)
            if head is not None and partition.shares_head:
                await index.spill_to_rows(partition, head)

    def _by_head(self, topic: Topic) -> list[list[int]]:
        """The partitions, those that share a head together."""
        per_head = partitions_per_head(topic.topic_id)
        return [
            list(range(first, min(first + per_head, self._partitions)))
            for first in range(0, self._partitions, per_head)
        ]

    @property
    def _is_spread(self) -> bool:
        """Return True if a request has records for more partitions than are measured."""
        return self._load.partitions_per_request > self._partitions

    async def _append_and_fetch(self) -> tuple[Usage, Usage, list[int]]:
        """Append, and read each append at the end of the log: units of all appends, of the reads' data, end offsets."""
        load = self._load
        spread = max(1, min(self._partitions, round(load.partitions_per_request)))
        size = min(load.request_bytes, SAMPLE_BYTES_MAX)
        each_bytes = max(1, size // spread)
        writers = max(1, min(load.producers, PRODUCERS_MAX))
        sequences: Counter[tuple[int, int]] = Counter()
        appended, fetched = Usage(), Usage()
        offsets = [0] * self._partitions
        for number in range(self._appends):
            writer = number % writers
            partitions = [(number * spread + step) % self._partitions for step in range(spread)]
            request = [
                ProducePartition(_TOPIC, partition, self._batch(each_bytes, writer, sequences[writer, partition]))
                for partition in partitions
            ]
            usage, results = await self._count(self._engine.produce(request))
            for partition, result in zip(partitions, results, strict=True):
                if result.error:
                    raise KafkaError(result.error, result.message or "the engine refused a measured append")
                sequences[writer, partition] += 1
            appended += usage
            usage, fetch_results = await self._count(self._fetch(offsets))
            offsets = [result.high_watermark for result in fetch_results]
            fetched += usage
        return appended, fetched, offsets

    def _batch(self, size: int, writer: int, sequence: int) -> bytes:
        builder = RecordBatchBuilder()
        builder.append(self._clock.now_ms(), None, bytes(size))
        return builder.build(producer_id=writer, producer_epoch=0, base_sequence=sequence)

    def _fetch(self, offsets: list[int]) -> Awaitable[Any]:
        return self._engine.fetch(
            [FetchPartition(_TOPIC, partition, offset) for partition, offset in enumerate(offsets)]
        )

    async def _count(self, work: Awaitable[Any]) -> tuple[Usage, Any]:
        before = self._meter.total()
        result = await work
        return self._meter.total() - before, result


def _at_least_0(usage: Usage) -> Usage:
    return Usage(**{name: max(0, getattr(usage, name)) for name in Usage.__dataclass_fields__})


def _times(usage: Usage, factor: float, *, puts: float | None = None) -> Usage:
    """Return the usage times a factor; uploads are as many as counted."""
    units = {name: getattr(usage, name) * factor for name in Usage.__dataclass_fields__}
    if puts is not None:
        units["object_put_requests"] = puts
    return Usage(**units)

"""An engine over memory adapters, with faults to order, and short ways to produce and read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odradek.adapters.memory import MemoryObjectStore, MemoryStore
from odradek.engine.engine import Engine
from odradek.format.record_batch import RecordBatchBuilder, decode_batches
from odradek.model.log import FetchPartition, ProducePartition, ProduceResult
from odradek.model.record import CompressionType, Record
from odradek.settings import Settings
from odradek.testing.faults import Faulty, FaultyTables
from odradek.testing.manual_clock import ManualClock
from odradek.testing.seeded_rng import SeededRng


@dataclass
class Store:
    """The parts that engines share."""

    tables: FaultyTables
    objects: Faulty
    clock: ManualClock
    per_head: int | None = None  # partitions that share a head, where not the service's default

    @property
    def log(self) -> Faulty:
        return self.tables.log  # type: ignore[no-any-return]

    @property
    def groups(self) -> Faulty:
        return self.tables.groups  # type: ignore[no-any-return]

    @property
    def catalog(self) -> Faulty:
        return self.tables.catalog  # type: ignore[no-any-return]

    def engine(self, seed: int = 0, **settings: int | bool | str) -> Engine:
        if self.per_head is not None:
            settings = {"default_partitions_per_head": self.per_head, **settings}
        return Engine(
            tables=self.tables,
            objects=self.objects,
            clock=self.clock,
            rng=SeededRng(seed),
            settings=Settings(**settings),  # type: ignore[arg-type]
        )


def memory_store(per_head: int | None = None) -> Store:
    """An empty store.

    Args:
        per_head: of topics created by its engines; 1 in tests of what a head that is not shared does.
    """
    clock = ManualClock(auto_advance=True)
    return Store(FaultyTables(MemoryStore()), Faulty(MemoryObjectStore(clock)), clock, per_head)


def batch(
    values: Sequence[bytes | None],
    *,
    keys: Sequence[bytes | None] | None = None,
    timestamp_ms: int = 1_700_000_000_000,
    producer: tuple[int, int, int] = (-1, -1, -1),
    compression: CompressionType = CompressionType.NONE,
) -> bytes:
    """A record batch; `producer` is (id, epoch, base sequence)."""
    builder = RecordBatchBuilder(compression)
    for i, value in enumerate(values):
        builder.append(timestamp_ms + i, keys[i] if keys else None, value)
    producer_id, epoch, sequence = producer
    return builder.build(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


async def produce(
    engine: Engine, topic: str, partition: int, records: bytes, expected_offset: int | None = None
) -> ProduceResult:
    [result] = await engine.produce([ProducePartition(topic, partition, records, expected_offset=expected_offset)])
    return result


async def read_all(engine: Engine, topic: str, partition: int, offset: int = 0) -> list[Record]:
    """Every record from the offset to the high watermark, by as many fetches as it takes."""
    records: list[Record] = []
    while True:
        [result] = await engine.fetch([FetchPartition(topic, partition, offset)])
        assert not result.error, (result.error.name, result.message)
        fresh = [r for r in decode_batches(b"".join(result.records), allow_truncated=False) if r.offset >= offset]
        if not fresh:
            assert offset == result.high_watermark
            return records
        records += fresh
        offset = fresh[-1].offset + 1

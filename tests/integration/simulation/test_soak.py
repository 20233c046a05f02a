"""A day of a deployment's life in one clock: what maintenance leaves behind does not grow, and neither does its work.

Settings are production's own, maintenance runs every five minutes as there, and one call in a hundred fails in one of
the ways of tests/e2e/load/misbehaving.py, so that uploads are lost and leases are left. Measured every simulated hour:

    orphan bytes     objects and WAL items that no head and no row refers to: what the sweep has still to take
    rows             index rows of the longest partition
    items            of each table
    requests         to the store, producers' and maintenance's together
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from odradek.adapters.memory import MemoryObjectStore, MemoryStore
from odradek.engine.audit.store import audit_store
from odradek.engine.engine import Engine
from odradek.engine.partition.extents import with_entries
from odradek.engine.partition.index_row import IndexRow, decode_index_row
from odradek.engine.partition.shared_head import PAGE_PREFIX, Page, SharedHead, counts_of, decode_image, decode_page
from odradek.errors import KafkaError, StoreError
from odradek.format.item_keys import HEAD_SK, index_base_offset, partition_pk
from odradek.format.object_keys import index_key, segment_key
from odradek.model.topic_partition import OffsetAndMetadata, PartitionId, TopicPartition
from odradek.ports.meter import Usage
from odradek.settings import Settings
from odradek.testing.manual_clock import ManualClock
from odradek.testing.seeded_rng import SeededRng

from tests.e2e.load.misbehaving import MisbehavingPort, MisbehavingStore, Misbehaviour
from tests.support.clients.transactional_producer import Transactor
from tests.support.engine import batch, produce, read_all
from tests.support.stores.wal_shards import few_wal_shards

HOUR_S, STEP_S = 3600, 300
SHARE = 0.01
RETENTION_MS = 2 * HOUR_S * 1000
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "events": (2, {"retention.ms": str(RETENTION_MS), "segment.ms": "600000"}),
    "state": (1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.3"}),
    "both": (1, {"cleanup.policy": "compact,delete", "retention.ms": str(RETENTION_MS), "segment.ms": "600000"}),
}
PLACES = [(topic, number) for topic, (count, _) in TOPICS.items() for number in range(count)]
KEYS = 40
APPENDS_A_STEP = 3  # to each partition
SIZES = (50, 500, 6_000)
BYTES_AN_HOUR = len(PLACES) * HOUR_S // STEP_S * sum(SIZES)


class Count:
    """A meter that counts requests by name."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()

    def add(self, operation: str, usage: Usage) -> None:
        self.requests[operation] += 1


@dataclass
class Hour:
    """The results of one simulated hour."""

    orphan_bytes: int
    rows: int
    items: int
    objects: int
    requests: int
    tail: int


@dataclass
class Soak:
    """The deployment, measured hour by hour."""

    hours: list[Hour] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    failures: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(1)
        self.clock = ManualClock(auto_advance=True)
        self.count = Count()
        self.store = MemoryStore(self.count)
        self.objects = MemoryObjectStore(self.clock, self.count)
        self.fate = Misbehaviour(self.chance, 0.0, self.clock.sleep)
        self.latest: dict[bytes, bytes] = {}

    def engine(self, seed: int) -> Engine:
        return Engine(
            tables=MisbehavingStore(self.store, self.fate),  # type: ignore[arg-type]
            objects=MisbehavingPort(self.objects, self.fate),  # type: ignore[arg-type]
            clock=self.clock,
            rng=SeededRng(seed),
            settings=Settings(default_partitions_per_head=1),  # what `measure` takes apart
        )

    async def run(self, hours: int) -> None:
        self.writer, self.keeper = self.engine(1), self.engine(2)
        for name, (partitions, configs) in TOPICS.items():
            await self.writer.topics.create(name, partitions, configs)
        self.fate.share = SHARE
        for hour in range(hours):
            before = self.count.requests.total()
            ends_ms = self.clock.now_ms() + HOUR_S * 1000
            while (left_ms := ends_ms - self.clock.now_ms()) > 0:
                await self.step()
                self.clock.advance(min(STEP_S, max(1, left_ms / 1000)))
            await self.forget_a_transaction(hour)
            self.hours.append(self.measure(self.count.requests.total() - before))
        self.fate.share = 0.0

    async def step(self) -> None:
        """Five minutes: appends, a transaction, a commit, then maintenance as the schedule calls it."""
        for topic, number in PLACES:
            for size in SIZES:
                key = b"k%d" % self.chance.randrange(KEYS)
                value = b"%d " % self.clock.now_ms() + b"." * size
                result = await produce(
                    self.writer, topic, number, batch([value], keys=[key], timestamp_ms=self.clock.now_ms())
                )
                if topic == "state" and not result.error:
                    self.latest[key] = value
        try:
            transactor = await Transactor(self.writer, "tx").init()
            await transactor.send("events", 0, b"in a transaction")
            await transactor.commit()
            await self.writer.offsets.commit("g", {TopicPartition("events", 0): OffsetAndMetadata(1)})
        except (KafkaError, AssertionError):
            self.failures += 1
        self.keeper = self.engine(self.chance.getrandbits(32))  # a new environment of the function
        try:
            report = await self.keeper.maintenance.run()
        except (KafkaError, StoreError):
            self.failures += 1
        else:
            self.done.update(report.done)
            self.failures += len(report.failures)

    async def forget_a_transaction(self, hour: int) -> None:
        """A producer that dies in the middle."""
        try:
            left = await Transactor(self.writer, f"left-{hour % 3}").init(timeout_ms=60_000)
            await left.send("events", 1, b"never committed" * 500)
        except KafkaError:
            self.failures += 1

    def measure(self, requests: int) -> Hour:
        """Look at the memory itself: nothing is asked of the store."""
        wanted: set[str | bytes] = set()
        rows_max = tail_max = 0
        for pk, items in self.store.log._partitions.items():
            if pk.startswith(("w#", "txn#")):
                continue
            topic_id, number = pk.rsplit("#", 1)
            if HEAD_SK in items:
                head_id = PartitionId(UUID(topic_id), int(number))
                tail, object_ids = _head(head_id, {sk: state.item for sk, state in items.items()})
                tail_max = max(tail_max, tail)
                wanted |= object_ids
            index_rows = [(sk, state.item) for sk, state in items.items() if sk.startswith("i#")]
            rows_max = max(rows_max, len(index_rows))
            for sk, item in index_rows:
                partition = PartitionId(UUID(topic_id), int(number))
                row = decode_index_row(index_base_offset(sk), item)  # type: ignore[arg-type]
                wanted |= {
                    entry.object_id for entry in _with_entries(self.store.log._partitions, partition, row).entries
                }
                if row.segment_id is not None:
                    wanted |= {make(partition, row.base_offset, row.segment_id) for make in (segment_key, index_key)}
        objects = self.objects._objects
        orphans = sum(
            len(content)
            for key, (content, _) in objects.items()
            if key not in wanted and not (key.startswith("wal/") and bytes.fromhex(key.rsplit("/", 1)[1]) in wanted)
        )
        for pk, items in self.store.log._partitions.items():
            if pk.startswith("w#"):
                orphans += sum(state.size_bytes for sk, state in items.items() if bytes.fromhex(sk) not in wanted)
        tables = (self.store.log, self.store.groups, self.store.catalog)
        items_count = sum(len(rows) for table in tables for rows in table._partitions.values())
        return Hour(orphans, rows_max, items_count, len(objects), requests, tail_max)


def _with_entries(all_items: dict[str, Any], partition: PartitionId, row: IndexRow) -> IndexRow:
    """A row of a shared head, with the entries that its pages have."""
    if not row.lacks_entries:
        return row
    items = all_items[partition_pk(partition.head_id)]
    pages = [decode_page(sk, state.item) for sk, state in sorted(items.items()) if sk.startswith(PAGE_PREFIX)]
    [filled] = with_entries([(partition, row)], pages)
    return filled


def _head(head_id: PartitionId, items: dict[str, Any]) -> tuple[int, set[bytes]]:
    """How long the tail of a head is; the uploads that it refers to, also in its pages."""
    head = decode_image(head_id, items[HEAD_SK])
    if not isinstance(head, SharedHead):
        return len(head.tail), {entry.object_id for _, entry in head.entries()}
    pages = [decode_page(sk, item) for sk, item in sorted(items.items()) if sk.startswith(PAGE_PREFIX)]
    live = [page for page in pages if page.first >= head.indexed]
    partitions = [
        PartitionId(head_id.topic_id, head_id.partition + position) for position in counts_of(_elements(head, live))
    ]
    views = [head.view(partition, live) for partition in partitions]
    return len(head.tail), {entry.object_id for view in views for _, entry in view.entries()}


def _elements(head: SharedHead, pages: list[Page]) -> Iterator[bytes]:
    for page in pages:
        yield from page.elements
    yield from head.tail


def worst(hours: list[Hour], name: str) -> int:
    return max(getattr(hour, name) for hour in hours)


async def soak(hours: int) -> Soak:
    """Live through it and check what every run must show."""
    run = Soak()
    await run.run(hours)
    for number, hour in enumerate(run.hours):
        print(number, hour)
    print(dict(run.done), run.failures, dict(run.fate.faults))
    for name in ("segments_merged", "segments_compacted", "rows_removed", "uploads_swept", "transactions_expired"):
        assert run.done[name] > 0, name
    assert set(run.fate.faults) == {"throttled", "slow_down", "internal", "timed_out", "stalled"}
    half = len(run.hours) // 2
    settled, late = run.hours[4:half], run.hours[half:]
    assert worst(late, "orphan_bytes") <= 4 * BYTES_AN_HOUR, "lost and merged uploads of the last hours, no more"
    for name in ("orphan_bytes", "rows", "items", "objects", "requests"):
        assert worst(late, name) <= 1.5 * worst(settled, name), name
    assert worst(run.hours, "tail") < 64, "heads stay short"
    run.clock.advance(3 * HOUR_S)
    for _ in range(3):
        assert not (await run.keeper.maintenance.run()).failures
        run.clock.advance(1.1 * HOUR_S)
    assert (await audit_store(run.keeper)).findings == []  # type: ignore[arg-type]
    values_by_key = {record.key: record.value for record in await read_all(run.keeper, "state", 0)}
    assert run.latest.items() <= values_by_key.items(), "compaction kept the last value of each key"
    return run


async def test_a_day_leaves_nothing_behind() -> None:
    with few_wal_shards():
        await soak(24)

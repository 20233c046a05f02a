"""Maintenance: the work that no request waits for. Run by a schedule; any number may run at once.

    1. deletions     heads, rows, segments and share groups' windows of every `deleted-topics` row
    2. partitions    each under its lease, by the upkeeps in order (`Upkeep`): what one leaves the next goes on with
    3. transactions  those that timed out are fenced, what ended ones left is deleted (transactions.py)
    4. sweep         WAL objects and items that nothing refers to (sweep.py)

Every step may be repeated and cut short anywhere. A partition that fails leaves the others to go on.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

from odradek.engine.fields import attribute
from odradek.engine.maintenance_lease import LeaseLost, MaintenanceLease, MaintenanceLeases
from odradek.engine.partition_index import PartitionIndex
from odradek.engine.share_partitions import forget_topic
from odradek.engine.sweep import Sweep
from odradek.engine.topic_configs import TopicConfig
from odradek.engine.topics import Topics
from odradek.engine.transactions import Transactions
from odradek.errors import FormatError, KafkaError, StoreError
from odradek.format.item_keys import DELETED_TOPICS_PK
from odradek.format.object_keys import topic_prefix
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId
from odradek.ports.object_store import ObjectStore
from odradek.ports.table import Delete, Table
from odradek.ports.tables import Tables
from odradek.settings import Settings

_OBJECTS_AT_ONCE = 1000


@dataclass
class MaintenanceReport:
    """What a run did, by name of the thing done; and what it could not do."""

    done: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


@dataclass
class HeldPartition:
    """A partition under its lease, as the upkeeps see it.

    Attributes:
        lease: replaced when it is renewed.
        left_clean: an upkeep sets False where it may have left an object that no row refers to.
    """

    topic: Topic
    config: TopicConfig
    partition: PartitionId
    lease: MaintenanceLease
    report: MaintenanceReport
    left_clean: bool = True


class Upkeep(Protocol):
    """One kind of work on a partition."""

    async def run(self, held: HeldPartition) -> None:
        """Do what there is to do. Raises LeaseLost, StoreError, FormatError: the partition is left as it is."""
        ...


class Maintenance:
    """Finishes what requests began, and keeps logs cheap to read and bounded in size."""

    def __init__(
        self,
        catalog: Table,
        index: PartitionIndex,
        objects: ObjectStore,
        topics: Topics,
        leases: MaintenanceLeases,
        settings: Settings,
        upkeeps: Sequence[Upkeep] = (),
        sweep: Sweep | None = None,
        transactions: Transactions | None = None,
        tables: Tables | None = None,
    ) -> None:
        self._catalog = catalog
        self._index = index
        self._objects = objects
        self._topics = topics
        self._leases = leases
        self._settings = settings
        self._upkeeps = upkeeps
        self._sweep = sweep
        self._transactions = transactions
        self._tables = tables

    async def run(self) -> MaintenanceReport:
        """One pass. Raises StoreUnavailable, OutcomeUnknown, KafkaError: run it again."""
        report = MaintenanceReport()
        await self.finish_deletions(report)
        if self._upkeeps:
            slots = asyncio.Semaphore(self._settings.maintenance_parallelism)
            await asyncio.gather(
                *(
                    self._keep_up(topic, number, report, slots)
                    for topic in await self._topics.list()
                    for number in range(topic.partition_count)
                )
            )
        if self._transactions is not None:
            try:
                report.done.update(await self._transactions.expire_transactions())
            except (StoreError, FormatError, KafkaError) as error:
                report.failures.append(f"transactions: {type(error).__name__}: {error}")
        if self._sweep is not None:
            try:
                await self._sweep.run_if_due(report.done)
            except (StoreError, FormatError, KafkaError) as error:
                report.failures.append(f"sweep: {type(error).__name__}: {error}")
        return report

    async def run_partition(self, topic: Topic, number: int, report: MaintenanceReport) -> None:
        """All upkeeps of one partition, where its lease is free."""
        partition = PartitionId(topic.topic_id, number)
        try:
            lease = await self._leases.take(partition)
        except (StoreError, FormatError) as error:
            report.failures.append(f"{topic.name}-{number}: {error}")
            return
        if lease is None:
            report.done["partitions_busy"] += 1
            return
        held = HeldPartition(topic, TopicConfig.of(topic, self._settings), partition, lease, report)
        try:
            for upkeep in self._upkeeps:
                await upkeep.run(held)
        except (LeaseLost, StoreError, FormatError, KafkaError) as error:
            report.failures.append(f"{topic.name}-{number}: {type(error).__name__}: {error}")
            held.left_clean = False
        await self._leases.release(held.lease, clean=held.left_clean)

    async def _keep_up(self, topic: Topic, number: int, report: MaintenanceReport, slots: asyncio.Semaphore) -> None:
        async with slots:
            await self.run_partition(topic, number, report)

    async def finish_deletions(self, report: MaintenanceReport) -> None:
        """Remove what is left of deleted topics. Raises StoreError, FormatError: call it again."""
        for row in await self._catalog.query(DELETED_TOPICS_PK):
            topic_id = UUID(row.key.sk)
            for number in range(attribute(row.item, "n", int)):
                report.done["items_removed"] += await self._index.delete_items(PartitionId(topic_id, number))
            report.done["objects_removed"] += await self.delete_prefix(topic_prefix(PartitionId(topic_id, 0)))
            if self._tables is not None:
                report.done["windows_removed"] += await forget_topic(self._tables, topic_id)
            await self._catalog.delete(Delete(row.key))
            report.done["topics_removed"] += 1

    async def delete_prefix(self, prefix: str) -> int:
        """Delete all objects under a prefix; returns how many. Raises StoreError: call it again."""
        count = 0
        while infos := await self._objects.list(prefix, limit=_OBJECTS_AT_ONCE):
            await self._objects.delete([info.key for info in infos])
            count += len(infos)
        return count

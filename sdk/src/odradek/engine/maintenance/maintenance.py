"""Maintenance: the work outside requests. A plan, and its tasks; any number of both may run at once.

    plan              what has work now, by reads alone: a partition at rest costs a few of them and is no task
    topic_deletion    heads, rows, segments and share groups' windows of a `deleted-topics` row; hours later once more,
                      for what was written late, and then the row
    partition         under its lease, by the upkeeps in order (`Upkeep`), each on the result of the one before; those
                      that share a head are one task, since they share the uploads that a merge reads
    table             Iceberg tables are brought up to the rows of their topics (iceberg/follower.py)
    transactions      those that timed out are fenced; leftovers of ended ones are deleted (transactions.py)
    sweep             WAL objects and items that nothing refers to (sweep.py)

One process does a plan and its tasks (`run`), or the plan goes to a queue and workers do them (maintenance/queue.py).
A task may be done twice, late, in any order or never (format/maintenance_task.py), and be cut short anywhere; one that
fails does not stop the others. The next plan has the remaining work.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable
from uuid import UUID

from odradek.engine.catalog.topic_configs import TopicConfig
from odradek.engine.catalog.topics import Topics
from odradek.engine.catalog.typed_columns import TypedColumns
from odradek.engine.iceberg.follower import TableFollower
from odradek.engine.maintenance.sweep import Sweep
from odradek.engine.maintenance.wal_uploads import HOUR_MS
from odradek.engine.partition.fields import attribute
from odradek.engine.partition.head import PartitionHead
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.partition.maintenance_lease import (
    LeaseLost,
    MaintenanceLease,
    MaintenanceLeases,
    MaintenanceLeaseState,
)
from odradek.engine.share.windows import forget_topic
from odradek.engine.tools import Tools
from odradek.engine.transactions.transactions import Transactions
from odradek.errors import ConditionFailed, FormatError, KafkaError, StoreError
from odradek.format.item_keys import DELETED_TOPICS_PK, topic_id_sk
from odradek.format.maintenance_task import MaintenanceTask, TaskKind
from odradek.format.object_keys import topic_prefix
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Delete, Exists, Item, Key, Row, Set, Update

_OBJECTS_AT_ONCE = 1000
_HEADS_PER_READ = 100
_LOOKS_AT_ONCE = 32
_READS_HELD = 8  # of so many reads the heads are kept at a time: a store may have any number of partitions

_TABLES_BEHIND = ("table_segments_refused", "tables_behind", "table_files_waiting")
_FAILURES = (StoreError, FormatError, KafkaError)


@dataclass
class MaintenancePlan:
    """The tasks found so far; a plan that is cut short has what it had found by then.

    Attributes:
        tasks: in no order.
        topics: those of the tasks, as they were then.
        failures: what could not be checked, and why; the next plan checks again.
    """

    tasks: list[MaintenanceTask] = field(default_factory=list)
    topics: dict[UUID, Topic] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def of_kind(self, kind: TaskKind) -> list[MaintenanceTask]:
        """The tasks of that kind."""
        return [task for task in self.tasks if task.kind is kind]


@dataclass
class MaintenanceReport:
    """The counts of what was done, by name, and the failures."""

    done: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def tables_behind(self) -> dict[str, int]:
        """The counts that say that a table could not be written: segments, Iceberg tables, files that wait for one."""
        return {name: self.done[name] for name in _TABLES_BEHIND if self.done[name]}


@dataclass(frozen=True, slots=True)
class PartitionLook:
    """A partition as it looks to a plan, which does not hold its lease."""

    topic: Topic
    config: TopicConfig
    partition: PartitionId
    head: PartitionHead
    lease: MaintenanceLeaseState


@dataclass
class HeldPartition:
    """A partition under its lease, as upkeeps receive it.

    Attributes:
        lease: replaced when it is renewed.
        left_clean: set to False by an upkeep that may have left an object that no row refers to.
        tables: lets the topic's Iceberg table go of files before they are deleted.
        columns: the typed columns of topics.
    """

    topic: Topic
    config: TopicConfig
    partition: PartitionId
    lease: MaintenanceLease
    report: MaintenanceReport
    tables: TableFollower
    left_clean: bool = True
    columns: TypedColumns = field(default_factory=lambda: TypedColumns(None))

    async def may_delete(self, keys: Sequence[str], *, are_replaced: bool = False) -> bool:
        """Return True once nothing else refers to objects whose rows are gone; else they stay, for the next holder.

        Call it after the rows were removed, and delete the objects after it.

        Args:
            are_replaced: other files have their records: a table gets these in the same step.
        """
        if await self.tables.release(self.partition, keys, self.report.done, are_replaced=are_replaced):
            return True
        self.left_clean = False
        return False


class Upkeep(Protocol):
    """One kind of work on a partition.

    Attributes:
        acts_on_tail: True if it may have work on a partition that has only a tail, that is, only the head.
    """

    acts_on_tail: bool

    async def is_due(self, look: PartitionLook) -> bool:
        """Return True if `run` would find work now, by reads alone. Raises StoreError, FormatError, KafkaError.

        What it overlooks is never done; a false alarm costs a task with every plan.
        """
        ...

    async def run(self, held: HeldPartition) -> None:
        """Do the work. Raises LeaseLost, StoreError, FormatError: the partition is left as it is."""
        ...


@runtime_checkable
class JointUpkeep(Upkeep, Protocol):
    """An upkeep that works on partitions that share a head together."""

    async def run_all(self, held: Sequence[HeldPartition]) -> Sequence[Exception | None]:
        """Do the work; what `run` would have raised of each partition. Raises nothing of the store's."""
        ...


class Maintenance:
    """Finishes what requests began, and keeps logs cheap to read and bounded in size."""

    def __init__(
        self,
        tools: Tools,
        index: PartitionIndex,
        topics: Topics,
        leases: MaintenanceLeases,
        upkeeps: Sequence[Upkeep] = (),
        sweep: Sweep | None = None,
        transactions: Transactions | None = None,
    ) -> None:
        self._tables = tools.tables
        self._catalog = tools.tables.catalog
        self._index = index
        self._objects = tools.objects
        self._topics = topics
        self._leases = leases
        self._clock = tools.clock
        self._settings = tools.settings
        self._upkeeps = upkeeps
        self._sweep = sweep
        self._transactions = transactions
        self._tables_catalog = tools.table_catalog
        self._columns = TypedColumns(tools.value_schemas)
        self.tables = TableFollower(tools, index, leases, tools.table_catalog)

    async def run(self) -> MaintenanceReport:
        """Run a plan and all its tasks in this process. Raises KafkaError if planning failed: run it again."""
        plan = MaintenancePlan()
        await self.plan(plan)
        report = MaintenanceReport(failures=plan.failures)
        for kind in TaskKind:
            if kind is TaskKind.TABLE:
                await self._plan_tables(plan)  # again: the partitions' tasks have made work
            slots = asyncio.Semaphore(self._settings.maintenance_parallelism)
            await asyncio.gather(*(self._do_in(slots, task, report, plan.topics) for task in plan.of_kind(kind)))
        return report

    async def _do_in(
        self, slots: asyncio.Semaphore, task: MaintenanceTask, report: MaintenanceReport, topics: dict[UUID, Topic]
    ) -> None:
        async with slots:
            await self.do(task, report, topics)

    # --- plan -----------------------------------------------------------------------------------------------------

    async def plan(self, plan: MaintenancePlan) -> None:
        """Find work. Raises KafkaError if the topics cannot be listed; other failures are noted."""
        await self._plan_store(plan)
        if self._upkeeps:
            slots, held = asyncio.Semaphore(_LOOKS_AT_ONCE), asyncio.Semaphore(_READS_HELD)
            topics = await self._topics.list()

            async def plan_some(some: Sequence[tuple[Topic, int]]) -> None:
                async with held:
                    await self._plan_some(plan, some, slots)

            await asyncio.gather(*(plan_some(some) for some in _chunks(topics)))
            plan.tasks = _together(plan.tasks)
            await self._plan_tables(plan, topics)

    async def _plan_tables(self, plan: MaintenancePlan, topics: Sequence[Topic] | None = None) -> None:
        """Plan the Iceberg tables that are behind. Raises KafkaError if the topics cannot be listed."""
        if self._tables_catalog is None:
            return
        known = {task.topic_id for task in plan.of_kind(TaskKind.TABLE)}
        try:
            due = await self.tables.due(await self._topics.list() if topics is None else topics)
        except _FAILURES as error:
            plan.failures.append(f"tables: {type(error).__name__}: {error}")
            return
        for topic in due:
            plan.topics[topic.topic_id] = topic
            if topic.topic_id not in known:
                plan.tasks.append(MaintenanceTask(TaskKind.TABLE, topic.topic_id))

    async def _plan_store(self, plan: MaintenancePlan) -> None:
        """Plan the work that does not belong to one partition."""
        try:
            rows = await self._catalog.query(DELETED_TOPICS_PK)
            plan.tasks += [MaintenanceTask.of_deletion(UUID(row.key.sk)) for row in rows if self._is_due(row.item)]
        except (*_FAILURES, ValueError) as error:
            plan.failures.append(f"deleted topics: {type(error).__name__}: {error}")
        try:
            if self._transactions is not None and await self._transactions.wants_expiry():
                plan.tasks.append(MaintenanceTask(TaskKind.TRANSACTIONS))
        except _FAILURES as error:
            plan.failures.append(f"transactions: {type(error).__name__}: {error}")
        try:
            if self._sweep is not None and await self._sweep.is_due():
                plan.tasks.append(MaintenanceTask(TaskKind.SWEEP))
        except _FAILURES as error:
            plan.failures.append(f"sweep: {type(error).__name__}: {error}")

    async def _plan_some(
        self, plan: MaintenancePlan, some: Sequence[tuple[Topic, int]], slots: asyncio.Semaphore
    ) -> None:
        """Look at neighbouring partitions, whose heads and leases are read together."""
        partitions = [PartitionId(topic.topic_id, number) for topic, number in some]
        try:
            async with slots:
                heads = await self._index.read_heads(partitions)
                leases = await self._leases.look(partitions)
        except FormatError as error:
            if len(some) == 1:
                plan.failures.append(f"{_name(some)}: {type(error).__name__}: {error}")
            else:  # one of them is damaged: the others are not
                await asyncio.gather(*(self._plan_some(plan, [each], slots) for each in some))
            return
        except StoreError as error:
            plan.failures.append(f"{_name(some)}: {type(error).__name__}: {error}")
            return
        looks = [
            PartitionLook(topic, TopicConfig.of(topic, self._settings), partition, head, lease)
            for (topic, _), partition, head, lease in zip(some, partitions, heads, leases, strict=True)
            if head is not None
        ]
        await asyncio.gather(*(self._plan_one(plan, look, slots) for look in looks))

    async def _plan_one(self, plan: MaintenancePlan, look: PartitionLook, slots: asyncio.Semaphore) -> None:
        if look.lease.is_held:
            return  # somebody is at it; what is left then is for the next plan
        is_all_tail = look.head.tail_base_offset == 0 and look.lease.epoch == 0
        try:
            async with slots:
                for upkeep in self._upkeeps:
                    if is_all_tail and not upkeep.acts_on_tail:
                        continue
                    if await upkeep.is_due(look):
                        plan.tasks.append(MaintenanceTask.of_partition(look.partition))
                        plan.topics[look.topic.topic_id] = look.topic
                        return
        except _FAILURES as error:
            plan.failures.append(f"{look.topic.name}-{look.partition.partition}: {type(error).__name__}: {error}")

    # --- tasks ----------------------------------------------------------------------------------------------------

    async def do(
        self, task: MaintenanceTask, report: MaintenanceReport, topics: dict[UUID, Topic] | None = None
    ) -> None:
        """Do a task as far as there is anything left of it. What fails is noted in the report, not raised.

        Args:
            topics: known already; others are looked up.
        """
        try:
            match task:
                case MaintenanceTask(TaskKind.TOPIC_DELETION, UUID() as topic_id):
                    await self._finish_deletion(topic_id, report)
                case MaintenanceTask(TaskKind.PARTITION, UUID() as topic_id, numbers):
                    topic = (topics or {}).get(topic_id) or await self._topics.get_by_id(topic_id)
                    if topic is not None:
                        numbers = tuple(number for number in numbers if number < topic.partition_count)
                        await self.run_partitions(topic, numbers, report)
                case MaintenanceTask(TaskKind.TABLE, UUID() as topic_id):
                    topic = (topics or {}).get(topic_id) or await self._topics.get_by_id(topic_id)
                    if topic is not None:
                        await self.tables.follow(topic, report.done)
                case MaintenanceTask(TaskKind.TRANSACTIONS) if self._transactions is not None:
                    report.done.update(await self._transactions.expire_transactions())
                case MaintenanceTask(TaskKind.SWEEP) if self._sweep is not None:
                    await self._sweep.run_if_due(report.done)
        except _FAILURES as error:
            place = task.kind.value if task.topic_id is None else f"{task.kind.value} of {task.topic_id}"
            report.failures.append(f"{place}: {type(error).__name__}: {error}")

    async def run_partition(self, topic: Topic, number: int, report: MaintenanceReport) -> None:
        """All upkeeps of one partition, where its lease is free."""
        await self.run_partitions(topic, [number], report)

    async def run_partitions(self, topic: Topic, numbers: Sequence[int], report: MaintenanceReport) -> None:
        """All upkeeps of partitions that share a head, of those whose leases are free."""
        taken = await asyncio.gather(*(self._take(topic, number, report) for number in numbers))
        held = [each for each in taken if each is not None]
        at_work = held
        for upkeep in self._upkeeps:
            failures = await self._run(upkeep, at_work)
            for each, error in zip(at_work, failures, strict=True):
                if error is not None:
                    name = f"{topic.name}-{each.partition.partition}"
                    report.failures.append(f"{name}: {type(error).__name__}: {error}")
                    each.left_clean = False
            at_work = [each for each, error in zip(at_work, failures, strict=True) if error is None]
        await asyncio.gather(*(self._leases.release(each.lease, clean=each.left_clean) for each in held))

    async def _take(self, topic: Topic, number: int, report: MaintenanceReport) -> HeldPartition | None:
        partition = PartitionId(topic.topic_id, number)
        try:
            lease = await self._leases.take(partition)
        except (StoreError, FormatError) as error:
            report.failures.append(f"{topic.name}-{number}: {error}")
            return None
        if lease is None:
            report.done["partitions_busy"] += 1
            return None
        config = TopicConfig.of(topic, self._settings)
        return HeldPartition(topic, config, partition, lease, report, self.tables, columns=self._columns)

    async def _run(self, upkeep: Upkeep, held: Sequence[HeldPartition]) -> Sequence[Exception | None]:
        """One upkeep on partitions under their leases; why it failed, of each."""
        if isinstance(upkeep, JointUpkeep):
            return await upkeep.run_all(held)
        failures: list[Exception | None] = []
        for each in held:  # one after the other: some need memory
            try:
                if each.lease.expires_ms - self._clock.now_ms() < self._settings.maintenance_lease_ms // 2:
                    each.lease = await self._leases.renew(each.lease)
                await upkeep.run(each)
            except (LeaseLost, *_FAILURES) as error:
                failures.append(error)
            else:
                failures.append(None)
        return failures

    async def finish_deletions(self, report: MaintenanceReport) -> None:
        """Remove the rest of deleted topics. Raises StoreError, FormatError: call it again."""
        for row in await self._catalog.query(DELETED_TOPICS_PK):
            await self._remove_topic(row, report)

    async def _finish_deletion(self, topic_id: UUID, report: MaintenanceReport) -> None:
        key = Key(DELETED_TOPICS_PK, topic_id_sk(topic_id))
        item = await self._catalog.get(key)
        if item is not None and self._is_due(item):
            await self._remove_topic(Row(key, item), report)

    def _is_due(self, item: Item) -> bool:
        """Return True if a deleted topic is due: at once, and again when nothing late can arrive any more."""
        return "e" not in item or self._is_over(item)

    def _is_over(self, item: Item) -> bool:
        return self._clock.now_ms() >= attribute(item, "e", int) + self._settings.sweep_recheck_hours * HOUR_MS

    async def _remove_topic(self, row: Row, report: MaintenanceReport) -> None:
        topic_id = UUID(row.key.sk)
        for number in range(attribute(row.item, "n", int)):
            report.done["items_removed"] += await self._index.delete_items(PartitionId(topic_id, number))
        await self.tables.drop(topic_id, report.done)  # no table shows files that are gone
        report.done["objects_removed"] += await self.delete_prefix(topic_prefix(PartitionId(topic_id, 0)))
        report.done["windows_removed"] += await forget_topic(self._tables, topic_id)
        if "e" not in row.item:
            # A maintainer that was at it may still write, a creation may be repeated: the row stays for a while, for
            # creations to check, and all is removed once more before it goes.
            report.done["topics_removed"] += 1
            try:
                await self._catalog.update(Update(row.key, (Set(("e",), self._clock.now_ms()),), Exists(("n",))))
            except ConditionFailed:
                pass  # another one was slower, and first to look again
        elif self._is_over(row.item):
            await self._catalog.delete(Delete(row.key))
            report.done["topics_forgotten"] += 1

    async def delete_prefix(self, prefix: str) -> int:
        """Delete all objects under a prefix; returns how many. Raises StoreError: call it again."""
        count = 0
        while infos := await self._objects.list(prefix, limit=_OBJECTS_AT_ONCE):
            await self._objects.delete([info.key for info in infos])
            count += len(infos)
        return count


def _together(tasks: Sequence[MaintenanceTask]) -> list[MaintenanceTask]:
    """The tasks, those of partitions that share a head as one."""
    heads: dict[PartitionId, list[int]] = {}
    others = []
    for task in tasks:
        if task.kind is TaskKind.PARTITION and task.topic_id is not None:
            heads.setdefault(PartitionId(task.topic_id, task.partitions[0]).head_id, []).extend(task.partitions)
        else:
            others.append(task)
    return others + [MaintenanceTask.of_partitions(head.topic_id, numbers) for head, numbers in heads.items()]


def _chunks(topics: Sequence[Topic]) -> Iterator[list[tuple[Topic, int]]]:
    """All partitions, as many at a time as one read takes."""
    chunk = []
    for topic in topics:
        for number in range(topic.partition_count):
            chunk.append((topic, number))
            if len(chunk) == _HEADS_PER_READ:
                yield chunk
                chunk = []
    if chunk:
        yield chunk


def _name(some: Sequence[tuple[Topic, int]]) -> str:
    """Return the name of partitions in a failure."""
    (first, first_number), (last, last_number) = some[0], some[-1]
    name = f"{first.name}-{first_number}"
    return name if len(some) == 1 else f"{name} to {last.name}-{last_number}"

"""Plans and their tasks: what is at rest is no task, what has work is one, and no fate of a message does any harm."""

from __future__ import annotations

import asyncio
import random
from uuid import UUID

import pytest
from odradek.adapters.memory import MemoryTaskQueue
from odradek.engine.engine import Engine
from odradek.engine.maintenance.maintenance import MaintenancePlan, MaintenanceReport
from odradek.engine.maintenance.queue import enqueue
from odradek.format.item_keys import DELETED_TOPICS_PK
from odradek.format.maintenance_task import MaintenanceTask, TaskKind, decode_task, encode_task
from odradek.format.object_keys import segment_key
from odradek.model.log import DeleteRecordsPartition
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Key, Put
from odradek.testing.faults import Fault, Faulty
from odradek.testing.seeded_rng import SeededRng

from tests.support.engine import Store, batch, memory_store, produce, read_all
from tests.support.examples import some
from tests.support.stores.segments import partition_of

SPILLING = {"head_bytes_max": 400, "spill_entries": 2, "merge_rows_min": 1, "producers_in_head_max": 1}
RESTED = {**SPILLING, "sweep_interval_ms": 10**15}
DAY_S = 24 * 3600


@pytest.fixture
def store() -> Store:
    return memory_store(per_head=1)


async def plan_of(engine: Engine) -> MaintenancePlan:
    plan = MaintenancePlan()
    await engine.maintenance.plan(plan)
    return plan


async def partitions_of(engine: Engine) -> list[tuple[str, int]]:
    """The partitions that a plan names, by topic name."""
    plan = await plan_of(engine)
    assert plan.failures == []
    return sorted(
        (plan.topics[task.topic_id].name, number)  # type: ignore[index]
        for task in plan.of_kind(TaskKind.PARTITION)
        for number in task.partitions
    )


async def do(engine: Engine, *tasks: MaintenanceTask) -> MaintenanceReport:
    report = MaintenanceReport()
    for task in tasks:
        await engine.maintenance.do(task, report)
    return report


async def busy(store: Store, topic: str = "t", partitions: int = 3, *, seed: int = 0, **configs: str) -> Engine:
    """A topic whose first partition has rows to merge; the second one has only a tail, the others are empty."""
    names = {name.replace("_", "."): value for name, value in configs.items()}
    engine = store.engine(seed, **RESTED)
    await engine.topics.create(topic, partitions, names)
    for i in range(9):
        for producer_id in (1, 2):
            records = batch([b"x" * 100], producer=(producer_id, 0, i), timestamp_ms=store.clock.now_ms())
            assert not (await produce(engine, topic, 0, records)).error
    assert not (await produce(engine, topic, 1, batch([b"tail"]))).error
    store.clock.advance(61)
    return engine


async def test_what_has_work_is_a_task_and_nothing_else(store: Store) -> None:
    engine = await busy(store)
    assert await partitions_of(engine) == [("t", 0)]
    [task] = (await plan_of(engine)).of_kind(TaskKind.PARTITION)
    assert (await do(engine, task)).done["segments_merged"]
    assert (await plan_of(engine)).of_kind(TaskKind.PARTITION) == []


def writes(store: Store) -> int:
    ports = (store.log, store.catalog, store.groups, store.tables.across)
    return sum(port.count(method) for port in ports for method in ("put", "update", "delete", "transact"))


async def test_a_store_at_rest_is_planned_by_reads_alone(store: Store) -> None:
    engine = await busy(store, partitions=40)
    assert (await engine.maintenance.run()).failures == []
    before = {method: store.log.count(method) for method in ("query", "get", "get_many")}
    written = writes(store)
    resting = store.engine(**RESTED)
    plan = await plan_of(resting)
    assert (plan.tasks, plan.failures) == ([], [])
    assert writes(store) == written
    after = {method: store.log.count(method) for method in before}
    assert after["get_many"] - before["get_many"] == 2, "heads and leases of all forty at once"
    assert after["get"] == before["get"]
    assert after["query"] - before["query"] <= 4, "the one partition with rows"


async def test_a_plan_names_every_kind_of_work(store: Store) -> None:
    engine = await busy(store, retention_ms="600000")
    await engine.maintenance.run()
    assert await partitions_of(engine) == []

    [cut] = await engine.delete_records([DeleteRecordsPartition("t", 0, -1)])
    assert not cut.error
    assert await partitions_of(engine) == [("t", 0)], "rows below the log start"
    assert (await engine.maintenance.run()).done["rows_removed"]
    assert await partitions_of(engine) == []

    partition = await partition_of(engine, "t")
    await store.objects.put(segment_key(partition, 0, bytes(16)), [b"orphan"])
    assert await engine.leases.take(partition)
    assert await partitions_of(engine) == [], "somebody is at it"
    store.clock.advance(61)
    assert await partitions_of(engine) == [("t", 0)], "somebody died at it"
    assert (await engine.maintenance.run()).done["orphans_removed"] == 1

    await engine.topics.create("old", 1, {"retention.ms": "3600000"})
    for _ in range(6):
        assert not (await produce(engine, "old", 0, batch([b"x"], timestamp_ms=store.clock.now_ms()))).error
    store.clock.advance(61)
    await engine.maintenance.run()
    assert await partitions_of(engine) == []
    store.clock.advance(3_600)
    assert await partitions_of(engine) == [("old", 0), ("t", 1)], "records that are too old, in rows or in the tail"
    done = (await engine.maintenance.run()).done
    assert (done["log_starts_raised"], done["tails_rolled"] > 0) == (2, True)
    assert await partitions_of(engine) == []


async def test_silent_producers_are_work(store: Store) -> None:
    await (await busy(store)).maintenance.run()
    engine = store.engine(**{**RESTED, "producer_expiry_ms": 7_200_000})
    assert await partitions_of(engine) == []
    store.clock.advance(7_200)
    assert await partitions_of(engine) == [("t", 0)]
    assert (await engine.maintenance.run()).done["producers_expired"] == 1
    assert await partitions_of(engine) == []


async def test_what_compaction_may_clean_is_work_once_it_is_old_enough(store: Store) -> None:
    configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "min.compaction.lag.ms": "7200000"}
    engine = store.engine(**RESTED)
    await engine.topics.create("t", 1, configs)
    for _ in range(8):
        records = batch([b"1", b"2"], keys=[b"k", b"k"], timestamp_ms=store.clock.now_ms())
        assert not (await produce(engine, "t", 0, records)).error
    store.clock.advance(61)
    assert (await engine.maintenance.run()).done["segments_merged"]
    assert await partitions_of(engine) == []
    store.clock.advance(7_200)
    assert await partitions_of(engine) == [("t", 0)]
    assert (await engine.maintenance.run()).done["segments_compacted"]
    assert await partitions_of(engine) == []


async def test_what_somebody_is_at_is_not_planned_until_the_claim_is_over(store: Store) -> None:
    engine = await busy(store)
    assert await engine.leases.take(await partition_of(engine, "t"))
    assert await partitions_of(engine) == []
    store.clock.advance(61)
    assert await partitions_of(engine) == [("t", 0)]


async def test_a_taking_that_arrives_late_takes_nothing_from_the_holder(store: Store) -> None:
    engine = await busy(store)
    partition = await partition_of(engine, "t")
    first = await engine.leases.take(partition)
    assert first is not None
    await engine.leases.release(first, clean=True)
    store.log.script = {("update", store.log.count("update") + 1): Fault.LATE}
    assert await store.engine(1, **RESTED).leases.take(partition) is None
    held = await engine.leases.take(partition)
    assert held is not None
    await store.log.deliver_late()
    renewed = await engine.leases.renew(held)
    assert renewed.epoch == first.epoch + 1


async def test_an_upload_that_came_late_is_found_after_a_day_of_rest(store: Store) -> None:
    engine = await busy(store, retention_ms="-1")
    await engine.maintenance.run()
    partition = await partition_of(engine, "t")
    await store.objects.put(segment_key(partition, 0, bytes(16)), [b"late"])
    store.clock.advance(2 * DAY_S)
    assert (await store.engine(**RESTED).maintenance.run()).done["orphans_removed"] == 1
    assert await partitions_of(store.engine(**RESTED)) == []


async def test_deleted_topics_transactions_and_the_sweep_are_tasks_of_their_own(store: Store) -> None:
    engine = await busy(store)
    await engine.topics.create("gone", 2)
    topic_id = (await engine.topics.resolve("gone")).topic_id
    await engine.topics.delete("gone")
    sweeping = store.engine(**SPILLING)
    plan = await plan_of(sweeping)
    assert plan.of_kind(TaskKind.TOPIC_DELETION) == [MaintenanceTask.of_deletion(topic_id)]
    assert plan.of_kind(TaskKind.SWEEP) == [MaintenanceTask(TaskKind.SWEEP)]
    assert plan.of_kind(TaskKind.TRANSACTIONS) == [], "there are none"
    report = await do(sweeping, *plan.tasks)
    assert (report.done["topics_removed"], report.done["sweeps"], report.failures) == (1, 1, [])
    assert (await plan_of(store.engine(**SPILLING))).tasks == []


@pytest.mark.parametrize("seed", some(range(20)))
async def test_messages_that_are_doubled_late_lost_or_in_any_order_do_no_harm(seed: int) -> None:
    rng, store, queue = random.Random(seed), memory_store(per_head=1), MemoryTaskQueue()
    writer = store.engine(1, **SPILLING)
    await writer.topics.create("t", 4, {"retention.ms": "-1"})
    await writer.topics.create("gone", 2)
    sent: dict[int, list[bytes]] = {number: [] for number in range(4)}
    late: list[str] = []
    for turn in range(6):
        for i in range(40):
            number = rng.randrange(4)
            value = b"%d %d " % (turn, i) + b"x" * rng.choice([0, 20_000])
            assert not (await produce(writer, "t", number, batch([value]))).error
            sent[number].append(value)
        if turn == 2:
            await produce(writer, "gone", 0, batch([b"x" * 20_000]))
            await writer.topics.delete("gone")
        store.clock.advance(rng.choice([61, 3_700]))
        plan = await plan_of(store.engine(10 + turn, **SPILLING))
        assert await enqueue(plan, queue, store.clock, SeededRng(6)) == len(plan.tasks)
        messages = late + [message for message in queue.messages for _ in range(rng.choice([0, 1, 1, 2]))]
        queue.messages.clear()
        rng.shuffle(messages)
        late = messages[: rng.randrange(3)]
        workers = [store.engine(100 + 10 * turn + i, **SPILLING) for i in range(3)]
        shares = [messages[len(late) + i :: 3] for i in range(3)]
        reports = await asyncio.gather(
            *(do(one, *map(decode_task, share)) for one, share in zip(workers, shares, strict=True))
        )
        assert [failure for report in reports for failure in report.failures] == []
    for _ in range(2):
        store.clock.advance(6 * 3_600)  # a deleted topic is looked at once more after so long
        assert (await store.engine(3, **SPILLING).maintenance.run()).failures == []
    assert (await plan_of(store.engine(4, **SPILLING))).tasks == []
    for number, values in sent.items():
        assert [record.value for record in await read_all(store.engine(5), "t", number)] == values
    assert await store.catalog.query(DELETED_TOPICS_PK) == []


async def test_a_task_of_what_is_gone_does_nothing(store: Store) -> None:
    engine = await busy(store)
    partition = await partition_of(engine, "t")
    await engine.topics.delete("t")
    tasks = [
        MaintenanceTask.of_partition(partition),
        MaintenanceTask.of_partition(PartitionId(partition.topic_id, 99)),
        MaintenanceTask.of_deletion(partition.topic_id),
        MaintenanceTask.of_deletion(partition.topic_id),
    ]
    report = await do(store.engine(2, **RESTED), *tasks)
    assert (report.failures, report.done["topics_removed"]) == ([], 1)


async def test_one_damaged_partition_hides_no_other(store: Store) -> None:
    engine = await busy(store)
    await busy(store, "damaged", 2, seed=1)
    partition = await partition_of(engine, "damaged", 1)
    [row] = [row for row in await store.log.query(f"{partition.topic_id}#1") if row.key.sk == "head"]
    await store.log.put(Put(Key(row.key.pk, "head"), {**row.item, "v": 99}))
    plan = await plan_of(engine)
    assert len(plan.of_kind(TaskKind.PARTITION)) == 2
    [failure] = plan.failures
    assert failure.startswith("damaged-1: UnknownVersion")


async def test_a_plan_that_cannot_be_made_says_what_is_missing(store: Store) -> None:
    engine = await busy(store)
    store.log.script["get_many", store.log.count("get_many") + 1] = Fault.UNAVAILABLE
    plan = await plan_of(engine)
    [failure] = plan.failures
    assert failure.startswith("t-0 to t-2: StoreUnavailable")
    assert await partitions_of(engine) == [("t", 0)], "the next one sees it"


class Refusing(MemoryTaskQueue):
    """Takes one message of a request alone, so often."""

    def __init__(self, refusals: int) -> None:
        super().__init__()
        self.refusals = refusals

    async def send(self, messages: list[str]) -> list[str]:  # type: ignore[override]
        if self.refusals:
            self.refusals -= 1
            await super().send(messages[:1])
            return messages[1:]
        return await super().send(messages)


def tasks(count: int) -> MaintenancePlan:
    plan = MaintenancePlan()
    plan.tasks += [MaintenanceTask.of_partition(PartitionId(UUID(int=7), number)) for number in range(count)]
    return plan


async def test_a_plan_is_sent_ten_at_a_time_and_what_is_refused_again(store: Store) -> None:
    queue, plan = Refusing(2), tasks(25)
    assert await enqueue(plan, queue, store.clock, SeededRng(6)) == 25
    assert sorted(queue.messages) == sorted(encode_task(task) for task in plan.tasks)
    assert plan.failures == []


async def test_what_the_queue_keeps_refusing_is_reported_and_left_to_the_next_plan(store: Store) -> None:
    queue, plan = Refusing(10**6), tasks(10)
    sent = await enqueue(plan, queue, store.clock, SeededRng(6))
    assert sent == len(queue.messages) == 5
    assert plan.failures == ["the queue refused 5 tasks"]


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.LOST_REQUEST, Fault.LOST_ANSWER])
async def test_a_request_that_fails_is_made_again(store: Store, fault: Fault) -> None:
    behind = MemoryTaskQueue()
    queue = Faulty(behind, {("send", 1): fault})
    plan = tasks(3)
    assert await enqueue(plan, queue, store.clock, SeededRng(6)) == 3  # type: ignore[arg-type]
    assert set(behind.messages) == {encode_task(task) for task in plan.tasks}


async def test_a_queue_that_is_gone_fails_no_plan(store: Store) -> None:
    queue = Faulty(MemoryTaskQueue(), {("send", n): Fault.UNAVAILABLE for n in range(1, 99)})
    plan = tasks(3)
    assert await enqueue(plan, queue, store.clock, SeededRng(6)) == 0  # type: ignore[arg-type]
    assert plan.failures[0].startswith("3 tasks were not sent: StoreUnavailable")


async def test_a_plan_that_waits_already_is_not_sent_again(store: Store) -> None:
    queue = MemoryTaskQueue()
    assert await enqueue(tasks(5), queue, store.clock, SeededRng(6)) == 5
    assert await enqueue(tasks(5), queue, store.clock, SeededRng(6)) == 0
    del queue.messages[:1]
    assert await enqueue(tasks(5), queue, store.clock, SeededRng(6)) == 5
    assert len(queue.messages) < 10, "never more than two plans"

"""Each function can do its job and nothing else: what the engine calls for a function is compared with its row.

The real engine runs over memory stores that record every call as the IAM action that DynamoDB or S3 would ask for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from odradek.adapters.memory import MemoryObjectStore, MemoryStore
from odradek.adapters.memory.task_queue import MemoryTaskQueue
from odradek.engine.catalog.topic_configs import TopicConfig
from odradek.engine.compaction.compactor import Compactor
from odradek.engine.engine import Engine
from odradek.engine.maintenance.maintenance import HeldPartition, MaintenancePlan, MaintenanceReport
from odradek.engine.marks import decode_wake
from odradek.errors import ErrorCode
from odradek.format.maintenance_task import TaskKind
from odradek.format.object_keys import segment_key
from odradek.functions.environment import MAINTAINER, MAINTENANCE, REGISTRY, TABLES, TRIGGER_DISPATCHER, TRIGGERS
from odradek.model.acl import AclBinding, AclFilter, AclOperation, AclPermission, PatternType, ResourceType
from odradek.model.classic_group import ClassicIdentity, ClassicJoin, ClassicLeave, ClassicSync
from odradek.model.group import JOIN_EPOCH, LEAVE_EPOCH, GroupHeartbeat
from odradek.model.log import (
    LATEST_TIMESTAMP,
    DeleteRecordsPartition,
    EpochEndPartition,
    FetchPartition,
    ListOffsetsPartition,
    ProducePartition,
)
from odradek.model.quota import PRODUCER_BYTE_RATE, QuotaEntity
from odradek.model.topic import Topic
from odradek.model.topic_partition import OffsetAndMetadata, PartitionId, TopicPartition
from odradek.model.trigger import FunctionKind, Trigger
from odradek.model.user import SCRAM_MECHANISMS
from odradek.ports.table import Check, Delete, Put, Update
from odradek.ports.tables import TableOperation
from odradek.registry.compatibility import Level
from odradek.registry.schemas import Reference, Schema
from odradek.registry.subjects import Subjects
from odradek.settings import Settings
from odradek.testing.faults import Fault, Faulty, FaultyTables
from odradek.testing.manual_clock import ManualClock
from odradek.testing.seeded_rng import SeededRng
from odradek.triggers.calls import CallFailed
from odradek.triggers.event import EventSource
from odradek.triggers.wiring import TriggerParts, wire_triggers

from infra.permissions import COMPACT_TOPIC, FLIGHT_DELAYS, OPEN_KEYS, PERMISSIONS, SQL_JOB, TableName
from tests.infra.compaction_plan import plan_compaction
from tests.infra.growths import growths
from tests.infra.served_tables import served_tables
from tests.infra.shared_heads import shared_heads
from tests.support.clients.share_member import ACCEPT, REJECT, ShareMember, ack
from tests.support.clients.streams_member import StreamsMember
from tests.support.clients.transactional_producer import Transactor
from tests.support.engine import batch, produce, read_all

TABLE_ACTIONS = {
    "get": "dynamodb:GetItem",
    "get_many": "dynamodb:BatchGetItem",
    "transact_get": "dynamodb:GetItem",
    "query": "dynamodb:Query",
    "update": "dynamodb:UpdateItem",
    "put": "dynamodb:PutItem",
    "delete": "dynamodb:DeleteItem",
}
OPERATION_ACTIONS = {
    Update: "dynamodb:UpdateItem",
    Put: "dynamodb:PutItem",
    Delete: "dynamodb:DeleteItem",
    Check: "dynamodb:ConditionCheckItem",
}
OBJECT_ACTIONS = {
    "put": "s3:PutObject",
    "get": "s3:GetObject",
    "get_range": "s3:GetObject",
    "head": "s3:GetObject",
    "list": "s3:ListBucket",
    "delete": "s3:DeleteObject",
}

Note = Callable[[str, tuple[Any, ...]], set[tuple[str, str]]]
Call = tuple[str, str, str]  # table name or "objects", IAM action, pk or object key


class Recorder:
    """A port whose calls are noted as IAM actions before they are made."""

    def __init__(self, port: Any, calls: set[Call], note: Note, port_name: str) -> None:
        self._port, self._calls, self._note, self._place = port, calls, note, port_name

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            self._calls.update((self._place, action, target) for action, target in self._note(name, args))
            return await method(*args, **kwargs)

        return call


def action_of(operation: object) -> str:
    """The action of an operation of a transaction; an append is an Update of its own class."""
    return next(action for kind, action in OPERATION_ACTIONS.items() if isinstance(operation, kind))


def note_table(name: str, args: tuple[Any, ...]) -> set[tuple[str, str]]:
    if name == "transact":
        return {(action_of(operation), operation.key.pk) for operation in args[0]}
    if name in ("get_many", "transact_get"):
        return {(TABLE_ACTIONS[name], key.pk) for key in args[0]}
    target = args[0]
    return {(TABLE_ACTIONS[name], target if isinstance(target, str) else getattr(target, "key", target).pk)}


def note_objects(name: str, args: tuple[Any, ...]) -> set[tuple[str, str]]:
    keys = args[0] if name == "delete" else [args[0]]
    return {(OBJECT_ACTIONS[name], key) for key in keys}


class RecordingTables:
    """The tables as a function sees them: recorded each, and across each other."""

    def __init__(self, tables: FaultyTables, calls: set[Call]) -> None:
        self._tables, self._calls = tables, calls
        self.log: Any = Recorder(tables.log, calls, note_table, TableName.LOG)
        self.groups: Any = Recorder(tables.groups, calls, note_table, TableName.GROUPS)
        self.catalog: Any = Recorder(tables.catalog, calls, note_table, TableName.CATALOG)
        self.rows: Any = Recorder(tables.rows, calls, note_table, TableName.ROWS)

    async def transact(self, operations: Sequence[TableOperation]) -> None:
        self._calls.update(
            (operation.table, action_of(operation.operation), operation.operation.key.pk) for operation in operations
        )
        await self._tables.transact(operations)


class World:
    """One store, an engine a function over it, and what each function called."""

    def __init__(self) -> None:
        self.clock = ManualClock(auto_advance=True)
        self.store = FaultyTables(MemoryStore())
        self.tables: dict[TableName, Any] = {name: getattr(self.store, name.value) for name in TableName}
        self.objects: Any = Faulty(MemoryObjectStore(self.clock))
        self.calls: dict[str, set[Call]] = {}

    def stores(self, function: str) -> dict[str, Any]:
        calls = self.calls.setdefault(function, set())
        return {
            "tables": RecordingTables(self.store, calls),
            "objects": Recorder(self.objects, calls, note_objects, "objects"),
        }

    def engine(self, function: str, **settings: Any) -> Engine:
        return Engine(
            **self.stores(function), clock=self.clock, rng=SeededRng(len(self.calls)), settings=Settings(**settings)
        )


async def work(world: World) -> None:
    """Call the functions in every way, the rarer ones included: duplicates, spills, evicted producers, lost answers."""
    admin, coordinator = world.engine("admin"), world.engine("coordinator", catalog_cache_ms=0)
    producer = world.engine("produce", head_bytes_max=400, spill_entries=1, producers_in_head_max=1)
    fetcher = world.engine("fetch")

    topic = await admin.topics.create("flights", 2, {"odradek.partitions.per.head": "1"})
    await admin.topics.create_partitions("flights", 3)
    await growths(admin, coordinator)
    await admin.topics.alter_configs("flights", set={"retention.ms": "600000"})
    await admin.topics.resolve("flights")
    await users_and_classic_groups(admin, coordinator)
    await acls(admin, (producer, fetcher, coordinator))
    await registry(world)

    ids = [(await coordinator.producer_ids.init()).producer_id for _ in range(3)]
    for producer_id in ids:
        for sequence in range(8):
            records = batch([b"x" * (20_000 if sequence % 2 else 10)], producer=(producer_id, 0, sequence))
            assert not (await produce(producer, "flights", 0, records)).error
    for producer_id in ids:  # the others' rows are read back: they have left the head
        assert not (await produce(producer, "flights", 0, batch([b"x"], producer=(producer_id, 0, 8)))).error
    world.tables[TableName.LOG].script[("update", world.tables[TableName.LOG].count("update") + 1)] = Fault.LOST_ANSWER
    lost = batch([b"lost answer"], producer=(ids[0], 0, 9))
    first = await produce(producer, "flights", 0, lost)
    again = await produce(producer, "flights", 0, lost)
    assert (first.error, first.base_offset) == (again.error, again.base_offset) == (0, 27)

    assert len(await read_all(fetcher, "flights", 0)) == 28
    await fetcher.fetch([FetchPartition("flights", 0, 0), FetchPartition("flights", 1, 0)])
    await fetcher.list_offsets([ListOffsetsPartition("flights", 0, at) for at in (LATEST_TIMESTAMP, 1_700_000_000_000)])
    await fetcher.fetch([FetchPartition("", 0, 0, topic_id=topic.topic_id)])

    await lead(world, admin, coordinator, producer, fetcher)
    await triggers(world, admin, producer)
    remove_rows = await served_tables(world, admin)

    tps = [TopicPartition("flights", 0), TopicPartition("flights", 1)]
    member, epoch = "member-1", JOIN_EPOCH
    for _ in range(3):
        beat = GroupHeartbeat("group", member, epoch, rebalance_timeout_ms=60_000, subscribed_topic_names=["flights"])
        result = await coordinator.groups.heartbeat(beat)
        assert not result.error, result
        epoch = result.member_epoch
    committed = await coordinator.offsets.commit(
        "group", {tp: OffsetAndMetadata(1) for tp in tps}, member_id=member, member_epoch=epoch
    )
    assert not any(result.error for result in committed)
    await coordinator.offsets.commit("simple", {tps[0]: OffsetAndMetadata(1)})
    await coordinator.offsets.fetch("group", tps)
    await coordinator.offsets.fetch("group", None)
    await transactions(world)
    await coordinator.topics.list()
    await coordinator.topics.get_by_id(topic.topic_id)
    await coordinator.groups.list()
    await coordinator.groups.describe(["group"])
    await coordinator.groups.heartbeat(GroupHeartbeat("group", member, LEAVE_EPOCH))
    await coordinator.groups.delete(["group", "simple"])
    await share_groups(world, admin, coordinator)
    await streams_groups(world, admin, coordinator)

    [deleted] = await admin.delete_records([DeleteRecordsPartition("flights", 0, 2)])
    assert deleted.low_watermark == 2
    merged = MaintenanceReport()
    merging = world.engine(MAINTAINER, merge_rows_min=1, merge_delay_ms=0).maintenance
    await merging.run_partition(await admin.topics.resolve("flights"), 0, merged)
    assert merged.done["segments_merged"], merged
    assert len(await read_all(world.engine("fetch"), "flights", 0, 2)) == 26
    configs = {"cleanup.policy": "compact,delete", "min.cleanable.dirty.ratio": "0"}
    await merging.run_partition(await admin.topics.alter_configs("flights", set=configs), 0, merged)
    assert merged.done["segments_compacted"], merged
    await plan_compaction(world, admin, producer)
    world.clock.advance(10 * 24 * 3600)
    segment = segment_key(PartitionId(topic.topic_id, 0), 0, bytes(16))
    await world.objects.put(segment, [b"orphan"])
    assert await world.engine("dies").leases.take(PartitionId(topic.topic_id, 0))
    world.clock.advance(24 * 3600)
    report = await maintain(world)
    for done in ("orphans_removed", "rows_removed", "producers_expired", "uploads_swept", "transactions_expired"):
        assert report.done[done], (done, report)

    assert not (await world.engine(MAINTENANCE).backlogs.look()).unread
    await world.objects.put(segment, [b"merged"])
    await admin.topics.delete("flights")
    report = await maintain(world)
    assert report.done["topics_removed"] == report.done["objects_removed"] == 1
    await maintain(await shared_heads(world, admin))
    await remove_rows()


async def maintain(world: World) -> MaintenanceReport:
    """One function plans, another one does it."""
    plan, report = MaintenancePlan(), MaintenanceReport()
    await world.engine(MAINTENANCE).maintenance.plan(plan)
    assert not plan.failures
    works = world.engine(MAINTAINER).maintenance
    for task_kind in TaskKind:
        for task in plan.of_kind(task_kind):
            await works.do(task, report)
    assert not report.failures
    return report


async def registry(world: World) -> None:
    """Registrations, new and known, with references; deletions; configuration."""
    engine = world.engine(REGISTRY)
    subjects = Subjects(engine.catalog, world.clock, engine.rng)
    common = Schema("AVRO", '{"type": "enum", "name": "Unit", "symbols": ["C"]}')
    made = await subjects.register("unit", common)
    for name in ("a-value", "b-value"):
        user = Schema("AVRO", '{"type": "array", "items": "Unit"}', (Reference("Unit", "unit", made.version),))
        assert (await subjects.register(name, user)).stored.schema_id == 2
    assert [name for name, _ in await subjects.uses(2)] == ["a-value", "b-value"]
    for i in range(101):  # beyond those that a schema's row names
        await subjects.register(f"subject-{i}", common)
    assert len(await subjects.names("subject-")) == 101
    await subjects.set_config("a-value", level=Level.FULL)
    assert (await engine.acls.current()).acls == ()
    await subjects.delete_subject("a-value")
    await subjects.delete_version("b-value", None)


async def triggers(world: World, admin: Engine, producer: Engine) -> None:
    """A trigger from its creation to its deletion: calls, a failure topic, pauses, resets, the sweep."""

    class Answer:
        async def call(self, call: object) -> bytes:
            raise CallFailed("no")

    def parts(function: str) -> TriggerParts:
        engine = world.engine(function, catalog_cache_ms=0)
        source = EventSource("arn", "b")
        more = {FunctionKind.WEBHOOK: Answer()}
        return wire_triggers(engine, queue, source, lambda: None, more=more)  # type: ignore[arg-type, return-value]

    queue = MemoryTaskQueue()
    await admin.topics.create("purchases", 2, {"odradek.partitions.per.head": "1"})
    await admin.topics.create("failed", 1)
    manages, calls, sweeps = parts(TRIGGERS), parts(TRIGGER_DISPATCHER), parts(MAINTENANCE)

    async def work_off() -> None:
        while queue.messages:
            await calls.dispatcher.handle(decode_wake(queue.messages.pop()), world.clock.monotonic() + 60)

    await world.engine(TRIGGERS).acls.current()
    given_up = {"retry_attempts": 0, "on_failure": "topic:failed"}
    await manages.triggers.create(Trigger(name="t", topic="purchases", function="https://example.org", **given_up))
    await work_off()
    for size in (10, 20_000, 10, 20_000, 10, 10):
        await produce(producer, "purchases", 0, batch([b"x" * size]))
        await sweeps.sweep.run()
        await work_off()
    status = await manages.triggers.describe("t")
    assert (status.lag, status.partitions[0].given_up) == (0, 6)
    merged = MaintenanceReport()
    merging = world.engine(MAINTAINER, merge_rows_min=1, merge_delay_ms=0).maintenance
    await merging.run_partition(await admin.topics.resolve("purchases"), 0, merged)
    assert merged.done["segments_merged"], merged
    await produce(producer, "purchases", 0, batch([b"x" * 20_000, b"y"]))
    await manages.triggers.pause("t")
    for timestamp_ms in (1_700_000_000_001, 1_700_000_000_000):  # in what is not merged, and in a segment
        await manages.triggers.reset("t", "AT_TIMESTAMP", timestamp_ms)
    await manages.triggers.resume("t")
    await work_off()
    await manages.triggers.delete("t")


async def acls(admin: Engine, others: Sequence[Engine]) -> None:
    rule = AclBinding(
        ResourceType.TOPIC, "f", PatternType.PREFIXED, "User:ada", "*", AclOperation.READ, AclPermission.ALLOW
    )
    await admin.acls.create(rule)
    ada = QuotaEntity("ada")
    await admin.client_quotas.alter(ada, {PRODUCER_BYTE_RATE: 1_000})
    assert set(await admin.client_quotas.list()) == {ada}
    for engine in others:
        assert (await engine.acls.current()).acls == (rule,)
        assert set(await engine.client_quotas.current()) == {ada}
    await admin.client_quotas.alter(ada, {PRODUCER_BYTE_RATE: None})
    assert await admin.acls.delete(AclFilter()) == [rule]


async def users_and_classic_groups(admin: Engine, coordinator: Engine) -> None:
    await admin.users.create("ada", "lovelace")
    assert [user.name for user in await admin.users.list()] == ["ada"]
    for mechanism in SCRAM_MECHANISMS:
        await admin.users.delete("ada", mechanism)
    joining = ClassicJoin("old", "", "consumer", (("range", b""),), 10_000, 10_000, requires_known_member_id=False)
    joined = await coordinator.classic_groups.join(joining)
    me = ClassicIdentity("old", joined.member_id, joined.generation)
    assert (await coordinator.classic_groups.sync(ClassicSync(me))).error is ErrorCode.NONE
    offsets = {TopicPartition("flights", 0): OffsetAndMetadata(1)}
    [committed] = await coordinator.offsets.commit("old", offsets, member_id=me.member_id, member_epoch=me.generation)
    assert committed.error is ErrorCode.NONE
    await coordinator.classic_groups.leave("old", [ClassicLeave(me.member_id)])


async def share_groups(world: World, admin: Engine, coordinator: Engine) -> None:
    """A queue whose records are accepted and rejected: a dead letter in an item and one in an object."""
    await admin.topics.create("dead", 1)
    values = {"share.auto.offset.reset": "earliest", "errors.deadletterqueue.topic.name": "dead"}
    await admin.group_configs.alter("queue", set=values)
    queue = await admin.topics.create("queue", 1)
    producer = world.engine("produce", head_bytes_max=400, spill_entries=1)
    for size in (10, 20_000, *[10] * 8, 20_000):
        assert not (await produce(producer, "queue", 0, batch([b"x" * size]))).error
    merged = MaintenanceReport()
    merging = world.engine(MAINTAINER, merge_rows_min=1, merge_delay_ms=0).maintenance
    await merging.run_partition(queue, 0, merged)
    assert merged.done["segments_merged"], merged
    member = ShareMember(coordinator, "m", "queue", group_id="queue")
    await member.beat()
    assert len(await member.fetch()) == 3  # the segment
    assert len(await member.fetch()) == 8
    partition = PartitionId(queue.topic_id, 0)
    assert await member.acknowledge({partition: [ack(0, 2, REJECT, REJECT, ACCEPT)]}) == {partition: ErrorCode.NONE}
    assert len(await read_all(world.engine("fetch"), "dead", 0)) == 2
    await coordinator.share_offsets.describe("queue", None)
    await member.close()
    await member.leave()
    await coordinator.share_offsets.alter("queue", {TopicPartition("queue", 0): 1})
    passing = ShareMember(coordinator, "m", "queue", group_id="passing")
    await passing.beat()
    await passing.fetch()
    await passing.leave()
    assert await coordinator.groups.delete(["passing"]) == [("passing", ErrorCode.NONE)]
    await admin.topics.delete("queue")


async def streams_groups(world: World, admin: Engine, coordinator: Engine) -> None:
    """A streams application, whose internal topics the coordinator creates."""
    await admin.topics.create("orders", 2)
    member = StreamsMember(coordinator, "m")
    for _ in range(4):
        await member.beat()
        world.clock.advance(10)
    assert len(member.tasks.active) == 4
    assert await member.commit(TopicPartition("orders", 0), 1) is ErrorCode.NONE
    await coordinator.streams_groups.describe(["app"])
    await member.leave()
    assert await coordinator.groups.delete(["app"]) == [("app", ErrorCode.NONE)]


async def transactions(world: World) -> None:
    """Both protocols, a commit that spills and meets evicted producers, one that is left for maintenance."""
    coordinator = world.engine(
        "coordinator", catalog_cache_ms=0, head_bytes_max=400, spill_entries=1, producers_in_head_max=1
    )
    producer = world.engine("produce")
    for name, bumps in (("first", False), ("second", True)):
        ends = await Transactor(coordinator, name, bumps).init()
        for i in range(6):
            writes = Transactor(producer, name, True, ends.producer_id, ends.epoch, ends.sequences)
            for partition in (1, 2):
                await ends.announce("flights", partition)
                await writes.send("flights", partition, b"record")
            await ends.send_offset("transactional", "flights", 1, i)
            await ends.end(commit=i != 2)
    await coordinator.transactions.list()
    await coordinator.transactions.describe("first")
    await coordinator.groups.delete(["transactional"])
    left = await Transactor(coordinator, "left").init(timeout_ms=1)
    await Transactor(producer, "left", True, left.producer_id, left.epoch).send("flights", 2, b"left")


async def lead(world: World, admin: Engine, coordinator: Engine, producer: Engine, fetcher: Engine) -> None:
    """A gateway leads a partition and dies; the functions show it, take over, and tell where its epoch ended."""
    topic = await admin.topics.create("led", 1)
    gateway = Engine(tables=world.store, objects=world.objects, clock=world.clock, rng=SeededRng(99), broker_id=5)
    await gateway.leaders.register("gateway", 9092)
    assert not (await produce(gateway, "led", 0, batch([b"gateway"]))).error
    assert [broker.broker_id for broker in (await admin.leader_view([])).brokers] == [5]
    assert (await coordinator.leader_view([topic])).leader_of(PartitionId(topic.topic_id, 0)) == (5, 1)
    world.clock.advance(60)
    assert not (await produce(producer, "led", 0, batch([b"fleet"]))).error
    [ended] = await fetcher.epoch_end_offsets([EpochEndPartition("led", 0, 1)])
    assert (ended.leader_epoch, ended.end_offset) == (1, 1)
    assert len(await read_all(fetcher, "led", 0)) == 2


@pytest.fixture(scope="module")
def called() -> dict[str, set[Call]]:
    world = World()
    asyncio.run(work(world))
    return world.calls


FUNCTIONS = (
    "produce",
    "fetch",
    "coordinator",
    "admin",
    MAINTENANCE,
    MAINTAINER,
    REGISTRY,
    TABLES,
    TRIGGERS,
    TRIGGER_DISPATCHER,
)


def may(function: str, call: Call) -> bool:
    """Return True if the function's row allows the call."""
    table_name, action, target = call
    row = PERMISSIONS[function]
    if action == "s3:ListBucket":
        return row.may_list
    if table_name == "objects":
        return any(action in grant.actions and target.startswith(grant.prefixes) for grant in row.objects)
    return any(
        action in grant.actions and (not grant.partition_keys or target in grant.partition_keys)
        for grant in row.tables
        if grant.table == table_name
    )


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_may_do_all_that_its_work_calls(function: str, called: dict[str, set[Call]]) -> None:
    assert called[function]
    assert not [call for call in called[function] if not may(function, call)]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_may_do_nothing_that_its_work_never_calls(function: str, called: dict[str, set[Call]]) -> None:
    calls, row = called[function], PERMISSIONS[function]
    idle = [
        (grant.table.value, action, key)
        for grant in row.tables
        for action in grant.actions
        for key in ([""] if set(OPEN_KEYS[:8]) <= set(grant.partition_keys) else grant.partition_keys or [""])
        if not any(table_name == grant.table and a == action and pk in (key or pk,) for table_name, a, pk in calls)
    ]
    idle += [
        (prefix, action, "")
        for grant in row.objects
        for action in grant.actions
        for prefix in grant.prefixes
        if not any(table_name == "objects" and a == action and key.startswith(prefix) for table_name, a, key in calls)
    ]
    assert idle == []
    if row.may_list:  # a reader lists nothing: without the right to, S3 answers 403 for an object that is gone
        assert ("objects", "s3:GetObject") in {call[:2] for call in calls}


async def write_as_the_sink(world: World) -> None:
    """Executors upload, a driver commits: items and objects, spills, more partitions than one transaction takes."""
    await world.engine("admin").topics.create("flights", 101)
    engine = world.engine(FLIGHT_DELAYS, head_bytes_max=400, spill_entries=1)
    for batch_id, size in enumerate([10, 20_000, 10, 10, 10, 10, 10, 10]):
        requests = [ProducePartition("flights", i, batch([b"x" * size])) for i in range(101 if batch_id == 1 else 2)]
        uploaded = await engine.numbered_batches.upload(requests)
        for _ in range(2):
            await engine.numbered_batches.commit("spark/query", batch_id, uploaded)
    assert len(await read_all(engine, "flights", 0)) == 8


def test_a_job_may_write_by_the_sink() -> None:
    world = World()
    asyncio.run(write_as_the_sink(world))
    called = world.calls[FLIGHT_DELAYS]
    assert ("log", "dynamodb:PutItem") in {(table_name, action) for table_name, action, _ in called}
    assert not [call for call in called if not may(FLIGHT_DELAYS, call)]


async def run_a_script(world: World) -> None:
    """Run statements of SQL that use the catalog: SHOW, CREATE, DROP; each asks for the caller's rights first."""
    engine = world.engine(SQL_JOB, catalog_cache_ms=0)
    await engine.acls.current()
    made = await engine.topics.create("made", 2, {"cleanup.policy": "compact"})
    assert await engine.topics.list() == [made]
    await engine.leader_view([made])
    await engine.topics.delete("made")
    assert await engine.topics.list() == []


def test_the_sql_job_may_make_and_drop_topics_and_nothing_else_beyond_a_job() -> None:
    world = World()
    asyncio.run(run_a_script(world))
    called = world.calls[SQL_JOB]
    assert not [call for call in called if not may(SQL_JOB, call)]
    used = {(table_name, action) for table_name, action, _ in called}

    def granted(job: str) -> set[tuple[str, str]]:
        return {(grant.table.value, action) for grant in PERMISSIONS[job].tables for action in grant.actions}

    assert granted(SQL_JOB) - granted(FLIGHT_DELAYS) - used == set()


async def compact(world: World) -> None:
    """Segments by maintenance; the job takes them up under the lease, after one that died."""
    writer = world.engine("writer", head_bytes_max=400, spill_entries=1)
    topic = await writer.topics.create("kept", 1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
    merging = world.engine("merges", merge_rows_min=1, merge_delay_ms=0, segment_bytes_max=500)
    report = MaintenanceReport()
    for _ in range(8):  # several segments, of which one is left
        for _ in range(10):
            assert not (await produce(writer, "kept", 0, batch([b"v" * 300], keys=[b"k"]))).error
        held = await hold(merging, topic, report)
        await merging.merger.run(held)
        await merging.leases.release(held.lease, clean=True)
    assert await merging.leases.take(PartitionId(topic.topic_id, 0))  # and dies
    await world.objects.put(segment_key(PartitionId(topic.topic_id, 0), 0, bytes(16)), [b"orphan"])
    world.clock.advance(600)
    job = world.engine(COMPACT_TOPIC)
    await job.topics.resolve("kept")
    held = await hold(job, topic, report)
    await job.orphans.run(held)
    compactor = Compactor(job.tools, job.index, job.leases)
    world.clock.advance(40)
    await compactor.run(held)
    await job.leases.release(held.lease, clean=True)
    assert report.done["segments_compacted"]
    assert report.done["orphans_removed"]


async def hold(engine: Engine, topic: Topic, report: MaintenanceReport) -> HeldPartition:
    lease = await engine.leases.take(PartitionId(topic.topic_id, 0))
    assert lease is not None
    return HeldPartition(topic, TopicConfig.of(topic, engine.settings), lease.partition, lease, report, engine.tables)


def test_the_compaction_job_may_do_what_a_compaction_does_and_nothing_else_beyond_a_job() -> None:
    world = World()
    asyncio.run(compact(world))
    called = world.calls[COMPACT_TOPIC]
    assert not [call for call in called if not may(COMPACT_TOPIC, call)]
    used = {(table_name, action) for table_name, action, _ in called}

    def granted(job: str) -> set[tuple[str, str]]:
        row = PERMISSIONS[job]
        used = {(grant.table.value, action) for grant in row.tables for action in grant.actions}
        return used | {("objects", action) for grant in row.objects for action in grant.actions}

    assert granted(COMPACT_TOPIC) - granted(FLIGHT_DELAYS) - used == set()

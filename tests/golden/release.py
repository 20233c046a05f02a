"""Stored bytes of a release, kept for the releases after it: `python -m tests.golden.release`.

    tests/golden/releases/<version>/store.json      every item and object (stored.py)
    tests/golden/releases/<version>/expected.json   what its users knew: records, offsets, ids, epochs, schemas

Run it once, with the code that is being released, and commit both; they are never made again by later code. A release
is not made twice: --again overwrites the files of one that is not out yet.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import dataclass, field
from importlib.metadata import version
from math import inf
from pathlib import Path
from typing import Any

from odradek.adapters.memory import MemoryObjectStore, MemoryStore
from odradek.adapters.memory.task_queue import MemoryTaskQueue
from odradek.engine.engine import Engine
from odradek.engine.marks import decode_wake
from odradek.engine.partition.shared_head import SharedHead, id_name_of
from odradek.errors import ErrorCode
from odradek.model.acl import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from odradek.model.classic_group import ClassicIdentity, ClassicJoin, ClassicSync
from odradek.model.group import JOIN_EPOCH, GroupHeartbeat
from odradek.model.log import ProducePartition
from odradek.model.quota import (
    CONNECTION_CREATION_RATE,
    DEFAULT,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    QuotaEntity,
)
from odradek.model.record import CompressionType
from odradek.model.streams import Endpoint, InternalTopic, Subtopology, Topology
from odradek.model.table import ServedTable
from odradek.model.topic_partition import OffsetAndMetadata, PartitionId, TopicPartition
from odradek.model.trigger import FunctionKind, Trigger
from odradek.ports.task_queue import TaskQueue
from odradek.registry.compatibility import Level
from odradek.registry.schemas import Reference, Schema
from odradek.registry.subjects import Registered, Subjects
from odradek.served.wiring import wire_tables
from odradek.settings import Settings
from odradek.testing.manual_clock import ManualClock
from odradek.testing.seeded_rng import SeededRng
from odradek.triggers.calls import Call
from odradek.triggers.event import EventSource
from odradek.triggers.wiring import wire_triggers

from tests.golden.stored import dump
from tests.support.clients.share_member import ACCEPT, REJECT, RELEASE, ShareMember, ack
from tests.support.clients.streams_member import StreamsMember
from tests.support.clients.transactional_producer import Transactor
from tests.support.engine import batch, produce, read_all

RELEASES = Path(__file__).parent / "releases"
# Small, so that few records make every kind of item.
SETTINGS: dict[str, Any] = {
    "head_bytes_max": 400,
    "spill_entries": 1,
    "paged_appends": 3,
    "producers_in_head_max": 1,
    "item_bytes_max": 400,
    "merge_rows_min": 2,
    "merge_delay_ms": 0,
    "catalog_cache_ms": 0,
    "acl_cache_ms": 0,
}
GATEWAY_ID = 7
LOGS = [("plain", 0), ("plain", 1), ("compacted", 0), ("led", 0), ("numbered", 0), ("work", 0), ("letters", 0)]
LOGS += [("filed", 0), ("lean", 0)]
LOGS += [("spread", number) for number in range(3)]


@dataclass
class World:
    """One store, engines over it, and what is expected of it later."""

    clock: ManualClock = field(default_factory=lambda: ManualClock(auto_advance=True))
    store: MemoryStore = field(default_factory=MemoryStore)
    expected: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.objects = MemoryObjectStore(self.clock)

    def engine(self, seed: int, wakes: TaskQueue | None = None, **more: Any) -> Engine:
        settings, rng = Settings(**{**SETTINGS, **more}), SeededRng(seed)
        return Engine(
            tables=self.store, objects=self.objects, clock=self.clock, rng=rng, settings=settings, wakes=wakes
        )


async def write(world: World) -> None:
    """Everything that a store may hold."""
    await columnar(world)
    engine, expected = world.engine(1), world.expected
    plain = await engine.topics.create("plain", 2, {"retention.ms": "864000000", "odradek.partitions.per.head": "1"})
    compacted = await engine.topics.create(
        "compacted", 1, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
    )
    await engine.topics.create("led", 1)
    await engine.topics.create("numbered", 1)

    # The log: small and large appends of idempotent producers, some of them evicted; segments, rows, a tail.
    producers = [(await engine.producer_ids.init()).producer_id for _ in range(4)]
    compressions = [CompressionType.NONE, CompressionType.GZIP, CompressionType.LZ4, CompressionType.ZSTD]
    last: dict[str, list[int]] = {}
    for sequence in range(5):
        for producer_id, compression in zip(producers, compressions, strict=True):
            size = 900 if sequence % 2 else 20
            records = batch(
                [b"%d/%d " % (producer_id, sequence) + b"." * size],
                keys=[b"k%d" % (producer_id % 3)],
                timestamp_ms=world.clock.now_ms(),
                producer=(producer_id, 0, sequence),
                compression=compression,
            )
            result = await produce(engine, "plain", 0, records)
            assert not result.error, result
            last[str(producer_id)] = [sequence, result.base_offset]
            assert not (await produce(engine, "compacted", 0, records)).error
            world.clock.advance(1)
        if sequence == 2:
            world.clock.advance(120)
            report = await engine.maintenance.run()
            assert not report.failures, report
            assert min(report.done["segments_merged"], report.done["segments_compacted"]) > 0, report
    expected["last_batches"] = last
    for _ in range(8):  # those who wrote before leave the head
        await produce(engine, "plain", 0, batch([b"without a producer"]))
    await produce(engine, "plain", 1, batch([b"without a producer"]))

    await lead(world)
    await groups(world, plain.topic_id)
    await transactions(world)
    uploaded = await engine.numbered_batches.upload([ProducePartition("numbered", 0, batch([b"batch 3"]))])
    assert await engine.numbered_batches.commit("query", 3, uploaded)
    expected["numbered"] = ["query", 3]
    await engine.acls.create(
        AclBinding(
            ResourceType.TOPIC, "pl", PatternType.PREFIXED, "User:ada", "*", AclOperation.READ, AclPermission.ALLOW
        )
    )
    await engine.users.create("ada", "lovelace")
    expected["login_secret"] = (await engine.users.secret()).hex()
    await engine.client_quotas.alter(QuotaEntity("ada", DEFAULT), {PRODUCER_BYTE_RATE: 1_000, REQUEST_PERCENTAGE: 12.5})
    await engine.client_quotas.alter(QuotaEntity(ip="192.0.2.1"), {CONNECTION_CREATION_RATE: 3})
    expected["quotas"] = [[*entity, dict(values)] for entity, values in (await engine.client_quotas.list()).items()]
    await engine.topics.create("deleted", 1)
    await produce(engine, "deleted", 0, batch([b"x" * 900]))
    await engine.topics.delete("deleted")
    await share_group(world)
    await schemas(world)
    await shared_heads(world)
    await growth(world)
    await trigger(world)
    await table(world)

    expected["partitions"] = {topic: [str((await engine.topics.resolve(topic)).topic_id)] for topic, _ in LOGS}
    expected["records"] = [
        [topic, number, [[r.offset, r.timestamp_ms, _text(r.key), _text(r.value)] for r in records]]
        for topic, number in LOGS
        if (records := await read_all(engine, topic, number))
    ]
    lease = await world.engine(99).leases.take(PartitionId(compacted.topic_id, 0))
    assert lease is not None  # left as by a maintainer that died


async def columnar(world: World) -> None:
    """A table topic: a Parquet file with typed columns, and what is not merged yet."""
    configs = {"odradek.table.enable": "true", "odradek.table.segment.bytes": "1024"}
    engine = world.engine(9, merge_rows_min=1)
    await engine.topics.create("filed", 1, {**configs, "odradek.table.schema": "n bigint"})
    for number in range(24):
        compression = list(CompressionType)[number % len(CompressionType)]
        values = [b'{"n": %d}' % number, None, b",".join(b"%d" % (factor * 7919 + number) for factor in range(50))]
        records = batch(values, keys=[b"k", None, b""], timestamp_ms=world.clock.now_ms(), compression=compression)
        assert not (await produce(engine, "filed", 0, records)).error
        if number == 19:
            world.clock.advance(120)
            report = await engine.maintenance.run()
            assert report.done["table_segments_written"], report
    topic = await engine.topics.resolve("filed")
    await engine.tables.states.refused(topic.topic_id, 1, "a reason", world.clock.now_ms())
    await engine.topics.create(
        "lean",
        1,
        {
            **configs,
            "odradek.table.schema": "n bigint, d double, t string, inner struct<ok: boolean>",
            "odradek.table.value.bytes": "false",
        },
    )
    for number in range(24):
        values = [
            b'{"n":%d,"d":%r,"t":"\xc3\xbc%d","inner":{"ok":%b}}' % (i, i / 4, i, b"true" if i % 2 else b"null")
            for i in range(number, number + 3)
        ]
        records = batch([*values, b"other", None], keys=[b"k"] * 5, timestamp_ms=world.clock.now_ms())
        assert not (await produce(engine, "lean", 0, records)).error
        if number == 19:
            world.clock.advance(120)
            assert (await engine.maintenance.run()).done["table_segments_with_recipes"]


async def shared_heads(world: World) -> None:
    """Partitions that share a head: rows, a page, a tail, producers in the head and one that has left it."""
    engine = world.engine(8, producer_idle_ms=1_000, paged_appends=12)
    topic = await engine.topics.create("spread", 3, {"odradek.partitions.per.head": "4"})
    world.expected["spread"] = {}
    for producer_id, count in ((901, 1), (902, 24)):
        for sequence in range(count):
            records = batch([b"%d/%d" % (producer_id, sequence)], producer=(producer_id, 0, sequence))
            world.clock.advance(1)
            results = await engine.produce([ProducePartition("spread", number, records) for number in range(3)])
            assert not any(result.error for result in results), results
            world.expected["spread"][str(producer_id)] = [sequence, results[0].base_offset]
    head = await engine.index.read_image(PartitionId(topic.topic_id, 0))
    assert isinstance(head, SharedHead)
    assert head.indexed
    assert head.has_pages, (head.paged, head.indexed, len(head.tail))
    assert head.stamps.keys() == {id_name_of(902)}
    offsets = {TopicPartition("spread", number): OffsetAndMetadata(number + 1) for number in range(3)}
    assert not any(result.error for result in await engine.offsets.commit("spread", offsets))
    world.expected["spread_committed"] = [1, 2, 3]


async def growth(world: World) -> None:
    """A topic that has grown: its marks, and the fence of its head."""
    engine = world.engine(12)
    await engine.topics.create("grown", 2)
    assert not (await produce(engine, "grown", 1, batch([b"before"]))).error
    grown = await engine.topics.create_partitions("grown", 6)
    world.expected["grown"] = list(await engine.topics.marks_of(grown, grown.growths[0]))


async def trigger(world: World) -> None:
    """A trigger that was called with half of a topic's records, and waits at the head for more."""
    queue = MemoryTaskQueue()
    watcher = Watcher(world.engine(10, wakes=queue), queue)
    await watcher.engine.topics.create("watched", 1)
    definition = Trigger(name="orders", topic="watched", function="https://example.com/orders", batch_size=2)
    made = await watcher.parts.triggers.create(definition)
    assert await watcher.called() == []
    for number in range(3):
        assert not (await produce(watcher.engine, "watched", 0, batch([b"order %d" % number]))).error
    assert await watcher.called() == [0, 1, 2]
    world.expected["trigger"] = {"secret": made.secret, "offset": 3}


class Watcher:
    """Triggers whose functions are content with every record."""

    def __init__(self, engine: Engine, queue: MemoryTaskQueue) -> None:
        self.engine = engine
        self._queue = queue
        self._offsets: list[int] = []
        source, more = EventSource("arn", "servers"), {FunctionKind.WEBHOOK: self}
        self.parts = wire_triggers(engine, queue, source, self._nothing, more=more)

    async def called(self) -> list[int]:
        """Work off all messages; return the offsets with which functions were called."""
        self._offsets = []
        while self._queue.messages:
            await self.parts.dispatcher.handle(decode_wake(self._queue.messages.pop(0)), inf)
        return self._offsets

    async def call(self, call: Call) -> bytes:
        """Implement Target."""
        [records] = json.loads(call.event)["records"].values()
        self._offsets += [record["offset"] for record in records]
        return b""

    def _nothing(self) -> Any:
        raise AssertionError("no trigger of a release needs AWS")


async def table(world: World) -> None:
    """A served table with a row of each form, which waits at the head for more; one that was dropped."""
    engine = world.engine(11)
    parts = wire_tables(engine, world.store.rows, MemoryTaskQueue())
    topic = await engine.topics.create("scores", 1, {"cleanup.policy": "compact"})
    for name in ("scores", "dropped"):
        await parts.tables.serve(ServedTable(name=name, topic="scores", value_format="STRING", retention_ms=10**15))
    await parts.tables.drop("dropped")
    rows = {b"a": b"first", b"long": b"x" * 1_000, b"large": SeededRng(5).random_bytes(450_000)}
    assert not (await produce(engine, "scores", 0, batch(list(rows.values()), keys=list(rows)))).error
    await parts.maintainer.catch_up("scores", topic, {0: 3}, inf)
    status = await parts.tables.describe("scores")
    assert (status.lag, status.partitions[0].too_large) == (0, 1)
    world.expected["table"] = {"a": "first", "long": "x" * 1_000, "covered": 3}


async def lead(world: World) -> None:
    """A gateway's registration, and an epoch that is over."""
    gateway = Engine(
        tables=world.store,
        objects=world.objects,
        clock=world.clock,
        rng=SeededRng(GATEWAY_ID),
        settings=Settings(**SETTINGS),
        broker_id=GATEWAY_ID,
    )
    await gateway.leaders.register("gateway", 9092, "rack")
    assert not (await produce(gateway, "led", 0, batch([b"by the gateway"]))).error
    world.clock.advance(60)
    assert not (await produce(world.engine(3), "led", 0, batch([b"by the fleet"]))).error


async def groups(world: World, topic_id: Any) -> None:
    """A group of each protocol with committed offsets."""
    engine, tp = world.engine(4), TopicPartition("plain", 0)
    epoch = JOIN_EPOCH
    for _ in range(3):
        beat = GroupHeartbeat("group", "member", epoch, rebalance_timeout_ms=60_000, subscribed_topic_names=["plain"])
        result = await engine.groups.heartbeat(beat)
        assert not result.error, result
        epoch = result.member_epoch
    offsets = {tp: OffsetAndMetadata(5, metadata="five")}
    [committed] = await engine.offsets.commit("group", offsets, member_id="member", member_epoch=epoch)
    assert not committed.error
    await engine.offsets.commit("simple", {tp: OffsetAndMetadata(2)})
    join = ClassicJoin("classic", "", "consumer", (("range", b""),), 600_000, 600_000, requires_known_member_id=False)
    joined = await engine.classic_groups.join(join)
    me = ClassicIdentity("classic", joined.member_id, joined.generation)
    assert not (await engine.classic_groups.sync(ClassicSync(me))).error
    assert not (await engine.classic_groups.heartbeat(me))
    await engine.offsets.commit(
        "classic", {tp: OffsetAndMetadata(3)}, member_id=me.member_id, member_epoch=me.generation
    )
    await streams_group(world)
    world.expected["group"] = {"member": "member", "epoch": epoch, "classic": [me.member_id, me.generation]}
    world.expected["committed"] = {"group": 5, "simple": 2, "classic": 3}


async def streams_group(world: World) -> None:
    """A streams group whose first member has not yet let go of the tasks that the second is to run (KIP-1071)."""
    engine = world.engine(9, group_assignment_interval_ms=0)
    await engine.group_configs.alter("app", set={"streams.initial.rebalance.delay.ms": "0"})
    by_key = InternalTopic("app-by-key", configs=(("cleanup.policy", "delete"),))
    counts = InternalTopic("app-counts", configs=(("cleanup.policy", "compact"),))
    topology = Topology(
        epoch=0,
        subtopologies=(
            Subtopology("0", source_topics=("plain",), repartition_sink_topics=("app-by-key",)),
            Subtopology("1", repartition_source_topics=(by_key,), changelog_topics=(counts,)),
        ),
    )
    one, two = (StreamsMember(engine, name, topology, endpoint=Endpoint(name, 4711)) for name in ("one", "two"))
    for _ in range(4):
        assert await one.beat() is ErrorCode.NONE, one.last
    tp = TopicPartition("plain", 1)
    assert await one.commit(tp, 4) is ErrorCode.NONE
    assert await two.beat() is ErrorCode.NONE, two.last
    owned = one.tasks
    assert await one.beat(keep=owned) is ErrorCode.NONE, one.last
    assert one.last.streams is not None
    tasks = one.last.streams.tasks
    assert tasks is not None
    assert tasks.active < owned.active, "some tasks are to be given up"
    world.expected["streams"] = {member.member_id: member.epoch for member in (one, two)}
    world.expected["streams_tasks"] = [[task.subtopology_id, task.partition] for task in sorted(tasks.active)]


async def transactions(world: World) -> None:
    """One that is committed, and one that is open with batches, with a told offset, and with an offset of a group."""
    engine = world.engine(5)
    await engine.topics.create("told", 1, {"transaction.offsets": "predicted"})
    done = await Transactor(engine, "done").init()
    await done.send("plain", 1, b"committed")
    await done.commit()
    left = await Transactor(engine, "open").init(timeout_ms=600_000)
    await left.send("plain", 1, b"pending " + b"." * 900)
    assert await left.send("told", 0, b"told 0") == 0
    await left.send_offset("simple", "plain", 1, 1)
    world.expected["open"] = ["open", left.producer_id, left.epoch]


async def share_group(world: World) -> None:
    """A queue in which records are done, held, given back and dying, with a dead letter written and one that waits."""
    engine = world.engine(6)
    await engine.topics.create("work", 1)
    await engine.topics.create("letters", 1)
    for number in range(8):
        assert not (await produce(engine, "work", 0, batch([b"job %d" % number]))).error
    letters = "errors.deadletterqueue.topic.name"
    await engine.group_configs.alter("queue", set={"share.auto.offset.reset": "earliest", letters: "letters"})
    holder, other = (ShareMember(engine, name, "work", group_id="queue") for name in ("holder", "other"))
    for member in (holder, other):
        assert not (await member.beat()).error
    [partition] = holder.assignment
    assert [offset for offset, _, _ in await holder.fetch(max_records=5, is_strict=True)] == [0, 1, 2, 3, 4]
    acks = {partition: [ack(0, 3, ACCEPT, REJECT, RELEASE, ACCEPT)]}  # 1 becomes a letter
    assert await holder.acknowledge(acks) == {partition: 0}
    await engine.group_configs.alter("queue", set={letters: "later-letters"})  # which is not there yet
    assert [offset for offset, _, _ in await other.fetch(max_records=2, is_strict=True)] == [2, 5]
    assert await other.acknowledge({partition: [ack(2, 2, REJECT), ack(5, 5, RELEASE)]}) == {partition: 0}
    world.expected["queue"] = {member.member_id: [member.epoch, member.session_epoch] for member in (holder, other)}


async def schemas(world: World) -> None:
    """Subjects of every language with versions, references, choices of their own; some deleted, some for good."""
    registry = Subjects(world.store.catalog, world.clock, SeededRng(7))

    def record(name: str, *fields: dict[str, Any]) -> str:
        return json.dumps({"type": "record", "name": name, "fields": list(fields)})

    unit = Schema("AVRO", record("Unit", {"name": "name", "type": "string"}))
    narrow = Schema("AVRO", record("R", {"name": "a", "type": "int"}))
    wide = Schema("AVRO", record("R", {"name": "a", "type": "int"}, {"name": "b", "type": "int", "default": 0}))
    referring = Schema("AVRO", record("Q", {"name": "unit", "type": "Unit"}), (Reference("Unit", "unit", 1),))
    proto = Schema("PROTOBUF", 'syntax = "proto3";\nmessage P {\n  int32 a = 1;\n}\n')
    await registry.set_config(None, level=Level.FULL)
    await registry.set_config("open-value", level=Level.NONE, normalize=True)
    for subject, schema in (
        ("unit", unit),
        ("plain-value", narrow),
        ("plain-value", wide),
        ("other-value", wide),  # one id under two subjects
        ("quantity", referring),
        ("open-value", Schema("JSON", '{"type": "string"}')),
        ("open-value", proto),
        ("hidden", Schema("AVRO", '"long"')),
        ("gone", Schema("AVRO", '"double"')),
    ):
        await registry.register(subject, schema)
    deleted_id = (await registry.version("gone", 1)).stored.schema_id
    await registry.delete_version("plain-value", 1)
    for subject in ("hidden", "gone"):
        await registry.delete_subject(subject)
    await registry.delete_subject("gone", permanent=True)
    await registry.set_mode("unit", "READONLY")
    world.expected["schemas"] = {
        "live": [registered(version) for version in await registry.schemas()],
        "all": [registered(version) for version in await registry.schemas(deleted=True)],
        "gone": [deleted_id, '"double"'],
    }


def registered(version: Registered) -> list[Any]:
    """A version of a subject as the files have it."""
    schema = version.stored.schema
    references = [[reference.name, reference.subject, reference.version] for reference in schema.references]
    return [version.subject, version.version, version.stored.schema_id, schema.kind, schema.text, references]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.golden.release", description=__doc__)
    parser.add_argument("--again", action="store_true", help="overwrite the files of a release that is not out yet")
    again = parser.parse_args().again
    folder = RELEASES / version("odradek")
    if folder.exists() and not again:
        raise SystemExit(f"{folder} is there: raise the version, or say --again if it is not released yet")
    world = World()
    asyncio.run(write(world))
    folder.mkdir(parents=True, exist_ok=True)
    stored = dump(world.store, world.objects, world.clock.now_ms())
    for name, document in (("store", stored), ("expected", world.expected)):
        (folder / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
    print(folder)


if __name__ == "__main__":
    main()

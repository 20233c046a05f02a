"""Admins: topics come, grow, change and go while others use them; records are deleted."""

from __future__ import annotations

from odradek.engine.catalog.topic_configs import TABLE_FLUSH
from odradek.errors import ErrorCode, KafkaError
from odradek.format.item_keys import partition_pk
from odradek.model.log import DeleteRecordsPartition
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId

from tests.simulation.actors.common import look_up, pause
from tests.simulation.world import Process, World

_PARTITIONS_MAX = 4


class TopicAdmin:
    """Creates, grows, alters and deletes topics of its names."""

    def __init__(self, world: World, names: list[str], turns: int, pace_s: float) -> None:
        self._world = world
        self._names = names
        self._turns = turns
        self._pace_s = pace_s

    async def program(self, process: Process) -> None:
        while self._turns > 0:
            self._turns -= 1
            name = self._world.rng.choice(self._names)
            try:
                await self._act(process, name)
            except KafkaError as error:
                self._world.note(f"{process.name} admin of {name}: {error.code.name}")
            await pause(self._world, self._pace_s)

    async def _act(self, process: Process, name: str) -> None:
        rng, engine = self._world.rng, process.engine
        draw = rng.random()
        topic = await look_up(engine, name)
        if topic is None:
            await engine.topics.create(name, rng.choice((1, 2)))
        elif draw < 0.25:
            await engine.topics.delete(name)
        elif draw < 0.5 and topic.partition_count < _PARTITIONS_MAX:
            await engine.topics.create_partitions(name, topic.partition_count + 1)
        elif draw < 0.7:
            await engine.topics.alter_configs(name, set={"max.message.bytes": str(rng.choice((1000, 100_000)))})


class TopicGrower:
    """Adds a partition to each of its topics, once."""

    def __init__(self, world: World, names: list[str], pace_s: float) -> None:
        self._world = world
        self._names = names
        self._pace_s = pace_s

    async def program(self, process: Process) -> None:
        while self._names:
            await pause(self._world, self._pace_s)
            topic = await look_up(process.engine, self._names[-1])
            if topic is None:
                continue
            try:
                await process.engine.topics.create_partitions(topic.name, topic.partition_count + 1)
            except KafkaError as error:
                if error.code.is_retryable:
                    continue
            self._names.pop()


class TableFlusher:
    """Flushes tables, as `odradek tables flush` does, until told to stop."""

    def __init__(self, world: World, names: list[str], pace_s: float) -> None:
        self._world = world
        self._names = names
        self._pace_s = pace_s

    async def program(self, process: Process) -> None:
        world = self._world
        while not world.stop.is_set():
            name = world.rng.choice(self._names)
            try:
                await process.engine.topics.alter_configs(name, set={TABLE_FLUSH: str(process.clock.now_ms())})
                world.work["table_flushes"] += 1
            except KafkaError as error:
                world.note(f"{process.name} flush of {name}: {error.code.name}")
            await pause(world, self._pace_s)


class RecordDeleter:
    """Asks for records to be deleted, up to an offset or up to the high watermark."""

    def __init__(self, world: World, names: list[str], turns: int, pace_s: float, all_: float = 0.2) -> None:
        self._world = world
        self._names = names
        self._turns = turns
        self._pace_s = pace_s
        self._all = all_  # of the requests: up to the high watermark

    async def program(self, process: Process) -> None:
        while self._turns > 0:
            self._turns -= 1
            topic = await look_up(process.engine, self._world.rng.choice(self._names))
            if topic is not None:
                await self._delete(process, topic)
            await pause(self._world, self._pace_s)

    async def _delete(self, process: Process, topic: Topic) -> None:
        world = self._world
        partition = PartitionId(topic.topic_id, world.rng.randrange(topic.partition_count))
        head = world.ledger.heads.get(partition_pk(partition))
        if head is None:
            return
        end: int = head["no"]  # type: ignore[assignment]
        # Of a transaction that is being applied, and not answered yet, readers may see nothing (store/visibility.py).
        is_seen = world.visibility.is_whole("log", partition_pk(partition.head_id), consistent=True)
        requested = -1 if world.rng.random() < self._all else world.rng.randrange(end + 3)
        deletions = world.history.deletions_asked
        deletions[partition] = max(deletions.get(partition, 0), end if requested < 0 else requested)
        request, moves = DeleteRecordsPartition(topic.name, partition.partition, requested), len(world.ledger.starts)
        pk = partition_pk(partition)
        try:
            [result] = await process.engine.delete_records([request])
        finally:  # also of a process that dies once it has deleted
            head = world.ledger.heads.get(pk, head)
            if requested < 0:
                # The high watermark of some moment of the call; a repetition stays with the one it saw first.
                deletions[partition] = max(deletions[partition], head["no"])  # type: ignore[type-var,assignment]
        moved = [start.start for start in world.ledger.starts[moves:] if (start.pk, start.caller) == (pk, process.name)]
        if len(set(moved)) > 1:
            world.history.problem(f"one DeleteRecords to {requested} of {partition} raised the log start to {moved}")
        # -1: the high watermark, all that was there when it was asked
        least = requested if requested >= 0 else end if is_seen else 0
        if result.error is ErrorCode.NONE and not least <= result.low_watermark <= head["no"]:  # type: ignore
            world.history.problem(f"DeleteRecords to {requested} of {partition} answered {result.low_watermark}")
        if result.error is ErrorCode.NONE and head["ls"] < result.low_watermark:  # type: ignore[operator]
            world.history.problem(f"DeleteRecords of {partition} answered {result.low_watermark} and did not do it")

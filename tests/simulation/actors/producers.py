"""Producers: idempotent ones as Kafka's clients behave, plain ones, and conditional ones."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from odradek.engine.engine import Engine
from odradek.errors import ErrorCode, KafkaError
from odradek.format.item_keys import partition_pk
from odradek.model.log import FetchPartition, ProducePartition, ProduceResult
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId, partitions_per_head

from tests.simulation.actors.common import Payload, encode, find_topic, look_up, pause
from tests.simulation.books.history import Send
from tests.simulation.world import Process, World
from tests.support.kafka.poison import rebuilt

_ATTEMPTS = 60
_BUMPS = 0.5  # of the sessions: they end early, and the next one goes on with their producer id
_GONE_ATTEMPTS = 8  # a topic that was deleted stays so
_MISSING_PREDECESSOR = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
_OF_THE_CURRENT_EPOCH = _MISSING_PREDECESSOR | {ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}
_GONE = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


@dataclass
class _Session:
    """One producer id: its sequences, and up to where each partition's are acknowledged."""

    name: str
    producer_id: int
    epoch: int
    topic: Topic
    next_sequence: dict[int, int] = field(default_factory=dict)
    acked_until: dict[int, int] = field(default_factory=dict)
    broken: bool = False  # a batch was given up: no later one can follow it
    acked: list[_Batch] = field(default_factory=list)
    ends_after: int = 0  # batches; then the producer goes on under its next epoch. 0: it does not


@dataclass(frozen=True)
class _Batch:
    """The batches of one request for one partition: one, or two that follow each other (`in_parts`).

    Between the two of an idempotent producer others may write: `follows` records begin at the offset that is told.
    """

    request: ProducePartition
    sends: list[Send]
    base_sequence: int
    follows: int
    in_parts: bool


@dataclass(frozen=True)
class Habits:
    """How a producer sends.

    Attributes:
        pace_s: about how long it rests between two requests.
        keys: how many different keys; 0: none. With keys some records are tombstones.
        together: how many of the requests have batches for two partitions.
        everywhere: how many of the requests have batches for all partitions.
        in_parts, overtaken, tombstones, epoch_batches: see Scenario.
    """

    pace_s: float = 0.05
    keys: int = 0
    together: float = 0.2
    everywhere: float = 0.0
    in_parts: float = 0.0
    overtaken: float = 0.0
    tombstones: float = 0.15
    epoch_batches: tuple[int, int] = (4, 12)


class Producer:
    """Sends records to the partitions of a topic; up to five requests in flight."""

    def __init__(
        self, world: World, name: str, topic: str, count: int, *, idempotent: bool, habits: Habits = Habits()
    ) -> None:
        self._world = world
        self._name = name
        self._topic = topic
        self._left = count
        self._idempotent = idempotent
        self._habits = habits
        self._pace_s = habits.pace_s
        self._sent = 0
        self._sessions = 0
        self._late: asyncio.Future[None] | None = None
        self._last: _Session | None = None  # whose epoch the next one bumps, as clients do by themselves

    async def program(self, process: Process) -> None:
        while self._left > 0:
            topic = await look_up(process.engine, self._topic)
            if topic is None:
                self._left -= 1  # deleted, or not there yet
                await pause(self._world, max(self._pace_s, 1.0))
            else:
                await self._produce(process, topic)

    async def _produce(self, process: Process, topic: Topic) -> None:
        engine, rng = process.engine, self._world.rng
        session = await self._begin(engine, topic)
        pending: set[asyncio.Task[None]] = set()
        batches_sent = 0
        while self._left > 0 and not session.broken and not 0 < session.ends_after <= batches_sent:
            batches_sent += 1
            numbers = [rng.randrange(topic.partition_count)]
            if topic.partition_count > 1 and rng.random() < self._habits.together:
                numbers = [0, 1]
            if partitions_per_head(topic.topic_id) > 1 and topic.partition_count > 1 and rng.random() < 0.5:
                numbers = sorted(rng.sample(range(topic.partition_count), rng.randrange(2, topic.partition_count + 1)))
            if self._happens(self._habits.everywhere):
                numbers = list(range(topic.partition_count))
            batches = [self._batch(process, session, number) for number in numbers]
            pending.add(asyncio.ensure_future(self._send(engine, session, batches)))
            # Five in flight, like a client's connection.
            while len(pending) >= (5 if self._idempotent else 2):
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            await pause(self._world, self._pace_s)
        if pending:
            done, _ = await asyncio.wait(pending)
            for task in done:
                task.result()
        self._last = session if self._idempotent else None

    async def _begin(self, engine: Engine, topic: Topic) -> _Session:
        self._sessions += 1
        rng = self._world.rng
        name = f"{self._name}/{self._sessions}" if self._idempotent else ""
        ends_after = rng.randrange(*self._habits.epoch_batches) if rng.random() < _BUMPS else 0
        last, self._last = self._last, None
        if last is not None and last.topic == topic and rng.random() < _BUMPS:
            if last.acked and rng.random() < 0.5:
                self._late = asyncio.ensure_future(self._send_late(engine, rng.choice(last.acked), last))
            return _Session(name, last.producer_id, last.epoch + 1, topic, ends_after=ends_after)
        while self._idempotent:
            try:
                producer_id, epoch = await engine.producer_ids.init()
            except KafkaError:
                await engine.clock.sleep(0.1)
            else:
                return _Session(name, producer_id, epoch, topic, ends_after=ends_after)
        return _Session(name, -1, -1, topic)

    def _batch(self, process: Process, session: _Session, number: int) -> _Batch:
        world = self._world
        payloads = [self._payload() for _ in range(world.rng.choice((1, 1, 1, 2, 3)))]
        self._left -= len(payloads)
        base = session.next_sequence.get(number, 0)
        session.next_sequence[number] = base + len(payloads)
        partition = PartitionId(session.topic.topic_id, number)
        sends = [
            world.history.sent(payload.identity, partition, session.name, base + i)
            for i, payload in enumerate(payloads)
        ]
        in_parts = len(payloads) > 1 and self._happens(self._habits.in_parts)
        parts = [payloads[:1], payloads[1:]] if in_parts else [payloads]
        records, sequence = b"", base
        for part in parts:
            stamp = session.producer_id, session.epoch, sequence if self._idempotent else -1
            encoded = encode(part, stamp, process.clock.now_ms())
            # Some producers write no largest timestamp into a batch's header: the log takes it from the records.
            records += rebuilt(encoded, max_ms=-1) if self._sent % 4 == 0 else encoded
            sequence += len(part)
        request = ProducePartition(self._topic, number, records, topic_id=session.topic.topic_id)
        follows = 1 if in_parts and self._idempotent else len(payloads)
        return _Batch(request, sends, base, follows, in_parts)

    def _happens(self, likely: float) -> bool:
        """Draw nothing where it never happens: the runs of other profiles stay as they are."""
        return likely > 0 and self._world.rng.random() < likely

    def _payload(self) -> Payload:
        self._sent += 1
        rng = self._world.rng
        name = f"{self._name}:{self._sent}".encode()
        if self._world.is_typed:
            name = b'{"id": "%b"}' % name
        if not self._habits.keys:
            return Payload(name, name)
        return Payload(name, f"k{rng.randrange(self._habits.keys)}".encode(), rng.random() < self._habits.tombstones)

    async def _send(self, engine: Engine, session: _Session, batches: list[_Batch]) -> None:
        rng = self._world.rng
        deleted_count = 0
        if self._happens(self._habits.overtaken):
            await engine.clock.sleep(rng.random() * 4 * self._pace_s)
        for attempt in range(_ATTEMPTS):
            ready = {b.request.partition: session.acked_until.get(b.request.partition, 0) for b in batches}
            repeated = self._repeated_with(session, batches)
            results = await engine.produce([batch.request for batch in (*batches, *repeated)])
            for batch, result in zip(repeated, results[len(batches) :], strict=True):
                self._same_offset(batch, result)
            results = results[: len(batches)]
            if self._idempotent and rng.random() < 0.05:
                continue  # the answer was lost on its way
            again: list[_Batch] = []
            for batch, result in zip(batches, results, strict=True):
                if not self._take(session, batch, result, ready[result.partition]):
                    again.append(batch)
                elif self._idempotent and result.error is ErrorCode.NONE and rng.random() < 0.08:
                    await self._repeat(engine, batch, result, session)
                deleted_count += result.error in _GONE
            if not again or deleted_count >= _GONE_ATTEMPTS:
                break
            batches = again
            await engine.clock.sleep(0.05 * min(attempt + 1, 20))
        if any(send.outcome != "acked" for batch in batches for send in batch.sends):
            session.broken = self._idempotent

    def _take(self, session: _Session, batch: _Batch, result: ProduceResult, ready: int) -> bool:
        """Note an answer; False where the batch is to be sent again."""
        code = result.error
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            for i, send in enumerate(batch.sends):
                send.outcome = "acked"
                if code is ErrorCode.NONE and i < batch.follows:
                    if send.offset not in (None, result.base_offset + i):
                        self._world.history.problem(f"{send.identity!r} was acknowledged at two offsets")
                    send.offset = result.base_offset + i
            number = result.partition
            session.acked.append(batch)
            if session.acked_until.get(number, 0) == batch.base_sequence:
                session.acked_until[number] = batch.base_sequence + len(batch.sends)
            return True
        if code in _MISSING_PREDECESSOR:
            # Said of a batch whose predecessors were all acknowledged before it was sent, it is wrong.
            # But a producer's row goes with its deleted topic, and may be read after the head that spoke of it.
            is_gone = partition_pk(batch.sends[0].partition) in self._world.ledger.gone
            if self._idempotent and ready == batch.base_sequence and not is_gone:
                self._world.history.problem(f"{batch.sends[0].identity!r} refused with {code.name}: nothing is missing")
            return False
        if code is ErrorCode.INVALID_RECORD:  # of a valid batch: the store rejected what the engine made of it
            self._world.history.problem(f"{batch.sends[0].identity!r} refused for good: {result.message}")
        if not self._idempotent and not code.has_no_side_effects:
            return True  # a plain producer that does not want duplicates leaves it there
        if code.is_retryable:
            return False
        for send in batch.sends:
            send.outcome = "unknown" if self._idempotent else "failed"
        session.broken = self._idempotent
        return True

    def _repeated_with(self, session: _Session, batches: list[_Batch]) -> list[_Batch]:
        """A batch that is in the log already, in one request with others to partitions that share its head."""
        rng = self._world.rng
        if partitions_per_head(session.topic.topic_id) == 1 or not (self._idempotent and session.acked):
            return []
        again = rng.choice(session.acked)
        others = {batch.request.partition for batch in batches}
        return [again] if again.request.partition not in others and rng.random() < 0.2 else []

    def _same_offset(self, batch: _Batch, result: ProduceResult) -> None:
        if result.error is ErrorCode.NONE and batch.sends[0].offset not in (None, result.base_offset):
            self._world.history.problem(
                f"duplicate of {batch.sends[0].identity!r} answered with {result.base_offset}, "
                f"not {batch.sends[0].offset}"
            )

    async def _repeat(self, engine: Engine, batch: _Batch, first: ProduceResult, session: _Session) -> None:
        """Send an acknowledged batch once more, as after an answer that was lost: the offset must be the same."""
        if len(batch.sends) > 1 and not batch.in_parts and self._world.rng.random() < 0.3:
            await self._repeat_in_part(engine, batch, session)
            return
        [result] = await engine.produce([batch.request])
        if result.error is ErrorCode.NONE and result.base_offset != first.base_offset:
            self._world.history.problem(
                f"duplicate of {batch.sends[0].identity!r} answered with {result.base_offset}, not {first.base_offset}"
            )

    async def _repeat_in_part(self, engine: Engine, batch: _Batch, session: _Session) -> None:
        """Send the first record of an acknowledged batch by itself: that is another batch, and no duplicate."""
        first = batch.sends[0].identity
        records = encode([Payload(first, first)], (session.producer_id, session.epoch, batch.base_sequence))
        [result] = await engine.produce([replace(batch.request, records=records)])
        if result.error is ErrorCode.NONE:
            self._world.history.problem(f"a part of the batch of {first!r} was taken for all of it")

    async def _send_late(self, engine: Engine, batch: _Batch, session: _Session) -> None:
        """Send an acknowledged batch of the epoch before, which was on its way for long: it must not enter again."""
        await engine.clock.sleep(self._world.rng.random() * 10 * self._pace_s)
        newest = self._world.ledger.newest_epoch(batch.sends[0].partition, session.producer_id)
        [result] = await engine.produce([batch.request])
        if newest > session.epoch and result.error in _OF_THE_CURRENT_EPOCH:
            name = batch.sends[0].identity
            self._world.history.problem(f"{name!r} of epoch {session.epoch}, before {newest}, got {result.error.name}")
        if result.error is ErrorCode.NONE and batch.sends[0].offset not in (None, result.base_offset):
            self._world.history.problem(f"late {batch.sends[0].identity!r} went to {result.base_offset}")


class ConditionalProducer:
    """Appends only where it expects to: a compare-and-set on the log's end."""

    def __init__(self, world: World, name: str, topic: str, count: int, *, pace_s: float = 0.2) -> None:
        self._world = world
        self._name = name
        self._topic = topic
        self._left = count
        self._pace_s = pace_s

    async def program(self, process: Process) -> None:
        engine, world = process.engine, self._world
        topic = await find_topic(engine, self._topic)
        expected = [0] * topic.partition_count
        while self._left > 0:
            self._left -= 1
            number = world.rng.randrange(topic.partition_count)
            name = f"{self._name}:{self._left}".encode()
            send = world.history.sent(name, PartitionId(topic.topic_id, number), "", 0)
            records = encode([Payload(name, name)], timestamp_ms=process.clock.now_ms())
            request = ProducePartition(self._topic, number, records, expected_offset=expected[number])
            [result] = await engine.produce([request])
            if result.error is ErrorCode.NONE:
                send.outcome, send.offset = "acked", result.base_offset
                if result.base_offset != expected[number]:
                    world.history.problem(f"{name!r} expected {expected[number]} and went to {result.base_offset}")
            elif result.error.has_no_side_effects:
                send.outcome = "failed"
            [fetched] = await engine.fetch([FetchPartition(self._topic, number, 2**60)])
            if fetched.high_watermark >= 0:
                expected[number] = fetched.high_watermark
            await pause(world, self._pace_s)

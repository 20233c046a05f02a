"""Transactional read-process-write: an input record becomes an output record, the offset is in the same transaction.

Several processes share a transactional id: whoever initialises it last fences the others, which go on all the same
until they are told. The committed offset is read after that: nobody begins where a fenced one may still get further.
"""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any

from odradek.engine.engine import Engine
from odradek.errors import ErrorCode, FormatError, KafkaError
from odradek.model.log import FetchPartition, ProducePartition
from odradek.model.record import Record
from odradek.model.topic import Topic
from odradek.model.topic_partition import OffsetAndMetadata, PartitionId, TopicPartition

from tests.simulation.actors.common import Payload, encode, find_topic, pause, read_from
from tests.simulation.books.history import Send, Transaction, identity
from tests.simulation.world import Process, World

TIMEOUT_MS = 30_000
_END_ATTEMPTS = 40
_PRODUCE_ATTEMPTS = 6
_POLL_BYTES_MAX = 250
_IDLE_S = 200.0  # longer than TIMEOUT_MS, with clocks that are a minute apart
_GAPS = 0.03  # of the batches: the one before is lost on its way, and the client does not care
_REPEATS = 0.1  # of the transactions of the first protocol: a batch of an earlier one comes again
_INTRUSIONS = 0.05  # of the last turns: somebody writes under the producer's id and a far later epoch
_LAST_TURNS = 6
_LATER_EPOCHS = 1_000


@dataclass
class Session:
    """The state of an initialised producer: its id and epoch, and the next sequence of each partition."""

    producer_id: int
    epoch: int
    sequences: dict[PartitionId, int] = field(default_factory=dict)
    sent: list[ProducePartition] = field(default_factory=list)  # in earlier transactions of this epoch

    def moved(self, producer_id: int, epoch: int) -> None:
        """A transaction ended: a new epoch begins its sequences anew."""
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self.producer_id, self.epoch = producer_id, epoch
            self.sequences.clear()
            self.sent.clear()


class Fenced(Exception):
    """Initialise again: another instance has the id, the transaction timed out, or a batch was refused."""


class Transactor:
    """Reads one topic and writes another.

    Args:
        transactional_id: shared with other actors; each of them is an instance of one application.
        group_id: whose offsets are committed.
        bump: whether each end bumps the epoch (KIP-890), or sequences go on.
        mischief: how many times as often something is repeated, lost, aborted or too late.
    """

    def __init__(
        self,
        world: World,
        name: str,
        transactional_id: str,
        group_id: str,
        topics: tuple[str, str],
        *,
        turns: int,
        pace_s: float,
        bump: bool,
        mischief: int = 1,
    ) -> None:
        self._world = world
        self._name = name
        self.transactional_id = transactional_id
        self._group_id = group_id
        self.topics = topics
        self._turns = turns
        self._pace_s = pace_s
        self._bump = bump
        self._mischief = mischief
        self._transactions = 0
        self._intrusions = 0
        self.committer: dict[str, Any] = {}  # as which member of the group it commits; nobody: a simple consumer
        self.metadata = ""  # of its commits

    async def program(self, process: Process) -> None:
        source = await find_topic(process.engine, self.topics[0])
        sink = await find_topic(process.engine, self.topics[1])
        while self._turns > 0:
            self._turns -= 1
            try:
                made = await process.engine.transactions.init(self.transactional_id, TIMEOUT_MS)
            except KafkaError:
                await pause(self._world, 1.0)
                continue
            session = Session(*made)
            try:
                positions = await self._positions(process.engine, source)
                while self._turns > 0:
                    self._turns -= 1
                    await self._transact(process, session, source, sink, positions)
                    await pause(self._world, self._pace_s)
            except (Fenced, KafkaError):
                await pause(self._world, self._pace_s)

    async def _positions(self, engine: Engine, source: Topic) -> MutableMapping[int, int]:
        names = [TopicPartition(source.name, number) for number in range(source.partition_count)]
        fetched = await engine.offsets.fetch(self._group_id, names)
        return {
            result.partition.partition: 0 if result.committed is None else result.committed.offset for result in fetched
        }

    # --- one transaction ------------------------------------------------------------------------------------------

    async def _transact(
        self, process: Process, session: Session, source: Topic, sink: Topic, positions: MutableMapping[int, int]
    ) -> None:
        number = self._world.rng.randrange(source.partition_count)
        await self.transact(process, session, source, sink, number, positions)

    async def transact(
        self,
        process: Process,
        session: Session,
        source: Topic,
        sink: Topic,
        number: int,
        positions: MutableMapping[int, int],
    ) -> None:
        """Copy some records of one partition. Raises Fenced, KafkaError: the outcome is noted as far as it is known."""
        world, engine = self._world, process.engine
        records = await self._read(engine, source, number, positions)
        if not records:
            return
        self._transactions += 1
        one = Transaction(f"{process.name}/{self._transactions}", self._group_id, began_s=_now_s())
        partition = PartitionId(source.topic_id, number)
        one.read = [(partition, record.offset) for record in records]
        world.history.transactions.append(one)
        sends: list[Send] = []
        is_good = was_taken = await self._produce(process, session, sink, records, one, sends)
        begun_s = _now_s()
        idles = self._mischief > 1 and world.rng.random() < 0.05
        idles_at_its_end = idles and world.rng.random() < 0.5
        if idles and not idles_at_its_end:
            await asyncio.sleep(_IDLE_S)
        end = records[-1].offset + 1
        if self._turns < _LAST_TURNS and world.rng.random() < _INTRUSIONS:
            await self._intrude(process, session, sink, one)
        if is_good:
            one.commits = (partition, end)
            if self._mischief > 1 and len(records) > 1:  # then a repetition of an earlier one may come late
                await self._commit_offset(engine, session, TopicPartition(source.name, number), end - 1)
            is_good = await self._commit_offset(engine, session, TopicPartition(source.name, number), end)
        if idles_at_its_end:
            await asyncio.sleep(_IDLE_S)
        commit = is_good and world.rng.random() < 1 - 0.15 * min(3, self._mischief)
        is_too_late = _now_s() > begun_s + _IDLE_S - 1.0
        if not commit:
            one.commits = None
        await self._end(engine, session, one, commit=commit)
        for send in sends:
            send.outcome = {"committed": "acked", "aborted": "failed"}.get(one.outcome, "unknown")
        if commit and is_too_late and one.outcome == "committed" and not world.ledger.shares.jumped:
            world.history.problem(f"{one.name} was committed long after it had timed out")
        if one.outcome == "committed":
            positions[number] = end
        if not was_taken and not self._bump:
            raise Fenced  # sequences were used up that the service does not know: clients take a new epoch

    async def _read(
        self, engine: Engine, source: Topic, number: int, positions: MutableMapping[int, int]
    ) -> list[Record]:
        request = FetchPartition(source.name, number, positions[number], _POLL_BYTES_MAX, topic_id=source.topic_id)
        [result] = await engine.fetch([request])
        if result.error is ErrorCode.OFFSET_OUT_OF_RANGE and result.log_start_offset > positions[number]:
            positions[number] = result.log_start_offset
        try:
            return read_from(positions[number], result.records)[0]
        except FormatError as error:
            self._world.history.problem(f"{self._name} read damaged bytes of {source.name}-{number}: {error}")
            return []

    async def _produce(
        self,
        process: Process,
        session: Session,
        sink: Topic,
        records: list[Record],
        one: Transaction,
        sends: list[Send],
    ) -> bool:
        """Write one output a record, spread over the sink's partitions; False where not all was taken."""
        world = self._world
        parts: dict[int, list[Payload]] = {}
        if session.sent and not self._bump and world.rng.random() < _REPEATS * self._mischief:
            await self._send(process.engine, world.rng.choice(session.sent))
        for record in records:
            payload = Payload(b"%s|%s" % (identity(record), one.name.encode()), identity(record))
            parts.setdefault(world.rng.randrange(sink.partition_count), []).append(payload)
        for number, payloads in parts.items():
            partition = PartitionId(sink.topic_id, number)
            is_told = "transaction.offsets" in sink.configs  # then a later batch's offset depends on the first one
            for batch in (payloads[:1], payloads[1:]) if is_told else (payloads,):
                if batch and not await self._send_batch(process, session, sink, partition, batch, one, sends):
                    return False
        return True

    async def _send_batch(
        self,
        process: Process,
        session: Session,
        sink: Topic,
        partition: PartitionId,
        payloads: list[Payload],
        one: Transaction,
        sends: list[Send],
    ) -> bool:
        """Write a batch, and note the offsets that the answer tells; False where it was not taken."""
        base = session.sequences.get(partition, 0)
        if self._world.rng.random() < _GAPS * self._mischief:
            base += 1
            one.has_gap = True
        session.sequences[partition] = base + len(payloads)
        sent = [self._world.history.sent(payload.identity, partition, "", 0) for payload in payloads]
        sends += sent
        one.wrote += [(partition, payload.identity) for payload in payloads]
        producer = (session.producer_id, session.epoch, base)
        batch = encode(payloads, producer, process.clock.now_ms(), transactional=True)
        request = ProducePartition(sink.name, partition.partition, batch)
        base_offset = await self._send(process.engine, request)
        if base_offset is None:
            return False
        session.sent.append(request)
        if base_offset >= 0:
            for i, send in enumerate(sent):
                send.offset = base_offset + i
            self._world.work["offsets_told"] += len(sent)
        return True

    async def _intrude(self, process: Process, session: Session, sink: Topic, one: Transaction) -> None:
        """Write under the producer's id and a later epoch, outside of any transaction: commits there must end."""
        number, name = self._world.rng.randrange(sink.partition_count), b"intruder|%s" % one.name.encode()
        send = self._world.history.sent(name, PartitionId(sink.topic_id, number), "", 0)
        self._intrusions += 1  # under an epoch of its own: a second one is no duplicate of the first
        producer = session.producer_id, session.epoch + _LATER_EPOCHS + self._intrusions, 0
        batch = encode([Payload(name, name)], producer, process.clock.now_ms())
        [result] = await process.engine.produce([ProducePartition(sink.name, number, batch)])
        if result.error is ErrorCode.NONE:
            send.outcome = "acked"

    async def _send(self, engine: Engine, request: ProducePartition) -> int | None:
        """The base offset of the answer; None where the batch was not taken."""
        for _ in range(_PRODUCE_ATTEMPTS):
            [result] = await engine.produce([request], transactional_id=self.transactional_id)
            if result.error is ErrorCode.NONE:
                return result.base_offset
            _raise_where_fenced(result.error)
            if not result.error.is_retryable:
                return None
            await engine.clock.sleep(0.1)
        return None

    async def _commit_offset(self, engine: Engine, session: Session, partition: TopicPartition, offset: int) -> bool:
        for _ in range(_PRODUCE_ATTEMPTS):
            try:
                [result] = await engine.transactions.commit_offsets(
                    self.transactional_id,
                    session.producer_id,
                    session.epoch,
                    self._group_id,
                    {partition: OffsetAndMetadata(offset, metadata=self.metadata)},
                    announces=True,
                    **self.committer,
                )
                code = result.error
            except KafkaError as error:
                code = error.code
            if code is ErrorCode.NONE:
                return True
            _raise_where_fenced(code)
            if not code.is_retryable:
                return False
            await engine.clock.sleep(0.1)
        return False

    async def _end(self, engine: Engine, session: Session, one: Transaction, *, commit: bool) -> None:
        """End the transaction, however often it takes to be told."""
        for _ in range(_END_ATTEMPTS):
            try:
                made = await engine.transactions.end(
                    self.transactional_id, session.producer_id, session.epoch, commit=commit, bump=self._bump
                )
            except KafkaError as error:
                if error.code is ErrorCode.TRANSACTION_ABORTABLE:
                    # Of one that is over by its time maintenance removes what was pending, also while it ends.
                    is_timely = _now_s() < one.began_s + TIMEOUT_MS / 1000
                    if "a batch is missing" in error.message and is_timely and not one.has_gap:
                        self._world.history.problem(f"no batch of {one.name} is missing: {error.message}")
                    one.outcome = "aborted"
                    raise Fenced from None  # the next epoch is not known: initialise again
                if not error.code.is_retryable:
                    raise Fenced from None  # it may have been committed by an attempt before
                await engine.clock.sleep(0.2)
            else:
                one.outcome = "committed" if commit else "aborted"
                if commit and one.has_gap:
                    self._world.history.problem(f"{one.name} was committed without a batch that was lost")
                session.moved(*made)
                return
        raise Fenced


def _raise_where_fenced(code: ErrorCode) -> None:
    if code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING):
        raise Fenced


def _now_s() -> float:
    return asyncio.get_running_loop().time()

"""A transactional producer in a few words, over an engine: sequences are counted, results are checked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from odradek.engine.engine import Engine
from odradek.errors import KafkaError
from odradek.format.record_batch import RecordBatchBuilder
from odradek.model.group import OffsetCommitResult
from odradek.model.log import ProducePartition, ProduceResult
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition

from tests.support.engine import read_all

R = TypeVar("R")

TIMEOUT_MS = 60_000


def transactional_batch(values: list[bytes], producer_id: int, epoch: int, sequence: int) -> bytes:
    """A record batch as a transactional producer writes it."""
    builder = RecordBatchBuilder()
    for i, value in enumerate(values):
        builder.append(1_700_000_000_000 + i, None, value)
    return builder.build(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, is_transactional=True)


async def patiently(call: Callable[[], Awaitable[R]]) -> R:
    """Call, and again while the error may go away: what every client does."""
    for _ in range(3):
        try:
            return await call()
        except KafkaError as error:
            if not error.is_retryable:
                raise
    return await call()


@dataclass
class Transactor:
    """A producer with a transactional id. `bumps`: it speaks the second protocol (KIP-890)."""

    engine: Engine
    transactional_id: str = "tx"
    bumps: bool = True
    producer_id: int = -1
    epoch: int = -1
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)

    async def init(self, *, timeout_ms: int = TIMEOUT_MS, keep: bool = False) -> Transactor:
        kept = {"producer_id": self.producer_id, "producer_epoch": self.epoch} if keep else {}
        self._take(await self.engine.transactions.init(self.transactional_id, timeout_ms, **kept))
        return self

    def _take(self, producer_id_and_epoch: tuple[int, int]) -> None:
        if producer_id_and_epoch != (self.producer_id, self.epoch):
            self.sequences.clear()
        self.producer_id, self.epoch = producer_id_and_epoch

    async def announce(self, topic: str, partition: int) -> None:
        """AddPartitionsToTxn."""
        tp = TopicPartition(topic, partition)
        transactions = self.engine.transactions
        errors = await patiently(
            lambda: transactions.add_partitions(self.transactional_id, self.producer_id, self.epoch, [tp])
        )
        assert errors == {tp: None}

    def request(self, topic: str, partition: int, *values: bytes) -> ProducePartition:
        """The next batch for a partition; its sequences are used up."""
        sequence = self.sequences.get((topic, partition), 0)
        self.sequences[topic, partition] = sequence + len(values)
        return ProducePartition(
            topic, partition, transactional_batch(list(values), self.producer_id, self.epoch, sequence)
        )

    async def produce(self, *requests: ProducePartition) -> list[ProduceResult]:
        return await self.engine.produce(requests, transactional_id=self.transactional_id, announces=self.bumps)

    async def send(self, topic: str, partition: int, *values: bytes) -> int:
        """Write a batch into the transaction; the offset that Produce answers. Raises KafkaError."""
        if not self.bumps:
            await self.announce(topic, partition)
        request = self.request(topic, partition, *values)

        async def attempt() -> ProduceResult:
            [result] = await self.produce(request)
            if result.error:
                raise KafkaError(result.error, result.message or "")
            return result

        return (await patiently(attempt)).base_offset

    async def send_offset(self, group_id: str, topic: str, partition: int, offset: int, **member: Any) -> None:
        transactions, producer = self.engine.transactions, (self.transactional_id, self.producer_id, self.epoch)
        offsets = {TopicPartition(topic, partition): OffsetAndMetadata(offset)}
        if not self.bumps:
            await patiently(lambda: transactions.add_offsets(*producer, group_id))

        async def attempt() -> OffsetCommitResult:
            [result] = await transactions.commit_offsets(*producer, group_id, offsets, announces=self.bumps, **member)
            return result

        result = await patiently(attempt)
        assert not result.error, result.error.name

    async def end(self, *, commit: bool) -> None:
        end = self.engine.transactions.end
        self._take(await end(self.transactional_id, self.producer_id, self.epoch, commit=commit, bump=self.bumps))

    async def commit(self) -> None:
        await self.end(commit=True)

    async def abort(self) -> None:
        await self.end(commit=False)


async def values(engine: Engine, topic: str, partition: int = 0) -> list[bytes | None]:
    """Return the values that a consumer reads of a partition."""
    return [record.value for record in await read_all(engine, topic, partition)]


async def committed(engine: Engine, group_id: str, topic: str, partition: int = 0) -> int | None:
    """The committed offset, or None."""
    [result] = await engine.offsets.fetch(group_id, [TopicPartition(topic, partition)])
    return None if result.committed is None else result.committed.offset

"""Java's idempotent producer: five requests in flight, and an epoch that it bumps by itself.

After apache/kafka, clients/src/main/java/org/apache/kafka/clients/producer/internals:

    Sender.sendProducerData, completeBatch, canRetry, failBatch      what an answer does
    TransactionManager.canRetry, requestEpochBumpForPartition,
        bumpIdempotentProducerEpoch, handleFailedBatch               sequences and epochs
    TxnPartitionEntry.startSequencesAtBeginning                      the rewriting of what is in flight
    RecordAccumulator.shouldStopDrainBatchesForPartition,
        drainBatchesForOneNode, insertInSequenceOrder, reenqueue     the queue of a partition
    ProducerBatch.resetProducerState, sequenceHasBeenReset

A batch object keeps the state that it will be sent with next: a bump rewrites it also while the bytes of the old epoch
are in flight. Their answer then counts for the rewritten batch; where it is INVALID_PRODUCER_EPOCH the batch fails.
Unresolved sequences (batches that expire) do not occur: delivery has no time limit here.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from odradek.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition

from tests.simulation.stock.cluster import StockCluster
from tests.simulation.stock.producer import Load, Outcome, StockProducer, StockRecord, encoded

_IN_FLIGHT_MAX = 5  # max.in.flight.requests.per.connection
_BACKOFF_S = 0.1
_BACKOFF_MAX_S = 1.0
_NONE = -1
_INVALID_METADATA = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
    }
)
RETRIABLE = _INVALID_METADATA | {
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
}
"""Of the errors that Odradek answers, subclasses of org.apache.kafka.common.errors.RetriableException."""


@dataclass(eq=False)
class _Batch:
    place: TopicPartition
    records: list[StockRecord]
    producer: tuple[int, int] = (_NONE, _NONE)
    sequence: int = _NONE
    reopened: bool = False  # rewritten since it was last sent
    attempts: int = 0
    attempted_s: float = 0.0

    @property
    def last_sequence(self) -> int:
        return self.sequence + len(self.records) - 1

    @property
    def order(self) -> tuple[int, int, int]:
        return (*self.producer, self.sequence)


@dataclass
class _Entry:
    """TxnPartitionEntry; `tracked` holds the batches that were sent and are not done, queued again or not."""

    producer: tuple[int, int] = (_NONE, _NONE)
    next_sequence: int = 0
    acked_sequence: int = _NONE
    acked_offset: int = _NONE
    tracked: list[_Batch] = field(default_factory=list)

    def start_at_beginning(self, producer: tuple[int, int]) -> None:
        sequence = 0
        for batch in sorted(self.tracked, key=lambda batch: batch.order):
            batch.producer, batch.sequence, batch.reopened = producer, sequence, True
            sequence += len(batch.records)
        self.producer, self.next_sequence, self.acked_sequence = producer, sequence, _NONE

    def first(self) -> _Batch:
        return min(self.tracked, key=lambda batch: batch.order)


class JavaProducer(StockProducer):
    """See the module."""

    request_timeout_s = 30.0

    def __init__(self, cluster: StockCluster, name: str, load: Load) -> None:
        super().__init__(cluster, name, load)
        self._queues: dict[TopicPartition, deque[_Batch]] = {}
        self._entries: dict[TopicPartition, _Entry] = {}
        self._producer = (_NONE, _NONE)
        self._is_initializing = False
        self._to_rewrite: dict[TopicPartition, None] = {}

    def enqueue(self, tp: TopicPartition, records: list[StockRecord]) -> None:
        self._queues.setdefault(tp, deque()).append(_Batch(tp, records))

    def is_idle(self) -> bool:
        return not any(self._queues.values()) and not any(entry.tracked for entry in self._entries.values())

    def serve(self) -> None:
        self._bump_if_needed()
        if self._producer[0] == _NONE:
            if not self._is_initializing:
                self._is_initializing = True
                self.call(self._initialize())
            return
        ready: dict[int, list[_Batch]] = {}
        for tp, queue in self._queues.items():
            node = self.leader_of(tp) if queue else None
            if node is None or self.in_flight(node) >= _IN_FLIGHT_MAX or not self._may_drain(queue[0]):
                continue
            ready.setdefault(node, []).append(self._drain(queue))
        for node, batches in ready.items():
            self.call(self._send(node, batches))

    # --- the queue ----------------------------------------------------------------------------------------------------

    def _entry(self, tp: TopicPartition) -> _Entry:
        return self._entries.setdefault(tp, _Entry())

    def _may_drain(self, first: _Batch) -> bool:
        backoff_s = min(_BACKOFF_MAX_S, _BACKOFF_S * 2 ** min(8, max(0, first.attempts - 1)))
        if first.attempts and asyncio.get_running_loop().time() - first.attempted_s < backoff_s:
            return False
        entry = self._entry(first.place)
        if first.sequence == _NONE:
            return not entry.tracked or entry.producer == self._producer
        # One that is sent again waits for those before it.
        return not entry.tracked or first.sequence == entry.first().sequence

    def _drain(self, queue: deque[_Batch]) -> _Batch:
        batch = queue.popleft()
        entry = self._entry(batch.place)
        if batch.sequence == _NONE:
            if entry.producer != self._producer and not entry.tracked:
                entry.start_at_beginning(self._producer)
            batch.producer, batch.sequence = self._producer, entry.next_sequence
            entry.next_sequence += len(batch.records)
            entry.tracked.append(batch)
        batch.reopened = False
        return batch

    def _reenqueue(self, batch: _Batch) -> None:
        batch.attempts += 1
        batch.attempted_s = asyncio.get_running_loop().time()
        queue = self._queues[batch.place]
        at = 0
        while at < len(queue) and queue[at].sequence != _NONE and queue[at].sequence < batch.sequence:
            at += 1
        queue.insert(at, batch)

    # --- epochs -------------------------------------------------------------------------------------------------------

    async def _initialize(self) -> None:
        self._producer = await self.init_producer_id()
        self._is_initializing = False

    def _bump_if_needed(self) -> None:
        if not self._to_rewrite:
            return
        self._producer = (self._producer[0], self._producer[1] + 1)
        self._world.note(f"{self.name} bumps its epoch to {self._producer[1]}")
        for tp in self._to_rewrite:
            self._entry(tp).start_at_beginning(self._producer)
        self._to_rewrite.clear()

    # --- answers ------------------------------------------------------------------------------------------------------

    async def _send(self, node: int, batches: list[_Batch]) -> None:
        now_ms = self._world.clock.now_ms()
        data = [(batch.place, encoded(batch.records, (*batch.producer, batch.sequence), now_ms)) for batch in batches]
        outcomes = await self.produce(node, data)
        for batch in batches:
            self._complete(batch, outcomes[batch.place])

    def _complete(self, batch: _Batch, outcome: Outcome) -> None:
        entry = self._entry(batch.place)
        code = outcome.code
        if code is ErrorCode.NONE or (code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            entry.acked_sequence = max(entry.acked_sequence, batch.last_sequence)
            if outcome.base_offset >= 0:
                entry.acked_offset = max(entry.acked_offset, outcome.base_offset + len(batch.records) - 1)
            entry.tracked.remove(batch)
            self.delivered(batch.records, outcome.base_offset)
            return
        self._world.note(f"{self.name} {batch.place} {batch.order}: {code.name}")
        if self._can_retry(entry, batch, outcome):
            self._reenqueue(batch)
        else:
            entry.tracked.remove(batch)
            self._to_rewrite[batch.place] = None
            self.failed(batch.records, code.name)
        if code in _INVALID_METADATA:
            self.refresh(batch.place)

    def _can_retry(self, entry: _Entry, batch: _Batch, outcome: Outcome) -> bool:
        if outcome.code is ErrorCode.UNKNOWN_PRODUCER_ID:
            if outcome.log_start_offset != -1 and not batch.reopened:
                self._to_rewrite[batch.place] = None
            return True
        if outcome.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            if not batch.reopened and batch.sequence - entry.acked_sequence == 1:
                self._to_rewrite[batch.place] = None  # the next one that is expected: there is a gap
            return True
        return outcome.code in RETRIABLE

"""aiokafka's idempotent producer: one request in flight per broker, one batch per partition, an epoch for ever.

After aio-libs/aiokafka, aiokafka/producer:

    sender.py                Sender._sender_routine, SendProduceReqHandler.do, handle_response, _can_retry
    message_accumulator.py   MessageAccumulator._pop_batch, drain_by_nodes, reenqueue
    transaction_manager.py   sequence_number, increment_sequence_number
    ../errors.py             which errors are retriable

A batch keeps its sequence; one that fails leaves a gap that every later one of its partition meets.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from odradek.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition

from tests.simulation.stock.cluster import StockCluster
from tests.simulation.stock.producer import Load, StockProducer, StockRecord, encoded

_BACKOFF_S = 0.1
_INVALID_METADATA = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,  # KafkaConnectionError
    }
)
_RETRIABLE = _INVALID_METADATA | {
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
}


@dataclass(eq=False)
class _Batch:
    place: TopicPartition
    records: list[StockRecord]
    sequence: int = -1


class AiokafkaProducer(StockProducer):
    """See the module."""

    request_timeout_s = 40.0

    def __init__(self, cluster: StockCluster, name: str, load: Load) -> None:
        super().__init__(cluster, name, load)
        self._queues: dict[TopicPartition, deque[_Batch]] = {}
        self._sequences: dict[TopicPartition, int] = {}
        self._busy_nodes: set[int] = set()
        self._muted: set[TopicPartition] = set()
        self._producer: tuple[int, int] | None = None
        self._is_initializing = False

    def enqueue(self, tp: TopicPartition, records: list[StockRecord]) -> None:
        self._queues.setdefault(tp, deque()).append(_Batch(tp, records))

    def is_idle(self) -> bool:
        return not any(self._queues.values()) and not self._busy_nodes

    def serve(self) -> None:
        if self._producer is None:
            if not self._is_initializing:
                self._is_initializing = True
                self.call(self._initialize())
            return
        ready: dict[int, list[_Batch]] = {}
        for tp, queue in self._queues.items():
            node = self.leader_of(tp) if queue and tp not in self._muted else None
            if node is not None and node not in self._busy_nodes:
                ready.setdefault(node, []).append(self._pop(queue))
        for node, batches in ready.items():
            self._busy_nodes.add(node)
            self._muted.update(batch.place for batch in batches)
            self.call(self._send(node, batches))

    async def _initialize(self) -> None:
        self._producer = await self.init_producer_id()

    def _pop(self, queue: deque[_Batch]) -> _Batch:
        batch = queue.popleft()
        if batch.sequence < 0:
            batch.sequence = self._sequences.get(batch.place, 0)
            self._sequences[batch.place] = batch.sequence + len(batch.records)
        return batch

    async def _send(self, node: int, batches: list[_Batch]) -> None:
        assert self._producer is not None
        now_ms = self._world.clock.now_ms()
        data = [(batch.place, encoded(batch.records, (*self._producer, batch.sequence), now_ms)) for batch in batches]
        outcomes = await self.produce(node, data)
        again = []
        for batch in batches:
            outcome = outcomes[batch.place]
            if outcome.code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                self.delivered(batch.records, outcome.base_offset)
                continue
            self._world.note(f"{self.name} {batch.place} {batch.sequence}: {outcome.code.name}")
            if outcome.code in _RETRIABLE:
                again.append(batch)
            else:
                self.failed(batch.records, outcome.code.name)
            if outcome.code in _INVALID_METADATA:
                self.refresh(batch.place)
        if again:
            await asyncio.sleep(_BACKOFF_S)
        for batch in again:
            self._queues[batch.place].appendleft(batch)
        self._busy_nodes.discard(node)
        self._muted.difference_update(batch.place for batch in batches)

"""Shared by models of stock producers: an application that sends, requests to brokers, and evidence for the audit.

The application sends without a pause between batches now and then, so that several are in flight, and is silent at
times. Delivery has no time limit (`delivery.timeout.ms` and `message.timeout.ms` are as long as the run): whatever the
store does, a record that fails for good was failed by an answer.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kio.schema.init_producer_id.v4.response import InitProducerIdResponse
from kio.schema.list_offsets.v7.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.list_offsets.v7.response import ListOffsetsResponse
from kio.schema.produce.v9.response import ProduceResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64
from odradek.client.messages.produce import init_producer_id_request, produce_request
from odradek.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.protocol.frame import decode_response, encode_request

from tests.simulation.actors.common import Payload, encode
from tests.simulation.plan import TopicPlan
from tests.simulation.stock.cluster import StockCluster
from tests.simulation.stock.wire import Disconnected, Wire

_CUTS = 0.004  # of the requests
_CUT_WITHIN_S = 1.0
_CONNECT_AGAIN_S = 0.05
_TICK_S = 0.05
_PATIENCE_S = 4 * 3600.0
# What Apache Kafka answers to Produce where nothing is wrong with a batch: every client knows it, most retry it.
_ANSWERS = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNKNOWN_PRODUCER_ID,
    }
)


@dataclass
class StockRecord:
    """One record of the application; `number` counts those of its partition."""

    identity: bytes
    place: TopicPartition
    number: int
    outcome: str = "unknown"  # acked | failed | unknown
    offset: int | None = None


class Outcome(NamedTuple):
    """The outcome of one batch of a request. Codes of the client's own: NETWORK_EXCEPTION, REQUEST_TIMED_OUT."""

    code: ErrorCode
    base_offset: int = -1
    log_start_offset: int = -1


class Load(NamedTuple):
    """The application's load."""

    topics: Sequence[TopicPlan]
    batches: int
    pace_s: float
    silence_s: float  # now and then; 0: never
    looks_behind: bool  # each Produce is followed by a look at the log's end, over the same connection


class StockProducer(ABC):
    """An idempotent producer of a stock client.

    Subclasses say what is sent when (`serve`) and what an answer does.

    Attributes:
        request_timeout_s: silence after which the client ends the connection.
        records: all that the application sent.
    """

    request_timeout_s = 30.0

    def __init__(self, cluster: StockCluster, name: str, load: Load) -> None:
        self.name = name
        self.records: list[StockRecord] = []
        self._cluster = cluster
        self._world = cluster.world
        self._rng = cluster.world.rng
        self._load = load
        self._numbers: dict[TopicPartition, int] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._wires: dict[int, Wire] = {}
        self._correlation_id = 0
        self._wake = asyncio.Event()
        self._calls: set[asyncio.Task[None]] = set()
        self._all_sent = False
        self.fatal: str | None = None

    # --- what a client's rules say ------------------------------------------------------------------------------------

    @abstractmethod
    def enqueue(self, tp: TopicPartition, records: list[StockRecord]) -> None:
        """The application sends a batch."""

    @abstractmethod
    def serve(self) -> None:
        """Send what may be sent now; called whenever something happened, and every now and then."""

    @abstractmethod
    def is_idle(self) -> bool:
        """Return True if nothing is queued and nothing is in flight."""

    # --- the application ----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Send everything and wait for every delivery report."""
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + _PATIENCE_S
        feeding = asyncio.ensure_future(self._feed())
        while not (self._all_sent and self.is_idle()) and self.fatal is None:
            self.serve()
            try:
                await asyncio.wait_for(self._wake.wait(), None if self.is_idle() else _TICK_S)
            except TimeoutError:
                pass
            self._wake.clear()
            if loop.time() > give_up_s:
                self.problem("never came to an end")
                break
        feeding.cancel()
        for wire in self._wires.values():
            wire.cut()

    async def _feed(self) -> None:
        tps = [TopicPartition(plan.name, n) for plan in self._load.topics for n in range(plan.partitions)]
        for _ in range(self._load.batches):
            tp = self._rng.choice(tps)
            self.enqueue(tp, [self._record(tp) for _ in range(self._rng.choice((1, 1, 1, 2, 4)))])
            self._wake.set()
            draw = self._rng.random()
            if draw < 0.04 and self._load.silence_s:
                await asyncio.sleep(self._load.silence_s)
            elif draw > 0.5:
                await asyncio.sleep(self._rng.random() * self._load.pace_s)
        self._all_sent = True
        self._wake.set()

    def _record(self, tp: TopicPartition) -> StockRecord:
        number = self._numbers[tp] = self._numbers.get(tp, 0) + 1
        record = StockRecord(f"{self.name}:{tp.topic}:{tp.partition}:{number}".encode(), tp, number)
        self.records.append(record)
        return record

    # --- delivery reports ---------------------------------------------------------------------------------------------

    def delivered(self, records: Sequence[StockRecord], base_offset: int) -> None:
        """Report success; a base offset of -1 is unknown."""
        for i, record in enumerate(records):
            record.outcome = "acked"
            record.offset = base_offset + i if base_offset >= 0 else None

    def failed(self, records: Sequence[StockRecord], why: str) -> None:
        """Report a failure that is for good: nothing in the simulation justifies one."""
        for record in records:
            record.outcome = "failed"
        self.problem(f"{len(records)} records from {records[0].identity!r} failed for good: {why}")

    def died(self, why: str) -> None:
        """A fatal error: the producer can only be closed."""
        self.fatal = why
        self.problem(f"fatal error: {why}")

    def problem(self, text: str) -> None:
        self._world.history.problem(f"{type(self).__name__} {self.name}: {text}")

    # --- brokers ------------------------------------------------------------------------------------------------------

    def leader_of(self, tp: TopicPartition) -> int | None:
        """The leader as this client knows it; it asks where it does not know."""
        leader = self._leaders.get(tp)
        if leader is None:
            leader = self._cluster.leader_of(tp)
            if leader is not None:
                self._leaders[tp] = leader
        return leader

    def refresh(self, tp: TopicPartition) -> None:
        """Metadata is out of date."""
        self._leaders.pop(tp, None)

    def in_flight(self, node: int) -> int:
        """Requests to a broker that have no answer."""
        wire = self._wires.get(node)
        return 0 if wire is None else wire.in_flight

    def call(self, work: Any) -> None:
        """Let a request go on by itself; its end wakes `serve`."""

        async def act() -> None:
            await work
            self._wake.set()

        task = asyncio.ensure_future(act())
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def produce(
        self, node: int, batches: Sequence[tuple[TopicPartition, bytes]]
    ) -> dict[TopicPartition, Outcome]:
        """Send one request; the outcome of each partition."""
        message = produce_request(batches, acks=-1, timeout_ms=int(self.request_timeout_s * 1000))
        asking = asyncio.ensure_future(self._ask(node, message, ProduceResponse))
        behind = asyncio.ensure_future(self._end_of(node, batches[0][0])) if self._load.looks_behind else None
        try:
            response = await asking
        except (Disconnected, TimeoutError) as error:
            is_late = isinstance(error, TimeoutError)
            code = ErrorCode.REQUEST_TIMED_OUT if is_late else ErrorCode.NETWORK_EXCEPTION
            for tp, _ in batches:
                self.refresh(tp)
            return {tp: Outcome(code) for tp, _ in batches}
        outcomes = {
            TopicPartition(str(topic.name), int(partition_response.index)): Outcome(
                ErrorCode(int(partition_response.error_code)),
                int(partition_response.base_offset),
                int(partition_response.log_start_offset),
            )
            for topic in response.responses
            for partition_response in topic.partition_responses
        }
        for outcome in outcomes.values():
            if outcome.code not in _ANSWERS:
                self.problem(f"{outcome.code.name} is no answer to Produce")
        if behind is not None:
            end, outcome = await behind, outcomes[batches[0][0]]
            if outcome.code is ErrorCode.NONE and 0 <= end <= outcome.base_offset:
                self.problem(f"a request behind a Produce to {outcome.base_offset} was told that the log ends at {end}")
        return outcomes

    async def _end_of(self, node: int, tp: TopicPartition) -> int:
        """The high watermark of a partition, by a request that waits for no answer before it; -1: there is none."""
        request = ListOffsetsRequest(
            replica_id=BrokerId(-1),
            isolation_level=i8(0),
            topics=(
                ListOffsetsTopic(
                    name=TopicName(tp.topic),
                    partitions=(ListOffsetsPartition(partition_index=i32(tp.partition), timestamp=i64(-1)),),
                ),
            ),
        )
        try:
            response = await self._ask(node, request, ListOffsetsResponse)
        except (Disconnected, TimeoutError):
            return -1
        [partition_response] = response.topics[0].partitions
        return int(partition_response.offset) if int(partition_response.error_code) == ErrorCode.NONE else -1

    async def init_producer_id(self) -> tuple[int, int]:
        """Get an id and epoch, however long it takes."""
        while True:
            nodes = self._cluster.nodes()
            if nodes:
                try:
                    node = self._rng.choice(nodes)
                    response = await self._ask(node, init_producer_id_request(), InitProducerIdResponse)
                except (Disconnected, TimeoutError):
                    pass
                else:
                    if int(response.error_code) == ErrorCode.NONE:
                        return int(response.producer_id), int(response.producer_epoch)
            await asyncio.sleep(_CONNECT_AGAIN_S)

    async def _ask(self, node: int, message: Any, response_type: Any) -> Any:
        wire = self._wires.get(node)
        if wire is None or wire.is_closed:
            wire = self._cluster.connect(node)
            if wire is None:
                await asyncio.sleep(_CONNECT_AGAIN_S)
                raise Disconnected
            self._wires[node] = wire
        self._correlation_id += 1
        correlation_id = self._correlation_id
        frame = encode_request(message, correlation_id=correlation_id, client_id=self.name)
        if self._rng.random() < _CUTS and not self._world.is_calm:
            asyncio.get_running_loop().call_later(self._rng.random() * _CUT_WITHIN_S, wire.cut)
        try:
            response_bytes = await asyncio.wait_for(wire.request(frame), self.request_timeout_s)
        except TimeoutError:
            self._world.note(f"{self.name} waited too long for {node}")
            wire.cut()
            raise
        return decode_response(response_bytes, response_type, correlation_id=correlation_id)


def encoded(records: Sequence[StockRecord], producer: tuple[int, int, int], now_ms: int) -> bytes:
    """A batch; `producer` is (id, epoch, base sequence)."""
    return encode([Payload(record.identity, record.identity) for record in records], producer, now_ms)

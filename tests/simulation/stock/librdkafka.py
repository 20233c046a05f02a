"""librdkafka's idempotent producer (confluent-kafka): one epoch for all partitions, drained before it is bumped.

After confluentinc/librdkafka, src:

    rdkafka_request.c      rd_kafka_handle_Produce_error, rd_kafka_handle_idempotent_Produce_error,
                           rd_kafka_handle_idempotent_Produce_success, rd_kafka_msgbatch_handle_Produce_result
    rdkafka_idempotence.c  rd_kafka_idemp_drain_epoch_bump0, rd_kafka_idemp_check_drain_done, rd_kafka_idemp_drain_done,
                           rd_kafka_idemp_inflight_toppar_sub, rd_kafka_idemp_drain_toppar
    rdkafka_broker.c       rd_kafka_toppar_producer_serve, rd_kafka_dr_implicit_ack
    rdkafka_partition.c    rd_kafka_toppar_pid_change, rd_kafka_retry_msgq

Sequences are message ids less the first one of the epoch, per partition. While the producer drains, nothing is sent;
once nothing is in flight anywhere it bumps its epoch, and each partition begins at sequence 0 with the first message
that has no report: with one that may be in the log as well, which is how a bump can write it twice. What the client
cannot reason about is a fatal error.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from odradek.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition

from tests.simulation.stock.cluster import StockCluster
from tests.simulation.stock.producer import Load, Outcome, StockProducer, StockRecord, encoded

_IN_FLIGHT_MAX = 5  # requests of a connection, and messages of a partition: RD_KAFKA_IDEMP_MAX_INFLIGHT
_BACKOFF_S = 0.1
_BACKOFF_MAX_S = 1.0
_REFRESH = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,  # ERR__TRANSPORT
    }
)
_RETRY = frozenset(
    {
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
# Of those that refresh metadata, the ones after which a batch counts as sent before.
_COUNTS_AS_RETRY = frozenset({ErrorCode.NETWORK_EXCEPTION, ErrorCode.KAFKA_STORAGE_ERROR})
_Pid = tuple[int, int]


@dataclass(eq=False)
class _Batch:
    """Messages that are sent together, first and again."""

    place: TopicPartition
    records: list[StockRecord]
    retries: int = 0
    backoff_until_s: float = 0.0
    pid: _Pid = (-1, -1)
    first_seq: int = -1

    @property
    def first_msgid(self) -> int:
        return self.records[0].number

    @property
    def last_msgid(self) -> int:
        return self.records[-1].number


@dataclass
class _Toppar:
    """A partition (rd_kafka_toppar_t, rktp_eos)."""

    queue: list[_Batch] = field(default_factory=list)  # by message id
    in_flight: int = 0  # messages
    pid: _Pid = (-1, -1)
    base_msgid: int = 1
    next_ack_seq: int = 0
    next_err_seq: int = 0
    acked_msgid: int = 0
    wait_drain: bool = False


@dataclass
class _Error:
    """The effects of an error (struct rd_kafka_Produce_err)."""

    code: ErrorCode
    is_retried: bool
    is_permanent: bool
    counts: bool = True
    next_err: bool = True
    is_delivered: bool = False


class LibrdkafkaProducer(StockProducer):
    """See the module."""

    request_timeout_s = 60.0  # socket.timeout.ms

    def __init__(self, cluster: StockCluster, name: str, load: Load) -> None:
        super().__init__(cluster, name, load)
        self._toppars: dict[TopicPartition, _Toppar] = {}
        self._pid: _Pid = (-1, -1)
        self._state = "REQ_PID"  # | WAIT_PID | ASSIGNED | DRAIN_BUMP

    def enqueue(self, tp: TopicPartition, records: list[StockRecord]) -> None:
        self._toppars.setdefault(tp, _Toppar()).queue.append(_Batch(tp, records))

    def is_idle(self) -> bool:
        return not any(toppar.queue or toppar.in_flight for toppar in self._toppars.values())

    def serve(self) -> None:
        if self._state == "REQ_PID":
            self._state = "WAIT_PID"
            self.call(self._acquire())
        if self._state != "ASSIGNED":
            return
        for tp, toppar in self._toppars.items():
            node = self.leader_of(tp) if toppar.queue else None
            if node is not None:
                self._serve(node, toppar)

    def _serve(self, node: int, toppar: _Toppar) -> None:
        if toppar.wait_drain:
            if toppar.in_flight:
                return
            toppar.wait_drain = False
        requests = _IN_FLIGHT_MAX - toppar.in_flight
        if requests <= 0 or not toppar.queue:
            return
        if toppar.pid != self._pid:
            if toppar.in_flight:
                return
            toppar.pid, toppar.base_msgid = self._pid, toppar.queue[0].first_msgid
            toppar.next_ack_seq = toppar.next_err_seq = 0
        now_s = asyncio.get_running_loop().time()
        while requests > 0 and toppar.queue and self.in_flight(node) < _IN_FLIGHT_MAX:
            if toppar.queue[0].backoff_until_s > now_s:
                return
            requests -= 1
            batch = toppar.queue.pop(0)
            batch.pid, batch.first_seq = toppar.pid, batch.first_msgid - toppar.base_msgid
            toppar.in_flight += len(batch.records)
            self.call(self._send(node, toppar, batch))

    # --- producer id and epoch ----------------------------------------------------------------------------------------

    async def _acquire(self) -> None:
        self._pid = await self.init_producer_id()
        self._state = "ASSIGNED"

    def _drain_and_bump(self, why: str) -> None:
        self._world.note(f"{self.name} drains: {why}")
        self._state = "DRAIN_BUMP"

    def _bump_if_drained(self) -> None:
        if self._state == "DRAIN_BUMP" and not any(toppar.in_flight for toppar in self._toppars.values()):
            self._pid = (self._pid[0], self._pid[1] + 1)
            self._state = "ASSIGNED"

    # --- answers ------------------------------------------------------------------------------------------------------

    async def _send(self, node: int, toppar: _Toppar, batch: _Batch) -> None:
        data = encoded(batch.records, (*batch.pid, batch.first_seq), self._world.clock.now_ms())
        outcome = (await self.produce(node, [(batch.place, data)]))[batch.place]
        toppar.in_flight -= len(batch.records)
        next_seq = batch.first_seq + len(batch.records)
        if outcome.code is ErrorCode.NONE:
            self._succeeded(toppar, batch, next_seq)
            self.delivered(batch.records, outcome.base_offset)
        else:
            self._world.note(f"{self.name} {batch.place} {batch.pid} {batch.first_seq}: {outcome.code.name}")
            self._erred(toppar, batch, next_seq, outcome)
        self._bump_if_drained()

    def _succeeded(self, toppar: _Toppar, batch: _Batch, next_seq: int) -> None:
        if toppar.acked_msgid < batch.first_msgid - 1:
            # A later batch is in the log, so the earlier ones are.
            acked = [queued for queued in toppar.queue if queued.last_msgid <= batch.last_msgid]
            toppar.queue = [queued for queued in toppar.queue if queued.last_msgid > batch.last_msgid]
            for earlier in acked:
                self.delivered(earlier.records, -1)
        elif batch.first_seq != toppar.next_ack_seq and batch.first_seq == toppar.next_err_seq:
            toppar.next_err_seq = next_seq
            toppar.acked_msgid = max(toppar.acked_msgid, batch.last_msgid)
            self.died(f"{batch.place} {batch.first_seq} succeeded when expecting failure")
            return
        if toppar.next_err_seq == toppar.next_ack_seq:
            toppar.next_err_seq = next_seq
        toppar.next_ack_seq = next_seq
        toppar.acked_msgid = max(toppar.acked_msgid, batch.last_msgid)

    def _erred(self, toppar: _Toppar, batch: _Batch, next_seq: int, outcome: Outcome) -> None:
        code = outcome.code
        error = _Error(code, is_retried=code in _REFRESH | _RETRY, is_permanent=code not in _REFRESH | _RETRY)
        self._idempotent(toppar, batch, error)
        if error.is_delivered:
            toppar.next_ack_seq = toppar.next_err_seq = next_seq
            self.delivered(batch.records, -1)
            return
        if code in _REFRESH:
            self.refresh(batch.place)
            error.counts = error.counts and code in _COUNTS_AS_RETRY
        if error.is_retried:
            toppar.wait_drain = True
            error.next_err = True
            self._retry(toppar, batch, error)
        if error.is_permanent:
            error.next_err = True
            if self.fatal is None:
                self._drain_and_bump(f"message sequence gap, {code.name}")
            self.failed(batch.records, code.name)
        if error.next_err:
            toppar.next_err_seq = next_seq

    def _idempotent(self, toppar: _Toppar, batch: _Batch, error: _Error) -> None:
        """Errors that concern sequences."""
        where = f"{batch.place}, base seq {batch.first_seq}"
        if batch.pid != toppar.pid:
            error.is_permanent, error.is_retried = True, False
            return
        match error.code:
            case ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                ahead = batch.first_seq - toppar.next_ack_seq
                if ahead > 0:
                    error.is_retried, error.is_permanent, error.counts = True, False, False
                    self._drain_and_bump("skipped sequence numbers")
                elif ahead == 0:
                    self.died(f"sequence desynchronization: {where}")
                else:
                    error.next_err = False
                    self.died(f"rewound sequence number: {where} < {toppar.next_ack_seq}")
            case ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                error.is_permanent, error.is_delivered = False, True
            case ErrorCode.UNKNOWN_PRODUCER_ID:
                if not batch.retries and toppar.next_err_seq == batch.first_seq:
                    error.is_retried, error.is_permanent, error.counts = True, False, False
                    self._drain_and_bump("unknown producer id")
                else:
                    self.died(f"unknown producer id: {where}, {batch.retries} retries")

    def _retry(self, toppar: _Toppar, batch: _Batch, error: _Error) -> None:
        batch.retries += error.counts
        backoff_s = _BACKOFF_S * 2 ** min(8, max(0, batch.retries - 1))
        jitter = 0.8 + 0.4 * self._rng.random()
        batch.backoff_until_s = asyncio.get_running_loop().time() + min(_BACKOFF_MAX_S, backoff_s) * jitter
        toppar.queue.append(batch)
        toppar.queue.sort(key=lambda batch: batch.first_msgid)

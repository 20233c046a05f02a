"""The loop that turns batches into requests and answers into outcomes.

    loop: give up expired batches -> take ready batches -> one task per request -> rest until woken or a timer ends

At most `max_in_flight_requests_per_connection` requests are in flight. lane.py decides what an answer means for a
batch; this module applies the decision.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

from odradek.client.config import ProducerConfig
from odradek.client.connection import Connection, error_code, throttle_s
from odradek.client.log import Outages, shown
from odradek.client.messages.produce import (
    InitProducerIdResponse,
    PartitionOutcome,
    init_producer_id_request,
    outcomes,
    produce_request,
    produce_response_type,
)
from odradek.client.producer.accumulator import Accumulator
from odradek.client.producer.batch import BatchState, ProducerBatch
from odradek.client.producer.lane import Acknowledge, Fail, Lane, Retry, Split, gave_up
from odradek.client.retry import UNKNOWN_TOPIC_PATIENCE_MS, RetryPolicy, may_have_applied
from odradek.client.transport.base import RequestFailed
from odradek.client.waiting import wait_for
from odradek.errors import ErrorCode, KafkaError, OffsetConflict
from odradek.model.topic_partition import TopicPartition

TransactionalRequest = Callable[
    [Sequence[tuple[TopicPartition, bytes]], int, Mapping[TopicPartition, int]], tuple[Any, type[Any]]
]
"""(batches, timeout in ms, by how many partitions keys chose theirs) -> the request and the type of its response."""

_FAILURES_KEPT = 1_000
_RETRY_GRACE_S = 1.0  # a retry that helps within this time is not logged
_STALE_METADATA = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.FENCED_LEADER_EPOCH})
_WIRE_ACKS = -1  # 1 and all are the same here; an answer comes in any case

_NO_PRODUCER_ID = {ErrorCode.KAFKA_STORAGE_ERROR: "the disk of the store is full"}


@dataclass(slots=True)
class SenderMetrics:
    """Totals since the producer began."""

    record_send_total: int = 0
    record_error_total: int = 0
    record_retry_total: int = 0
    batch_total: int = 0
    batch_split_total: int = 0
    request_total: int = 0
    request_failed_total: int = 0
    outgoing_byte_total: int = 0
    uncompressed_byte_total: int = 0
    request_latency_ms_total: float = 0.0
    throttle_time_ms_total: float = 0.0


class Sender:
    """Drains one accumulator over one connection."""

    def __init__(self, accumulator: Accumulator, connection: Connection, config: ProducerConfig) -> None:
        self._accumulator = accumulator
        self._connection = connection
        self._config = config
        self._clock = connection.clock
        self._log = connection.log
        self._outages = Outages(self._log, grace_s=_RETRY_GRACE_S)
        self._policy = RetryPolicy(config.retry_backoff_ms, config.retry_backoff_max_ms, config.retries)
        self._delivery_timeout_s = config.delivery_timeout_ms / 1000
        self._requests: set[asyncio.Task[None]] = set()
        self._background: set[asyncio.Task[None]] = set()
        self._producer_id: tuple[int, int] | None = None
        self._acquiring = False
        self._failures: list[tuple[KafkaError, ProducerBatch]] = []
        self._progress = asyncio.Event()
        self._stopping = False
        self.transactional_request: TransactionalRequest | None = None  # of a producer with transactions
        self.on_failure: Callable[[KafkaError], None] | None = None  # called with every error that fails a batch
        self.has_written = False  # True once batches of this transaction have sequences, and may be sent
        self._throttled_until_s = 0.0
        self._last_sent_s = 0.0  # of the newest request
        self.metrics = SenderMetrics()
        self._look_for_growth_s = 0.0
        connection.metadata.on_growth = accumulator.grow

    async def run(self) -> None:
        """Send until stopped."""
        while not self._stopping:
            self._accumulator.rest()
            now_s = self._clock.monotonic()
            self._expire(now_s)
            look_s = self._look_for_growth(now_s)
            self._give_producer_ids()
            self._refresh_metadata()
            room = self._config.max_in_flight_requests_per_connection - len(self._requests)
            throttled_s = self._throttled_until_s - now_s
            if throttled_s > 0:
                room = 0
            since_s = self._last_sent_s if self._requests else None
            requests, wait_s = self._accumulator.take_requests(now_s, room, in_flight_since_s=since_s)
            if throttled_s > 0:
                wait_s = throttled_s
            if look_s is not None:
                wait_s = look_s if wait_s is None else min(wait_s, look_s)
            if requests:
                self._last_sent_s = now_s
                self.has_written = True
            for batches in requests:
                task = asyncio.create_task(self._send(batches))
                self._requests.add(task)
                task.add_done_callback(self._request_ended)
            await wait_for(self._accumulator.work, self._until_next(now_s, wait_s), self._clock)

    def _look_for_growth(self, now_s: float) -> float | None:
        """Partition stale batches again; return when to look again for topics whose new partitions nobody shows yet."""
        unknown = self._accumulator.spread_stale()
        if not unknown:
            return None
        if now_s >= self._look_for_growth_s:
            self._look_for_growth_s = now_s + self._config.retry_backoff_max_ms / 1000
            for topic in unknown:
                self._connection.metadata.forget(topic)
        return self._look_for_growth_s - now_s

    # --- transactions: called by producer/transactions.py, on the loop ------------------------------------------------

    def take_transactional_producer(self, producer_id: int, producer_epoch: int) -> None:
        """Give every lane this producer id and epoch. Nothing may be in flight."""
        with self._accumulator.lock:
            self._producer_id = (producer_id, producer_epoch)
            for lane in self._accumulator.lanes.values():
                lane.take_producer_id(producer_id, producer_epoch)

    def begin_transaction(self) -> None:
        self.has_written = False

    def seal(self) -> int:
        """Make everything that waits ready, and return the serial up to which a commit has to wait."""
        serial = self._accumulator.seal_for_flush()
        self._accumulator.wake()
        return serial

    async def refresh_metadata(self) -> None:
        """Read the metadata of every topic that was written to; a failure is told by what is sent next."""
        await self._read_metadata(sorted({partition.topic for partition in self._accumulator.lanes}))

    def give_up_all(self, error: KafkaError) -> None:
        """Fail all batches without an outcome, without waiting for requests in flight."""
        with self._accumulator.lock:
            left = list(self._accumulator.incomplete)
        self._give_up([(batch, error) for batch in left])

    # --- the end --------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """End the loop and the requests, and fail all batches without an outcome."""
        self._stopping = True
        self._accumulator.wake()
        tasks = [*self._requests, *self._background]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        error = KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, "the producer was closed before the record was acknowledged: it may be lost"
        )
        with self._accumulator.lock:
            left = list(self._accumulator.incomplete)
        self._give_up([(batch, error) for batch in left])

    async def wait_complete(self, serial: int) -> None:
        """Return when all batches up to this serial have an outcome."""
        while not self._accumulator.is_complete_up_to(serial):
            self._progress.clear()
            await self._progress.wait()

    async def wait_progress(self, seconds: float) -> None:
        """Return when a batch gets its outcome, or after `seconds`."""
        self._progress.clear()
        await wait_for(self._progress, seconds, self._clock)

    def cause(self) -> KafkaError | None:
        """Return the error that keeps the oldest failed batch from being written; None if none has failed."""
        with self._accumulator.lock:
            held = sorted(self._accumulator.incomplete, key=lambda batch: batch.serial)
        return next((batch.cause for batch in held if batch.cause is not None), None)

    def take_unseen_failure(self) -> KafkaError | None:
        """Return one error for all failures whose futures nobody has read; each failure is reported once."""
        failures, self._failures = self._failures, []
        unseen = [(error, batch) for error, batch in failures if batch.unseen]
        if not unseen:
            return None
        first, batch = unseen[0]
        count = sum(batch.unseen for _, batch in unseen)
        return KafkaError(
            first.code, f"{count} record(s) were not written; the first, to {batch.partition}: {first.message}"
        )

    # --- before sending -------------------------------------------------------------------------------------------

    def _until_next(self, now_s: float, wait_s: float | None) -> float | None:
        with self._accumulator.lock:
            oldest = min((batch.created_s for batch in self._accumulator.incomplete), default=None)
        if oldest is None:
            return None
        expiry_s = max(oldest + self._delivery_timeout_s - now_s, 0.05)
        return expiry_s if wait_s is None else min(expiry_s, wait_s)

    def _expire(self, now_s: float) -> None:
        expired = self._accumulator.expired(now_s, self._delivery_timeout_s)
        if expired:
            self._give_up(
                [
                    (
                        batch,
                        gave_up(
                            batch, f"not acknowledged within delivery_timeout_ms={self._config.delivery_timeout_ms}"
                        ),
                    )
                    for batch in expired
                ]
            )

    def _give_producer_ids(self) -> None:
        with self._accumulator.lock:
            needy = [lane for lane in self._accumulator.lanes.values() if lane.needs_producer_id]
            if not needy:
                return
            if self._producer_id is not None:
                fresh = [lane for lane in needy if lane.producer_epoch < 0]
                for lane in fresh:
                    lane.take_producer_id(*self._producer_id)
                needy = [lane for lane in needy if lane.needs_producer_id]
        if needy and not self._acquiring and self.transactional_request is None:
            self._acquiring = True
            self._start(self._acquire_producer_id(needy))

    async def _acquire_producer_id(self, needy: Sequence[Lane]) -> None:
        """Get a producer id for lanes without one: the producer's, or a new one for lanes that were fenced."""

        def check(response: InitProducerIdResponse) -> None:
            code = error_code(response.error_code)
            if code is not ErrorCode.NONE:
                why = _NO_PRODUCER_ID.get(code, code.name)  # the response has no message
                raise KafkaError(code, f"the service returned no producer id: {why}")

        try:
            response = await self._connection.call(
                init_producer_id_request(),
                InitProducerIdResponse,
                "InitProducerId",
                check=check,
                timeout_ms=self._config.delivery_timeout_ms,
            )
        except KafkaError as error:
            with self._accumulator.lock:
                batches = [batch for lane in needy for batch in (*lane.batches, lane.open) if batch is not None]
            self._give_up([(batch, error) for batch in batches])
        else:
            granted = (int(response.producer_id), int(response.producer_epoch))
            self._log.debug("has producer id %d, epoch %d", *granted)
            with self._accumulator.lock:
                if self._producer_id is None or any(lane.producer_epoch >= 0 for lane in needy):
                    self._producer_id = granted
                for lane in needy:
                    if lane.needs_producer_id:
                        lane.take_producer_id(*granted)
        finally:
            self._acquiring = False
            self._accumulator.wake()

    def _refresh_metadata(self) -> None:
        with self._accumulator.lock:
            topics = {batch.partition.topic for batch in self._accumulator.incomplete}
        stale = [topic for topic in topics if self._connection.metadata.is_stale(topic)]
        if stale and not self._background:
            self._start(self._read_metadata(stale))

    async def _read_metadata(self, topics: list[str]) -> None:
        try:
            await self._connection.metadata.refresh(topics)
        except KafkaError:
            return  # the produce requests will fail for the same reason and report it

    # --- a request ------------------------------------------------------------------------------------------------

    async def _send(self, batches: list[ProducerBatch]) -> None:
        # An abort may have given batches up since they were taken: what was not sent is not to be sent any more.
        batches = [batch for batch in batches if batch.state is BatchState.IN_FLIGHT]
        if not batches:
            return
        now_s = self._clock.monotonic()
        left_s = min(batch.created_s for batch in batches) + self._delivery_timeout_s - now_s
        timeout_s = max(0.001, min(self._config.request_timeout_ms / 1000, left_s))
        expected = {batch.partition: batch.expected_offset for batch in batches if batch.expected_offset is not None}
        chosen_by = {
            batch.partition: batch.chosen_by
            for batch in batches
            if batch.chosen_by is not None and self._config.awaits_acks  # else nobody would send it again
        }
        data = [(batch.partition, cast(bytes, batch.encoded)) for batch in batches]
        request: Any
        response_type: type[Any]
        if self.transactional_request is not None:
            request, response_type = self.transactional_request(data, int(timeout_s * 1000), chosen_by)
        else:
            request = produce_request(
                data,
                acks=_WIRE_ACKS,
                timeout_ms=int(timeout_s * 1000),
                expected_offsets=expected,
                chosen_by=chosen_by,
            )
            response_type = produce_response_type(is_conditional=bool(expected))
        metrics = self.metrics
        metrics.request_total += 1
        metrics.outgoing_byte_total += sum(batch.size_bytes for batch in batches)
        metrics.uncompressed_byte_total += sum(batch.uncompressed_bytes for batch in batches)
        if not self._config.awaits_acks:
            self._complete([(batch, -1, -1) for batch in batches])
        try:
            response = await self._connection.attempt(request, response_type, timeout_s)
        except KafkaError as error:
            metrics.request_failed_total += 1
            applied = may_have_applied(error)
            self._settle([(batch, error, applied) for batch in batches], [])
            return
        latency_s = self._clock.monotonic() - now_s
        metrics.request_latency_ms_total += latency_s * 1000
        self._accumulator.pace.observe(latency_s)
        self._throttle(throttle_s(response))
        self._read_answer(batches, outcomes(response))

    def _throttle(self, seconds: float) -> None:
        """Send nothing for a while: a quota is exceeded or the store is throttled."""
        if seconds > 0:
            self.metrics.throttle_time_ms_total += seconds * 1000
            self._throttled_until_s = max(self._throttled_until_s, self._clock.monotonic() + seconds)

    def _read_answer(self, batches: list[ProducerBatch], response: dict[TopicPartition, PartitionOutcome]) -> None:
        failed: list[tuple[ProducerBatch, KafkaError, bool]] = []
        written: list[tuple[ProducerBatch, int, int]] = []
        for batch in batches:
            outcome = response.get(batch.partition)
            if outcome is None:
                error = KafkaError(ErrorCode.NETWORK_EXCEPTION, "the response does not contain the partition")
                failed.append((batch, error, True))
            elif outcome.error is ErrorCode.NONE:
                written.append((batch, outcome.base_offset, outcome.log_append_time_ms))
            else:
                error = _error_of(batch, outcome)
                failed.append((batch, error, may_have_applied(error)))
                if outcome.error in _STALE_METADATA:
                    self._connection.metadata.forget(batch.partition.topic)
                if outcome.error is ErrorCode.FENCED_LEADER_EPOCH:
                    self._accumulator.refuse_stale(batch.partition.topic)
        self._settle(failed, written)

    def _settle(
        self, failed: list[tuple[ProducerBatch, KafkaError, bool]], written: list[tuple[ProducerBatch, int, int]]
    ) -> None:
        given_up: list[tuple[ProducerBatch, KafkaError]] = []
        now_s = self._clock.monotonic()
        jitter = self._connection.rng.random()  # one for all: what failed together shares a request again
        due_s = self._accumulator.retries_due(now_s) if failed else []
        with self._accumulator.lock:
            for batch, _, _ in written:
                if batch.state is BatchState.IN_FLIGHT:
                    self._accumulator.lanes[batch.partition].acknowledge(batch)
            for batch, error, applied in failed:
                if batch.state is not BatchState.IN_FLIGHT:
                    continue
                lane = self._accumulator.lanes[batch.partition]
                verdict = lane.after_failure(
                    batch,
                    error,
                    may_have_applied=applied,
                    now_s=now_s,
                    deadline_s=batch.created_s + self._delivery_timeout_s,
                    unknown_topic_patience_s=UNKNOWN_TOPIC_PATIENCE_MS / 1000,
                    policy=self._policy,
                    jitter=jitter,
                )
                if isinstance(verdict, Retry):
                    if not isinstance(error, RequestFailed):
                        self._outages.failed("writing to {}-{}".format(*batch.partition), error, now_s)
                    self.metrics.record_retry_total += batch.record_count
                    earliest_s, latest_s = now_s + verdict.pause_s, now_s + verdict.pause_s_max
                    lane.requeue(batch, next((at for at in due_s if earliest_s <= at <= latest_s), earliest_s))
                elif isinstance(verdict, Split):
                    self._split(lane, batch)
                elif isinstance(verdict, Acknowledge):
                    lane.acknowledge(batch)
                    written.append((batch, -1, -1))
                elif isinstance(verdict, Fail):
                    given_up.append((batch, verdict.error))
        self._complete(written)
        self._give_up(given_up)

    def _split(self, lane: Lane, batch: ProducerBatch) -> None:
        halves = batch.split(self._config.compression, self._config.compression_level)
        lane.replace(batch, halves)
        self._accumulator.incomplete.discard(batch)
        self._accumulator.incomplete.update(halves)
        self.metrics.batch_split_total += 1

    def _complete(self, written: list[tuple[ProducerBatch, int, int]]) -> None:
        with self._accumulator.lock:
            written = [item for item in written if not item[0].is_done]
            self._accumulator.remove(batch for batch, _, _ in written)
            if not self._config.awaits_acks:
                for batch, _, _ in written:
                    self._accumulator.lanes[batch.partition].acknowledge(batch)
        for batch, base_offset, log_append_time_ms in written:
            if self._outages:
                self._outages.ended("writing to {}-{}".format(*batch.partition), self._clock.monotonic())
            self.metrics.batch_total += 1
            self.metrics.record_send_total += batch.record_count
            batch.acknowledge(base_offset, log_append_time_ms)
        self._progress.set()

    def _give_up(self, failed: list[tuple[ProducerBatch, KafkaError]]) -> None:
        if not failed:
            return
        with self._accumulator.lock:
            for batch, error in failed:
                lane = self._accumulator.lanes[batch.partition]
                if batch is lane.open:
                    lane.seal()
                lane.fail(batch, error.code)
            self._accumulator.remove(batch for batch, _ in failed)
        first = failed[0][1]
        self._log.log(
            logging.INFO if first.code is ErrorCode.TRANSACTION_ABORTABLE else logging.ERROR,  # an abort is a choice
            "%d record(s) were not written to %s: %s",
            sum(batch.record_count for batch, _ in failed),
            shown({batch.partition for batch, _ in failed}),
            first,
        )
        for batch, error in failed:
            self.metrics.record_error_total += batch.record_count
            if len(self._failures) < _FAILURES_KEPT:
                self._failures.append((error, batch))
            batch.fail(error)
        self._progress.set()
        if self.on_failure is not None:
            self.on_failure(failed[0][1])

    # --- tasks ----------------------------------------------------------------------------------------------------

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def _request_ended(self, task: asyncio.Task[None]) -> None:
        self._requests.discard(task)
        self._accumulator.wake()

    def totals(self) -> dict[str, float]:
        """Return the metrics by name."""
        return {spec.name: getattr(self.metrics, spec.name) for spec in fields(self.metrics)}


def _error_of(batch: ProducerBatch, outcome: PartitionOutcome) -> KafkaError:
    if batch.expected_offset is not None and outcome.next_offset >= 0:
        return OffsetConflict(batch.expected_offset, outcome.next_offset)
    return KafkaError(outcome.error, outcome.message or outcome.error.name)

"""The order of one partition's batches, and the sequences of an idempotent producer (KIP-98, KIP-360): pure.

A lane holds the sealed batches that have no outcome yet, oldest first.

    next_to_send    the batch that may be sent now
    after_failure   the consequence of a failed attempt: Retry, Fail, Split, or Acknowledge (a duplicate)
    fail            gives a batch up

Invariants with idempotence:
    * A batch keeps its sequence and its bytes over all attempts; up to five are in flight.
    * A batch that was sent before is sent again only when it is the oldest; new batches do not overtake it.
    * Until the first acknowledgement under an epoch, only one batch is in flight, so that no other can overtake it.
    * A batch that is given up leaves a gap in the sequences. Nothing new is sent until all attempts are answered. Then
      the remaining batches continue under the next epoch from sequence 0, which also fences any late attempt of the
      former epoch. If the next batch may have been applied already, it is first sent once more, unchanged.

A topic that grows moves keys to other partitions. `fence` is the number of partitions that the topic is known to have,
or to have more than: a batch that keys chose by fewer is not sent for the first time, and one that was refused for it
is not sent again. When nothing is in flight, and the oldest is surely not in the log, `take_stale` gives them up, and
their records go where their keys belong now (accumulator.py).

Each lane has its own epoch: a log keeps producers by partition, so trouble in one partition does not disturb another.
Without idempotence one batch is in flight, because requests overtake each other on the way to functions.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from odradek.client.producer.batch import BatchState, ProducerBatch
from odradek.client.retry import SILENT, GiveUp, RetryPolicy, decide, telling
from odradek.errors import ErrorCode, KafkaError, OffsetConflict
from odradek.limits import PRODUCER_EPOCH_MAX, SEQUENCE_MAX
from odradek.model.topic_partition import TopicPartition

_MISPLACED = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
_FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


@dataclass(frozen=True, slots=True)
class Retry:
    """Send the batch again, with the same sequence, after the pause."""

    pause_s: float
    pause_s_max: float  # retries that are due until then may share the request


@dataclass(frozen=True, slots=True)
class Fail:
    """Report the error to the caller."""

    error: KafkaError


@dataclass(frozen=True, slots=True)
class Split:
    """Send the records in two batches."""


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """The batch is in the log already, at an offset that the server no longer knows."""


Verdict = Retry | Fail | Split | Acknowledge


class Lane:
    """The sealed batches of one partition. The caller holds the accumulator's lock."""

    def __init__(self, partition: TopicPartition, *, idempotent: bool, in_flight_max: int) -> None:
        self.partition = partition
        self.open: ProducerBatch | None = None
        self.batches: deque[ProducerBatch] = deque()
        self.not_before_s = 0.0
        self.producer_id = -1  # -1: not acquired yet
        self.producer_epoch = -1
        self.next_sequence = 0
        self.has_gap = False
        self.fence = 0
        self._acknowledged = False  # True after the first acknowledgement under this epoch
        self._idempotent = idempotent
        self._in_flight_max = in_flight_max if idempotent else 1

    def seal(self) -> None:
        """Move the open batch to the sealed ones."""
        if self.open is not None:
            self.open.state = BatchState.QUEUED
            self.batches.append(self.open)
            self.open = None

    @property
    def in_flight(self) -> int:
        return sum(batch.state is BatchState.IN_FLIGHT for batch in self.batches)

    @property
    def needs_producer_id(self) -> bool:
        """Return True if the lane waits for a producer id. It does not while an attempt under the former id is open."""
        return self._idempotent and self.producer_id < 0 and not self.in_flight and not self._must_ask

    @property
    def _must_ask(self) -> bool:
        return self.has_gap and bool(self.batches) and self.batches[0].maybe_applied

    def take_producer_id(self, producer_id: int, producer_epoch: int) -> None:
        """Start with a new producer id: sequences begin at 0."""
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self._begin_epoch()

    def may_start(self, now_s: float) -> bool:
        """Return True if a batch sealed now could be sent at once. Closes a gap if no batch waits behind it."""
        if self.has_gap and not self.batches:
            self._close_gap()
        return (
            now_s >= self.not_before_s
            and not self.has_gap
            and not self.needs_producer_id
            and all(batch.state is BatchState.IN_FLIGHT for batch in self.batches)
            and len(self.batches) < self._limit
        )

    @property
    def _limit(self) -> int:
        return self._in_flight_max if self._acknowledged or not self._idempotent else 1

    def next_to_send(self, now_s: float) -> ProducerBatch | None:
        """Return the batch that may be sent now, or None. Starts a new epoch if a gap has to be closed."""
        if not self.batches or now_s < self.not_before_s:
            return None
        in_flight = self.in_flight
        if in_flight >= (1 if self.has_gap else self._limit):
            return None
        if self.has_gap and not self._must_ask:
            self._close_gap()
        if self.needs_producer_id:
            return None
        oldest = self.batches[0]
        candidate = next((batch for batch in self.batches if batch.state is BatchState.QUEUED), None)
        if candidate is None or (candidate.attempts and candidate is not oldest) or self._waits_to_move(candidate):
            return None
        if self.fence and not self.is_stale(candidate) and any(map(self.is_stale, self.batches)):
            return None  # what may yet move is sent before what comes later
        return candidate

    def is_stale(self, batch: ProducerBatch) -> bool:
        """Return True if the keys of the batch may belong to other partitions."""
        return batch.chosen_by is not None and batch.chosen_by < self.fence

    def _waits_to_move(self, batch: ProducerBatch) -> bool:
        return self.is_stale(batch) and not batch.maybe_applied and batch.expected_offset is None

    def take_stale(self) -> list[ProducerBatch]:
        """Remove the stale batches and return them, oldest first; none yet while the oldest may be in the log.

        If that is not, those with later sequences are not either.
        """
        stale = [batch for batch in self.batches if self.is_stale(batch) and batch.expected_offset is None]
        if self.in_flight or (stale and stale[0].maybe_applied):
            return []
        for batch in stale:
            self.batches.remove(batch)
            self.has_gap |= batch.base_sequence >= 0
        if self.has_gap and stale:
            for batch in self.batches:  # what was sent behind it is not in the log either
                batch.forget_sequence()
                batch.attempts = 0
        return stale

    def insert(self, batch: ProducerBatch) -> None:
        """Queue a batch that came from another one: before those that were made later and have not been sent."""
        at = next(
            (
                at
                for at, other in enumerate(self.batches)
                if other.serial > batch.serial and not other.attempts and other.base_sequence < 0
            ),
            len(self.batches),
        )
        self.batches.insert(at, batch)

    def send(self, batch: ProducerBatch, now_s: float) -> None:
        """Mark the batch as in flight and assign its sequence."""
        if self._idempotent and batch.base_sequence < 0:
            batch.base_sequence = self.next_sequence
            self.next_sequence = (self.next_sequence + batch.record_count) % (SEQUENCE_MAX + 1)
        batch.state = BatchState.IN_FLIGHT
        batch.sent_behind = batch is not self.batches[0]
        batch.attempts += 1
        if batch.first_sent_s is None:
            batch.first_sent_s = now_s

    def put_back(self, batch: ProducerBatch) -> None:
        """Take back a batch that was not sent after all."""
        batch.state = BatchState.QUEUED
        batch.attempts -= 1

    def acknowledge(self, batch: ProducerBatch) -> None:
        """Remove a batch that is in the log."""
        self._acknowledged = True
        self.batches.remove(batch)

    def requeue(self, batch: ProducerBatch, not_before_s: float) -> None:
        """Keep the batch for another attempt."""
        batch.state = BatchState.QUEUED
        self.not_before_s = max(self.not_before_s, not_before_s)

    def fail(self, batch: ProducerBatch, code: ErrorCode) -> None:
        """Remove a batch that is given up. It leaves a gap if it had a sequence."""
        self.batches.remove(batch)
        if batch.base_sequence >= 0:
            self.has_gap = True
        if code in _FENCED:
            self.producer_id = -1

    def replace(self, batch: ProducerBatch, halves: list[ProducerBatch]) -> None:
        """Replace the batch by its halves."""
        at = self.batches.index(batch)
        self.batches.remove(batch)
        for half in reversed(halves):
            self.batches.insert(at, half)

    def after_failure(
        self,
        batch: ProducerBatch,
        error: KafkaError,
        *,
        may_have_applied: bool,
        now_s: float,
        deadline_s: float,
        unknown_topic_patience_s: float,
        policy: RetryPolicy,
        jitter: float,
    ) -> Verdict:
        """Decide what a failed attempt means for its batch.

        Args:
            may_have_applied: True if the attempt may have taken effect in spite of the error.
            deadline_s: the time at which the batch is given up (delivery_timeout_ms).
        """
        code = error.code
        batch.cause = telling(batch.cause, error)
        if self._idempotent:
            if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                return Acknowledge()
            if code in _MISPLACED and (verdict := self._misplaced(batch, error)) is not None:
                return verdict
            batch.maybe_applied |= may_have_applied
        if code is ErrorCode.FENCED_LEADER_EPOCH and batch.chosen_by is not None:
            batch.maybe_applied = False
            if batch.expected_offset is None:
                self.fence = max(self.fence, batch.chosen_by + 1)
                return Retry(0.0, 0.0)
            return Fail(error)
        if code in _TOO_LARGE and batch.record_count > 1:
            return Split()
        patience_s = deadline_s
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and batch.first_sent_s is not None:
            patience_s = min(deadline_s, batch.first_sent_s + unknown_topic_patience_s)
        if not self._idempotent and may_have_applied and batch.expected_offset is not None:
            # Sent again, the record could conflict with itself, and the caller would take it for another's record.
            return Fail(KafkaError(code, f"{error.message}; the record may have been written"))
        again = decide(error, attempts=batch.attempts, left_s=patience_s - now_s, policy=policy, jitter=jitter)
        if isinstance(again, GiveUp):
            if again.timed_out and code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return Fail(gave_up(batch, f"given up after {batch.attempts} attempts"))
            if batch.attempts > 1 and not isinstance(error, OffsetConflict):
                error = KafkaError(code, f"{error.message} (given up after {batch.attempts} attempts)")
            return Fail(error)
        return Retry(again.seconds, again.seconds_max)

    def _misplaced(self, batch: ProducerBatch, error: KafkaError) -> Verdict | None:
        """Handle a sequence that the server does not expect, or a producer that it has forgotten; None means final."""
        forgotten = error.code is ErrorCode.UNKNOWN_PRODUCER_ID
        # The batches before it may have been acknowledged since the server looked, so it is retried as the first.
        if batch is not self.batches[0] or batch.sent_behind or self.has_gap:
            batch.maybe_applied = False
            return Retry(0.0, 0.0)
        if forgotten and not batch.maybe_applied:
            self.has_gap = True  # the log has nothing of this producer any more: start a new epoch
            return Retry(0.0, 0.0)
        return None

    def _close_gap(self) -> None:
        if self.producer_epoch >= PRODUCER_EPOCH_MAX:
            self.producer_id = -1
        if self.producer_id >= 0:
            self.producer_epoch += 1
        self._begin_epoch()

    def _begin_epoch(self) -> None:
        for batch in self.batches:
            batch.forget_sequence()
        self.next_sequence = 0
        self.has_gap = False
        self._acknowledged = False


def gave_up(batch: ProducerBatch, why: str) -> KafkaError:
    """Return the error of a batch whose time ran out: the last answer of the service, if it is known.

    REQUEST_TIMED_OUT if the service never answered, or if the batch may have been written in spite of the error.
    """
    cause = batch.cause
    text = why + (" and may have been written" if batch.maybe_applied else "")
    if cause is None:
        return KafkaError(ErrorCode.REQUEST_TIMED_OUT, text)
    if cause.code in SILENT or batch.maybe_applied:
        return KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{text}; last: {cause}")
    return KafkaError(cause.code, f"{cause.message} ({text})")

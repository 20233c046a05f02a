"""The accumulator gathers records into batches. Any thread appends; the event loop drains.

One lock guards lanes, open batches and the memory count; it is held for microseconds. An append wakes the loop only
for a new batch (its linger begins) or a sealed one (it may be sent).

A drain takes the batches that are ready: sealed by size, flushed, or open for as long as pace.py lets them wait. When
one partition is ready, open batches of other partitions are sent with it, since a call and its upload cost more than a
smaller batch. Several batches, at most one per partition, share a request up to max_request_size.

When a topic has grown, records that were partitioned by its former number of partitions, and are not in the log, are
partitioned again before any later record of the same keys is sent (docs/decisions/0062).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from odradek.client.config import ProducerConfig
from odradek.client.producer.batch import BatchState, ProducerBatch
from odradek.client.producer.lane import Lane
from odradek.client.producer.pace import Pace
from odradek.client.producer.partitioner import PartitionChooser
from odradek.client.producer.record_future import RecordFuture
from odradek.errors import ErrorCode, FormatError, KafkaError
from odradek.limits import BATCH_HEADER_BYTES
from odradek.model.record import Header
from odradek.model.topic_partition import TopicPartition
from odradek.ports.clock import Clock

if TYPE_CHECKING:
    from odradek.client.producer.table_batches import EncodedBody

_RECORD_OVERHEAD_BYTES = 26  # lengths, deltas and header count of a record, at most, without its headers
_HEADER_OVERHEAD_BYTES = 10


def header_bytes(headers: Sequence[Header]) -> int:
    """Return an upper bound of the size of headers in an uncompressed batch."""
    return sum(
        _HEADER_OVERHEAD_BYTES + 4 * len(name) + (0 if content is None else len(content)) for name, content in headers
    )


class Accumulator:
    """Batches by partition, bounded by buffer_memory."""

    def __init__(self, config: ProducerConfig, chooser: PartitionChooser, clock: Clock) -> None:
        self.lock = threading.Lock()
        self.lanes: dict[TopicPartition, Lane] = {}
        self.incomplete: set[ProducerBatch] = set()  # batches without an outcome
        self.bytes_held = 0
        self._config = config
        self.chooser = chooser
        self._clock = clock
        self._serial = 0
        self.pace = Pace(config)
        self._buffer_memory = config.buffer_memory
        self._batch_size = config.batch_size
        self._is_transactional = config.transactional_id is not None
        self._choose = chooser.choose
        self._chooses_by_key = chooser.is_by_key
        self._counts: dict[str, int] = {}  # partitions of topics that have grown
        self._growing: set[str] = set()  # topics that may have batches chosen by fewer
        self._lane: Callable[[tuple[str, int]], Lane | None] = self.lanes.get  # type: ignore[assignment]
        self._record_bytes_max = min(config.max_request_size, config.buffer_memory) - BATCH_HEADER_BYTES
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_thread: int | None = None
        self._work = asyncio.Event()
        self._woken = False

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Remember the loop that drains. Called on that loop."""
        self._loop = loop
        self._loop_thread = threading.get_ident()

    # --- append: any thread ---------------------------------------------------------------------------------------

    def append(
        self,
        topic: str,
        partition: int | None,
        partition_count: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        expected_offset: int | None = None,
    ) -> RecordFuture | None:
        """Add a record; return None if buffer_memory has no room for it now.

        A record with an expected offset becomes a batch by itself, which is sent without lingering.

        Raises:
            KafkaError: MESSAGE_TOO_LARGE; INVALID_RECORD for a record that cannot be encoded; any error of the
                partitioner.
        """
        # Every record takes this path, and a call costs as much as the rest of a line, so it is flat.
        key_size = -1 if key is None else len(key)
        value_size = -1 if value is None else len(value)
        size = _RECORD_OVERHEAD_BYTES + key_size + value_size
        if headers:
            size += header_bytes(headers)
        if size > self._record_bytes_max:
            raise self._too_large(size)
        wake = False
        with self.lock:
            if self.bytes_held + size > self._buffer_memory:
                return None
            chosen_by = None
            if partition is None:
                partition = self._choose(topic, key, value, partition_count)
                if key is not None and self._chooses_by_key:
                    chosen_by = partition_count
            lane = self._lane((topic, partition))
            if lane is None:
                lane = self._new_lane(TopicPartition(topic, partition))
            batch = lane.open
            if batch is None or batch.bytes_held + size > self._batch_size or expected_offset is not None:
                if batch is not None:
                    self._seal(lane)
                batch = self._new_batch(lane.partition)
                batch.expected_offset = expected_offset
                wake = True
            try:
                index = batch.append(timestamp_ms, key, value, headers)
            except (FormatError, TypeError, ValueError, AttributeError) as error:
                raise _invalid(error) from error
            if chosen_by is not None:
                batch.chosen_by = chosen_by
                if chosen_by < lane.fence:
                    self._growing.add(topic)
            future = RecordFuture(batch, index, timestamp_ms, key_size, value_size)
            batch.bytes_held += size
            self.bytes_held += size
            if wake:  # only now, so that a record that cannot be written leaves no empty batch
                lane.open = batch
                self.incomplete.add(batch)
            if batch.bytes_held >= self._batch_size or expected_offset is not None:
                self._seal(lane)
                wake = True
        if wake:
            self.wake()
        return future

    def append_body(
        self, topic: str, partition: int, body: EncodedBody, chosen_by: int | None = None
    ) -> ProducerBatch | None:
        """Add a finished batch after those that wait for its partition; return None if buffer_memory has no room now.

        Args:
            chosen_by: by how many partitions keys chose this one; None: no key did.

        Raises KafkaError(MESSAGE_TOO_LARGE).
        """
        size = body.size_bytes
        if size - BATCH_HEADER_BYTES > self._record_bytes_max:
            raise self._too_large(size)
        with self.lock:
            if self.bytes_held + size > self._buffer_memory:
                return None
            lane = self._lane((topic, partition)) or self._new_lane(TopicPartition(topic, partition))
            if lane.open is not None:
                self._seal(lane)
            batch = self._new_batch(lane.partition, body)
            batch.bytes_held = size
            batch.chosen_by = chosen_by
            if lane.is_stale(batch):
                self._growing.add(topic)
            self.bytes_held += size
            lane.open = batch
            self.incomplete.add(batch)
            lane.seal()
        self.wake()
        return batch

    def _too_large(self, size: int) -> KafkaError:
        return KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the record has {size} bytes, more than max_request_size={self._config.max_request_size} "
            f"or buffer_memory={self._config.buffer_memory} allows",
        )

    def _new_lane(self, partition: TopicPartition) -> Lane:
        lane = self.lanes[partition] = Lane(
            partition,
            idempotent=self._config.enable_idempotence,
            in_flight_max=self._config.max_in_flight_requests_per_connection,
        )
        lane.fence = self._counts.get(partition.topic, 0)
        return lane

    def _new_batch(self, partition: TopicPartition, body: EncodedBody | None = None) -> ProducerBatch:
        self._serial += 1
        return ProducerBatch(
            partition,
            self._serial,
            self._clock.monotonic(),
            self._config.compression,
            self._config.compression_level,
            self._loop_thread,
            body,
        )

    def _seal(self, lane: Lane) -> None:
        lane.seal()
        self.chooser.batch_sealed(lane.partition.topic, lane.partition.partition)

    # --- topics that grow: the loop -------------------------------------------------------------------------------

    def grow(self, topic: str, partition_count: int) -> None:
        """Note that a topic has more partitions now: before the next drain, and before records go by that number."""
        if self._is_transactional:
            return  # the commit refuses what was partitioned by fewer, and nothing of it is in a log
        with self.lock:
            self._counts[topic] = partition_count
            self._growing.add(topic)
            for lane in self._lanes_of(topic):
                lane.fence = max(lane.fence, partition_count)
                if lane.open is not None:
                    self._seal(lane)

    def refuse_stale(self, topic: str) -> None:
        """Note that the service has refused a batch since its topic has grown."""
        with self.lock:
            self._growing.add(topic)

    def spread_stale(self) -> set[str]:
        """Partition again what waits for it, as far as it can be; return topics whose new partitions are not known."""
        unknown: set[str] = set()
        with self.lock:
            for topic in list(self._growing):
                count = self._counts.get(topic, 0)
                lanes = [lane for lane in self._lanes_of(topic) if self._has_stale(lane)]
                if not lanes:
                    self._growing.discard(topic)
                elif any(lane.fence > count for lane in lanes):
                    unknown.add(topic)
                else:
                    for lane in lanes:
                        self._spread(lane, count)
        return unknown

    def _spread(self, lane: Lane, count: int) -> None:
        if lane.open is not None:
            self._seal(lane)
        topic = lane.partition.topic
        for batch in lane.take_stale():
            parts = batch.spread(
                lambda key, value: self._choose(topic, key, value, count),
                count,
                self._config.compression,
                self._config.compression_level,
            )
            self.incomplete.discard(batch)
            self.incomplete.update(parts)
            for part in parts:
                (self._lane(part.partition) or self._new_lane(part.partition)).insert(part)

    def _lanes_of(self, topic: str) -> list[Lane]:
        return [lane for lane in self.lanes.values() if lane.partition.topic == topic]

    def _has_stale(self, lane: Lane) -> bool:
        return any(lane.is_stale(batch) for batch in lane.batches) or (
            lane.open is not None and lane.is_stale(lane.open)
        )

    def _waiting_lanes(self) -> set[TopicPartition]:
        """The lanes whose keys may still have earlier records in stale batches of other lanes.

        Of those with stale batches themselves nothing else is sent (`Lane.next_to_send`).
        """
        waiting: set[TopicPartition] = set()
        for topic in self._growing:
            lanes = self._lanes_of(topic)
            for lane in lanes:
                number = lane.partition.partition
                for by in {batch.chosen_by for batch in lane.batches if lane.is_stale(batch) and batch.chosen_by}:
                    aligned = self._counts.get(topic, by) % by == 0
                    waiting.update(
                        other.partition
                        for other in lanes
                        if not self._has_stale(other) and (not aligned or other.partition.partition % by == number)
                    )
        return waiting

    # --- waking the loop ------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Wake the loop; cheap if it has been woken already."""
        if self._woken or self._loop is None:
            return
        self._woken = True
        if threading.get_ident() == self._loop_thread:
            self._work.set()
        else:
            try:
                self._loop.call_soon_threadsafe(self._work.set)
            except RuntimeError:  # the loop is closed: the batch fails with the producer
                return

    @property
    def work(self) -> asyncio.Event:
        """The event that is set when the loop has something to check."""
        return self._work

    def rest(self) -> None:
        """Reset the event, so that the next append wakes the loop again. The loop calls it before it checks."""
        self._work.clear()
        self._woken = False

    # --- drain: the loop, under the lock --------------------------------------------------------------------------

    def seal_for_flush(self) -> int:
        """Make everything that waits ready, and return the serial up to which a flush has to wait."""
        with self.lock:
            for lane in self.lanes.values():
                if lane.open is not None:
                    self._seal(lane)
            return self._serial

    def is_complete_up_to(self, serial: int) -> bool:
        """Return True if all batches up to this serial have an outcome."""
        with self.lock:
            return all(batch.serial > serial for batch in self.incomplete)

    def take_requests(
        self, now_s: float, requests_max: int, *, in_flight_since_s: float | None = None
    ) -> tuple[list[list[ProducerBatch]], float | None]:
        """Return batches to send now, grouped into requests, and the seconds until others may become ready.

        The batches are marked as in flight and encoded.

        Args:
            in_flight_since_s: when the newest request without an answer was sent; None: there is none.
        """
        requests: list[list[ProducerBatch]] = []
        wait_s: float | None = None
        while len(requests) < requests_max:
            with self.lock:
                ready, wait_s = self._ready(now_s, now_s if requests else in_flight_since_s)
                picked = []
                for lane in ready:
                    batch = lane.next_to_send(now_s)
                    if batch is not None:
                        lane.send(batch, now_s)
                        picked.append((lane, batch))
            if not picked:
                break
            requests += self._pack(picked, requests_max - len(requests))
        return requests, wait_s

    def _pack(self, picked: list[tuple[Lane, ProducerBatch]], requests_max: int) -> list[list[ProducerBatch]]:
        """Encode outside the lock, since compression takes time; fill requests; put back batches without room."""
        requests: list[list[ProducerBatch]] = [[]]
        size = 0
        for at, (lane, batch) in enumerate(picked):
            size += len(batch.encode(lane.producer_id, lane.producer_epoch, is_transactional=self._is_transactional))
            if size > self._config.max_request_size and requests[-1]:
                if len(requests) == requests_max:
                    with self.lock:
                        for left_lane, left in picked[at:]:
                            left_lane.put_back(left)
                    break
                requests.append([])
                size = batch.size_bytes
            requests[-1].append(batch)
        return requests

    def _ready(self, now_s: float, in_flight_since_s: float | None) -> tuple[list[Lane], float | None]:
        """Return lanes with a batch to send, oldest first, and the seconds until the next may have one.

        A request takes open batches along, unless they wait for an answer: then only full ones go beside it.
        """
        wait_s: float | None = None
        ready: list[Lane] = []
        lingering: list[Lane] = []
        waiting = self._waiting_lanes() if self._growing else ()
        for lane in self.lanes.values():
            if waiting and lane.partition in waiting:
                continue
            pause_s = lane.not_before_s - now_s
            if lane.batches and pause_s > 0:
                wait_s = pause_s if wait_s is None else min(wait_s, pause_s)
            elif lane.next_to_send(now_s) is not None:
                ready.append(lane)
            elif lane.open is not None and lane.may_start(now_s):
                left_s = self.pace.due_s(lane.open.created_s, in_flight_since_s) - now_s
                if left_s <= 0 or self._memory_is_short:
                    self._seal(lane)
                    ready.append(lane)
                else:
                    wait_s = left_s if wait_s is None else min(wait_s, left_s)
                    lingering.append(lane)
        if ready and (in_flight_since_s is None or not self.pace.waits_for_answers):
            for lane in lingering:
                self._seal(lane)
            ready += lingering
        ready.sort(key=lambda lane: lane.batches[0].created_s)
        return ready, wait_s

    def retries_due(self, now_s: float) -> list[float]:
        """Return the times at which lanes may retry, in order.

        Lanes whose retry is due at the same time share a request: during an outage, a producer of many partitions
        sends about as many requests as a producer of one.
        """
        with self.lock:
            return sorted(
                {lane.not_before_s for lane in self.lanes.values() if lane.batches and lane.not_before_s > now_s}
            )

    @property
    def _memory_is_short(self) -> bool:
        return self.bytes_held * 2 > self._config.buffer_memory

    def expired(self, now_s: float, delivery_timeout_s: float) -> list[ProducerBatch]:
        """Return the batches that have waited too long, without those in flight: their answer decides."""
        with self.lock:
            return [
                batch
                for batch in self.incomplete
                if now_s >= batch.created_s + delivery_timeout_s and batch.state is not BatchState.IN_FLIGHT
            ]

    def remove(self, batches: Iterable[ProducerBatch]) -> None:
        """Free the memory of batches that have an outcome. The caller holds the lock."""
        for batch in batches:
            if batch in self.incomplete:
                self.incomplete.discard(batch)
                self.bytes_held -= batch.bytes_held


def _invalid(error: Exception) -> KafkaError:
    code = error.code if isinstance(error, FormatError) else ErrorCode.INVALID_RECORD
    return KafkaError(code, f"the record cannot be encoded: {error}")

"""The asynchronous producer: public as odradek.aio.Producer, run by the synchronous face.

    send     serialize, choose the partition, append to its batch            (accumulator.py; any thread)
    sender   a background task: batches to requests, responses to outcomes   (sender.py, lane.py)

An error is delivered with the future of its record. If futures were not read, `flush` and `close` raise one KafkaError
with the number of failed records and the first failure, so no failure is silent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from odradek.client.config import ProducerConfig
from odradek.client.connection import Connection
from odradek.client.messages.offsets import ConsumerGroupMetadata
from odradek.client.producer.accumulator import Accumulator
from odradek.client.producer.partitioner import PartitionChooser
from odradek.client.producer.record_future import OnDelivery, RecordFuture
from odradek.client.producer.sender import Sender
from odradek.client.producer.table_future import TableFuture
from odradek.client.retry import timed_out
from odradek.errors import ErrorCode, KafkaError
from odradek.extras import extra
from odradek.model.record import Header
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from odradek.client.producer.batch import ProducerBatch
    from odradek.client.producer.table_batches import EncodedBody
    from odradek.client.producer.transactions import ProducerTransactions
    from odradek.columnar.engine import EngineName

Headers = Sequence[Header] | Mapping[str, bytes | None] | None

_WAIT_FOR_MEMORY_S = 0.5  # memory is freed with every outcome; this only bounds the wait between looks


class Producer:
    """Write records to topics.

    Use it as an async context manager, or call `start` and `close`. Configuration: docs/CLIENTS.md.

    Raises:
        KafkaError: INVALID_CONFIG for a configuration that is unknown or cannot work.
    """

    def __init__(self, config: ProducerConfig | Mapping[str, Any] | None = None, /, **configs: Any) -> None:
        self.config = config = ProducerConfig.given(config, configs)
        self._connection = Connection(config, creates_topics=True)
        self._accumulator = Accumulator(
            config, PartitionChooser(config.partitioner, self._connection.rng), self._connection.clock
        )
        self._sender = Sender(self._accumulator, self._connection, config)
        self._transactions: ProducerTransactions | None = None
        if config.transactional_id is not None:
            # Transactions need the schemas of four more APIs, which are slow to import.
            from odradek.client.producer.transactions import ProducerTransactions

            self._transactions = ProducerTransactions(
                config.transactional_id, config.transaction_timeout_ms, self._connection, self._sender
            )
        self._serialize_key = config.key_serializer
        self._serialize_value = config.value_serializer
        # Serializers over a registry need the topic, after which the subject of their schema is named.
        self._key_of_topic = getattr(config.key_serializer, "for_topic", None)
        self._value_of_topic = getattr(config.value_serializer, "for_topic", None)
        self._trace_headers: Callable[[Sequence[Header]], Sequence[Header]] | None = None
        if config.tracing_headers:
            from odradek.tracing import Tracing

            self._trace_headers = Tracing().with_context
        self._now_ms = self._connection.clock.now_ms
        self._partition_count = self._connection.metadata.partition_count
        self._running: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._closed = False

    async def start(self) -> Self:
        """Connect to the service.

        Raises:
            KafkaError: BROKER_NOT_AVAILABLE and others; the message names the address.
        """
        async with self._starting:
            if self._running is None and not self._closed:
                await self._connection.connect()
                self._accumulator.bind(asyncio.get_running_loop())
                self._running = asyncio.create_task(self._sender.run())
        return self

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        expected_offset: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> RecordFuture:
        """Queue a record, and return a future of its metadata.

        `result(timeout)` of the future, or awaiting it, waits until the record is durable. The call itself waits up to
        max_block_ms for the topic's metadata and for room in buffer_memory.

        Args:
            topic: name of the topic.
            value: bytes or None, or what the value serializer accepts. None is a tombstone.
            key: bytes or None, or what the key serializer accepts.
            headers: pairs, or a mapping, of text to bytes or None.
            partition: None lets the partitioner choose.
            timestamp_ms: event time since the epoch; None is now.
            expected_offset: write the record only if it gets this offset, the partition's next one. Otherwise the
                future raises OffsetConflict with the actual end of the log. Name the partition, or give a key.
            on_delivery: called with (error, metadata) when the outcome is known, one of them None, on the producer's
                thread.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION, MESSAGE_TOO_LARGE, INVALID_RECORD; INVALID_REQUEST for an expected
                offset that cannot be used; REQUEST_TIMED_OUT if there was no room in time.
        """
        record = self.prepare(value, key, headers, timestamp_ms, topic)
        future = self.try_send(topic, record, partition, expected_offset)
        if future is None:
            future = await self.send_when_possible(topic, record, partition, expected_offset)
        if on_delivery is not None:
            future.deliver(on_delivery)
        return future

    async def send_and_wait(self, topic: str, value: Any = None, **record: Any) -> Any:
        """Send a record and wait for its metadata."""
        return await (await self.send(topic, value, **record))

    # --- the parts of send, shared with the synchronous face ------------------------------------------------------

    def prepare(
        self, value: Any, key: Any, headers: Headers, timestamp_ms: int | None, topic: str
    ) -> tuple[int, bytes | None, bytes | None, Sequence[Header]]:
        """Return timestamp, key, value and headers as they are written. Raises KafkaError(INVALID_RECORD)."""
        if self._key_of_topic is not None:
            key = self._key_of_topic(topic, True)(key)
        elif self._serialize_key is not None:
            key = self._serialize_key(key)
        if self._value_of_topic is not None:
            value = self._value_of_topic(topic, False)(value)
        elif self._serialize_value is not None:
            value = self._serialize_value(value)
        if not (key is None or type(key) is bytes):
            key = _as_bytes("key", key)
        if not (value is None or type(value) is bytes):
            value = _as_bytes("value", value)
        if timestamp_ms is None:
            timestamp_ms = self._now_ms()
        checked: Sequence[Header] = _as_headers(headers) if headers else ()
        if self._trace_headers is not None:
            checked = self._trace_headers(checked)
        return timestamp_ms, key, value, checked

    def try_send(
        self,
        topic: str,
        record: tuple[int, bytes | None, bytes | None, Sequence[Header]],
        partition: int | None,
        expected_offset: int | None = None,
    ) -> RecordFuture | None:
        """Append without waiting, from any thread; return None if metadata or memory is missing. Raises as `send`."""
        self._check_open()
        count = self._partition_count(topic)
        if count is None or self._running is None or (partition is not None and not 0 <= partition < count):
            return None
        timestamp_ms, key, value, headers = record
        if expected_offset is not None:
            self._check_expected(expected_offset, key, partition)
        return self._accumulator.append(topic, partition, count, timestamp_ms, key, value, headers, expected_offset)

    async def send_when_possible(
        self,
        topic: str,
        record: tuple[int, bytes | None, bytes | None, Sequence[Header]],
        partition: int | None,
        expected_offset: int | None = None,
    ) -> RecordFuture:
        """Get the metadata, wait for memory, append. Raises as `send`."""
        deadline_s = self._connection.clock.monotonic() + self.config.max_block_ms / 1000
        await self.start()
        await self._partitions_with(topic, partition)
        while True:
            future = self.try_send(topic, record, partition, expected_offset)
            if future is not None:
                return future
            await self._wait_for_memory(deadline_s)

    def _check_open(self) -> None:
        self._connection.origin.check()
        if self._closed:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the producer is closed: create a new one")
        if self._transactions is not None:
            self._transactions.check_open()

    async def _partitions_with(self, topic: str, partition: int | None) -> int:
        """Return the partition count of the topic. Raises KafkaError if `partition` is not one of them."""
        block_ms = self.config.max_block_ms
        metadata = await self._connection.metadata.topic(topic, timeout_ms=block_ms)
        if partition is not None and not 0 <= partition < metadata.partition_count:
            self._connection.metadata.forget(topic)  # it may have got more partitions
            metadata = await self._connection.metadata.topic(topic, timeout_ms=block_ms)
            if not 0 <= partition < metadata.partition_count:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"topic {topic!r} has partitions 0 to {metadata.partition_count - 1}, not {partition}",
                )
        return metadata.partition_count

    async def _wait_for_memory(self, deadline_s: float) -> None:
        left_s = deadline_s - self._connection.clock.monotonic()
        if left_s <= 0:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"no room in buffer_memory={self.config.buffer_memory} within "
                f"max_block_ms={self.config.max_block_ms}: records are sent faster than they are acknowledged",
            )
        self._accumulator.wake()
        await self._sender.wait_progress(min(left_s, _WAIT_FOR_MEMORY_S))

    def _check_expected(self, expected_offset: int, key: bytes | None, partition: int | None) -> None:
        if expected_offset < 0:
            why = f"an offset cannot be negative: {expected_offset}"
        elif partition is None and key is None:
            why = "name the partition, or give a key that chooses it"
        elif self._transactions is not None:
            why = "the offsets of a transaction are not known before its commit"
        elif not self.config.awaits_acks:
            why = "acks=0 cannot report a conflict"
        elif self.config.transactional_id is not None:
            why = "the offsets of a transaction are not known before its commit"
        else:
            return
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"expected_offset cannot be used: {why}")

    # --- the rest -------------------------------------------------------------------------------------------------

    async def send_table(
        self,
        topic: str,
        table: Any,
        *,
        key: str = "key",
        value: str = "value",
        timestamp: str = "timestamp",
        headers: str = "headers",
        partition: int | str | None = None,
        engine: EngineName = "auto",
    ) -> TableFuture:
        """Queue the rows of a table, encoded column by column, and return a future of counts and offsets.

        The call returns when the last row is queued: batches are sent while later rows are encoded, and buffer_memory
        bounds the rest. Rows of one partition keep their order. Serializers are not used: columns are bytes or text.

        Args:
            topic: name of the topic.
            table: an Arrow table, record batch or reader, or a pandas, Polars or DuckDB frame.
            key: name of the key column; it may be missing unless it is named here.
            value: name of the value column, which is required.
            timestamp: name of the column of timestamps, of any unit, or integers in ms; as `key`.
            headers: name of the column of headers, a list of structs (key, value) or a map; as `key`.
            partition: a number for all rows, or the name of an integer column; None lets the partitioner choose.
            engine: `numba`, `python`, or `auto` for numba if it is installed.

        Raises:
            KafkaError: as `send`; INVALID_RECORD for a table that cannot be sent. Rows before the failing one may
                already be queued.
        """
        with extra("table"):
            from odradek.client.producer.table_batches import TableBatches

        names = {"key": key, "value": value, "timestamp": timestamp, "headers": headers}
        await self.start()
        count = await self._partitions_with(topic, partition if isinstance(partition, int) else None)
        chooser = self._accumulator.chooser
        source = TableBatches(
            topic,
            table,
            names=names,
            required=[name for role, name in names.items() if role == "value" or name != role],
            partition=partition,
            partition_count=count,
            config=self.config,
            choose=(lambda key, value: chooser.choose(topic, key, value, count)) if chooser.is_custom else None,
            now_ms=self._now_ms(),
            random=self._connection.rng.random(),
            engine=engine,
        )
        chosen_by = count if partition is None and chooser.is_by_key else None
        bodies = iter(source)
        batches: list[ProducerBatch] = []
        while some := await asyncio.to_thread(_take, bodies, self.config.max_request_size):
            for number, body in some:
                batches.append(await self._append_body(topic, number, body, chosen_by))
        return TableFuture(topic, batches)

    async def _append_body(self, topic: str, partition: int, body: EncodedBody, chosen_by: int | None) -> ProducerBatch:
        deadline_s = self._connection.clock.monotonic() + self.config.max_block_ms / 1000
        while True:
            self._check_open()
            batch = self._accumulator.append_body(topic, partition, body, chosen_by)
            if batch is not None:
                return batch
            await self._wait_for_memory(deadline_s)

    async def flush(self, timeout: float | None = None) -> None:
        """Send everything that was queued so far without lingering, and wait for its outcome.

        Args:
            timeout: in seconds; None waits at most delivery_timeout_ms.

        Raises:
            KafkaError: records failed whose futures were never read; REQUEST_TIMED_OUT after the timeout.
        """
        self._connection.origin.check()
        serial = self._accumulator.seal_for_flush()
        self._accumulator.wake()
        try:
            async with asyncio.timeout(timeout):
                await self._sender.wait_complete(serial)
        except TimeoutError:
            raise timed_out("flush", (timeout or 0) * 1000, self._sender.cause()) from None
        failure = self._sender.take_unseen_failure()
        if failure is not None:
            raise failure

    # --- transactions ---------------------------------------------------------------------------------------------

    async def init_transactions(self) -> None:
        """Take over the transactional id and fence its previous producer. Call it once, before the first transaction.

        Raises:
            KafkaError: INVALID_CONFIG without a transactional_id; INVALID_TRANSACTION_TIMEOUT and others.
        """
        await self.start()
        await self._transactional.init()

    async def begin_transaction(self) -> None:
        """Begin a transaction: records that are sent from now on become visible at `commit_transaction`, or never."""
        self._transactional.begin()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group_metadata: ConsumerGroupMetadata | str
    ) -> None:
        """Commit a consumer's offsets as part of the transaction.

        Args:
            offsets: the next offset to read of each partition.
            group_metadata: `consumer.group_metadata()`, or a group id if partitions were assigned by `assign`.

        Raises:
            KafkaError: the transaction has to be aborted.
        """
        await self._transactional.send_offsets(offsets, group_metadata)

    async def commit_transaction(self) -> None:
        """Flush, then make all records and offsets of the transaction visible in one step.

        Raises:
            KafkaError: REQUEST_TIMED_OUT if the outcome is unknown: commit again. PRODUCER_FENCED if another producer
                has the transactional id, or the transaction was open for too long. Otherwise abort the transaction.
        """
        await self._transactional.commit()

    async def abort_transaction(self) -> None:
        """Discard the transaction. Records that are not acknowledged yet fail with TRANSACTION_ABORTABLE."""
        await self._transactional.abort()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """Run the block of `async with producer.transaction():` in a transaction; abort it if the block raises."""
        await self.begin_transaction()
        try:
            yield self
        except BaseException:
            await self._abort_quietly()
            raise
        try:
            await self.commit_transaction()
        except KafkaError as error:
            if not error.is_retryable:
                await self._abort_quietly()
            raise

    async def _abort_quietly(self) -> None:
        """Abort after a failure, without raising: the failure is what the caller sees."""
        if self._transactional.is_open:
            try:
                await self.abort_transaction()
            except KafkaError:
                return

    @property
    def _transactional(self) -> ProducerTransactions:
        if self._transactions is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, "transactions need a transactional_id: set one")
        self._connection.origin.check()
        return self._transactions

    # --- the end --------------------------------------------------------------------------------------------------

    async def close(self, timeout: float | None = None) -> None:
        """Abort an open transaction, flush, and stop. May be called twice. Raises as `flush`, but closes anyway."""
        if self._closed or self._connection.origin.is_parent:
            return
        try:
            if self._transactions is not None:
                await self._abort_quietly()  # what was not committed is not to be
            if self._running is not None:
                await self.flush(timeout)
        finally:
            self._closed = True
            await self._sender.stop()
            if self._running is not None:
                self._running.cancel()
                await asyncio.gather(self._running, return_exceptions=True)
            await self._connection.close()

    async def partitions_for(self, topic: str) -> set[int]:
        """Return the partitions of a topic.

        Raises:
            KafkaError: UNKNOWN_TOPIC_OR_PARTITION.
        """
        await self.start()
        metadata = await self._connection.metadata.topic(topic, timeout_ms=self.config.max_block_ms)
        return set(range(metadata.partition_count))

    def metrics(self) -> dict[str, float]:
        """Return totals since the start, and the present state of the buffer."""
        totals = self._sender.totals()
        requests, batches, out = totals["request_total"], totals["batch_total"], totals["outgoing_byte_total"]
        return {
            **totals,
            "buffer_available_bytes": self.config.buffer_memory - self._accumulator.bytes_held,
            "records_per_batch_avg": totals["record_send_total"] / batches if batches else 0.0,
            "compression_rate_avg": out / totals["uncompressed_byte_total"] if out else 1.0,
            "request_latency_avg": totals["request_latency_ms_total"] / requests if requests else 0.0,
        }

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except KafkaError:
            if error is None:  # the error of the block is the one to tell
                raise


def _take(bodies: Iterator[tuple[int, EncodedBody]], size_bytes: int) -> list[tuple[int, EncodedBody]]:
    """Take bodies for about one request; empty at the end. Runs on a worker thread."""
    taken: list[tuple[int, EncodedBody]] = []
    for number, body in bodies:
        taken.append((number, body))
        size_bytes -= body.size_bytes
        if size_bytes <= 0:
            break
    return taken


def _as_bytes(name: str, value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise KafkaError(
        ErrorCode.INVALID_RECORD, f"a {name} must be bytes or None, not {type(value).__name__}: set {name}_serializer"
    )


def _as_headers(headers: Headers) -> list[Header]:
    pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
    checked: list[Header] = []
    try:
        for name, content in pairs:
            if not isinstance(name, str) or not (
                content is None or isinstance(content, bytes | bytearray | memoryview)
            ):
                raise TypeError
            checked.append((name, None if content is None else bytes(content)))
    except (TypeError, ValueError):
        raise KafkaError(
            ErrorCode.INVALID_RECORD, "headers must be pairs of text and bytes (or None), or a mapping of these"
        ) from None
    return checked

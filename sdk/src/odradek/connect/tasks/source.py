"""The loop of a source task: poll, transform, convert, and write records and offsets in one transaction (KIP-618).

    start    take over the transactional id, which fences an older run of this task; then check that this generation of
             tasks is still the present one, so that a late start of an old generation ends here
    loop     poll -> records -> [begin, send, offsets, commit] -> task.commit

`transaction.boundary` says what is one transaction: the records of a poll, those of an interval, or what the task says.
A transaction that cannot be committed is aborted and written again from the records at hand. Without exactly once the
records are flushed first and the offsets written afterwards: at least once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from odradek.backoff import Backoff
from odradek.client.producer.sync import Producer
from odradek.connect.errors import ConnectError, RetriableError
from odradek.connect.plugin import SourceTask, TransactionContext
from odradek.connect.record import Offset, Partition, SourceRecord
from odradek.connect.settings import overrides
from odradek.connect.state.offsets import SourceOffsets, frozen, offset_record
from odradek.connect.state.statuses import Unit
from odradek.connect.tasks.conversion import Conversion, Sendable
from odradek.connect.tasks.run import Environment, Run, Stopped, Superseded
from odradek.connect.tasks.tolerance import Skipped, Stage, Tolerance
from odradek.connect.tasks.topics import TopicCreation, UsedTopics
from odradek.errors import ErrorCode, KafkaError

_log = logging.getLogger("odradek.connect.source")
_FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
_REFUSED = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD, ErrorCode.RECORD_LIST_TOO_LARGE})
_WRITE_ATTEMPTS = 20
_IDLE_S = 0.05  # after an empty poll: a task that does not wait itself must not spin


def transactional_id(group_id: str, unit: Unit) -> str:
    """Return the transactional id of a source task; KIP-618's name."""
    return f"{group_id}-{unit.connector}-{unit.task}"


class TaskOffsets:
    """The stored offsets of one connector as its tasks see them: as of the task's start, and what it wrote since."""

    def __init__(self, offsets: SourceOffsets, connector: str) -> None:
        self._found = offsets.of(connector)

    def offset(self, partition: Partition) -> Offset | None:
        return self._found.get(frozen(partition))

    def note(self, written: Mapping[str, tuple[Partition, Offset]]) -> None:
        self._found.update({key: offset for key, (_, offset) in written.items()})


class _Boundaries:
    """plugin.TransactionContext: what the task has asked for since it was asked the last time."""

    def __init__(self) -> None:
        self._batch: bool | None = None  # True: commit behind the batch, False: abort
        self._records: dict[int, bool] = {}  # by identity; the records are kept alive by the batch
        self._lock = threading.Lock()

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        self._ask(record, True)

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        self._ask(record, False)

    def _ask(self, record: SourceRecord | None, is_commit: bool) -> None:
        with self._lock:
            if record is None:
                self._batch = is_commit
            else:
                self._records[id(record)] = is_commit

    def behind(self, record: SourceRecord) -> bool | None:
        """Return whether to commit or to abort behind a record; None: neither."""
        with self._lock:
            return self._records.pop(id(record), None)

    def behind_batch(self) -> bool | None:
        with self._lock:
            batch_asked, self._batch = self._batch, None
            self._records.clear()
            return batch_asked


class _Context:
    """plugin.SourceContext."""

    def __init__(
        self,
        environment: Environment,
        offsets: TaskOffsets,
        wait: Callable[[float], bool],
        transaction: TransactionContext | None,
    ) -> None:
        self.clock, self.client = environment.clock, environment.settings.client
        self._offsets, self.wait, self.transaction = offsets, wait, transaction

    def offset(self, partition: Partition) -> Offset | None:
        return self._offsets.offset(partition)


class SourceTaskRun(Run):
    """A running source task.

    Args:
        make: returns the task.
        connector: the connector's configuration, parsed by the worker's definitions, and as it was given.
        task_configs: the task's own.
        is_current: returns whether this generation is still the present one, after everything was read.
    """

    def __init__(
        self,
        unit: Unit,
        environment: Environment,
        generation: int,
        *,
        paused: bool,
        make: Callable[[], SourceTask],
        connector: tuple[Mapping[str, Any], Mapping[str, Any]],
        task_configs: Mapping[str, str],
        is_current: Callable[[], bool],
    ) -> None:
        super().__init__(unit, environment, generation, paused=paused)
        self._make, self._task_configs, self._is_current = make, task_configs, is_current
        self._configs, self._given = connector
        self._written: dict[str, tuple[Partition, Offset]] = {}
        self._queued: list[Sendable] = []
        self._has_polled = False  # records that the task was not told to be done with yet
        self._boundaries = _Boundaries() if self._configs["transaction.boundary"] == "connector" else None

    def run(self) -> None:
        environment = self.environment
        settings = environment.settings
        tolerance = Tolerance(self.unit, self._configs, environment.clock, environment.rng, self.wait)
        conversion = Conversion(settings, self._given, tolerance)
        options = {"linger_ms": 0, **overrides(self._given, "producer")}
        if settings.is_exactly_once:
            options["transactional_id"] = transactional_id(settings.group_id, self.unit)
        task = self._make()
        with Producer(**settings.client, **options) as producer:
            if settings.is_exactly_once:
                producer.init_transactions()
            if not self._is_current():
                raise Superseded("there is a newer generation of its tasks")
            offsets = TaskOffsets(environment.offsets, self.unit.connector)
            task.initialize(_Context(environment, offsets, self.wait, self._boundaries))
            try:
                self.begin(lambda: task.start(self._task_configs))
                self._loop(task, _Writer(producer, self, tolerance, self._given), conversion, tolerance, offsets)
            finally:
                task.stop()
                conversion.close()

    def _loop(
        self, task: SourceTask, writer: _Writer, conversion: Conversion, tolerance: Tolerance, offsets: TaskOffsets
    ) -> None:
        self.put_activity()
        backoff = Backoff(self.environment.clock, self.environment.rng, first_s=0.1, max_s=10.0)
        failures = 0

        def write() -> None:
            self._write(task, writer, offsets)

        due = self._due(write)
        shown = self.is_paused
        while not self.is_stopping:
            is_paused = self.is_paused
            if is_paused != shown:
                if self._boundaries is None:  # else the open transaction goes on after the pause
                    write()
                shown = is_paused
                self.put_activity()
            if is_paused:
                self._resumed.wait()
                continue
            try:
                records = task.poll() or ()
                failures = 0
            except RetriableError as error:  # without a limit, as in Kafka Connect: no record is at stake
                _log.warning("%s polls again: %s", self.unit, error)
                self.wait(backoff.delay_s(failures))
                failures += 1
                continue
            self._take(records, conversion, tolerance, write)
            due()
            self.note_work(found=bool(records))
            if not (records or self._has_polled):
                self.wait(_IDLE_S)
        if self._boundaries is None:  # else what is behind the last boundary is polled again
            write()

    def _due(self, write: Callable[[], None]) -> Callable[[], None]:
        """Return what is called after each batch, and writes if a transaction ends there."""
        if self._configs["transaction.boundary"] == "poll":
            return write
        boundaries = self._boundaries
        if boundaries is not None:
            return lambda: self._end(boundaries.behind_batch(), write)
        clock, interval_s = self.environment.clock, self._interval_s()
        due_s = clock.monotonic() + interval_s

        def write_if_due() -> None:
            nonlocal due_s
            if self._has_polled and clock.monotonic() >= due_s:
                write()
                due_s = clock.monotonic() + interval_s

        return write_if_due

    def _interval_s(self) -> float:
        chosen = self._configs["transaction.boundary.interval.ms"]
        return float(self.environment.settings["offset.flush.interval.ms"] if chosen is None else chosen) / 1000

    def _end(self, is_commit: bool | None, write: Callable[[], None]) -> None:
        """End the transaction as the task asks. One that is aborted keeps its offsets: it does not come again."""
        if is_commit is None:
            return
        if not is_commit:
            _log.info("%s aborts a transaction of %d records", self.unit, len(self._queued))
            self._queued = []
        write()

    def _take(
        self, records: Sequence[SourceRecord], conversion: Conversion, tolerance: Tolerance, write: Callable[[], None]
    ) -> None:
        last: tuple[Partition, str] | None = None  # records in a row mostly share their partition
        for record in records:
            self._has_polled = True
            try:
                changed = None if record.is_position else conversion.transformed(record, record)
                if changed is not None:
                    self._queued.append(conversion.to_bytes(changed, record))
            except Skipped:
                pass
            partition = record.source_partition
            if partition is not None and record.source_offset is not None:
                if last is None or last[0] is not partition:
                    last = partition, frozen(partition)
                self._written[last[1]] = partition, record.source_offset
            if self._boundaries is not None:
                self._end(self._boundaries.behind(record), write)

    def _write(self, task: SourceTask, writer: _Writer, offsets: TaskOffsets) -> None:
        """Write what is queued with its offsets, and tell the task."""
        if not self._has_polled:
            return
        queued, written = self._queued, self._written
        if queued or written:
            writer.write(queued, list(written.values()))
            self._queued, self._written = [], {}
            offsets.note(written)
        self._has_polled = False
        task.commit()


class _Writer:
    """Writes batches of a source task, each with its offsets."""

    def __init__(
        self, producer: Producer, run: SourceTaskRun, tolerance: Tolerance, configs: Mapping[str, Any]
    ) -> None:
        environment = run.environment
        self._producer, self._unit, self._wait, self._tolerance = producer, run.unit, run.wait, tolerance
        self._environment = environment
        self._is_exactly_once = environment.settings.is_exactly_once
        creates = environment.settings["topic.creation.enable"]
        self._creation = TopicCreation(environment.settings.client, configs) if creates else None
        self._used = UsedTopics(
            lambda topic: environment.statuses.put_topic(topic, run.unit, environment.clock.now_ms())
        )
        self._backoff = Backoff(environment.clock, environment.rng, first_s=0.1, max_s=5.0)

    def write(self, records: list[Sendable], offsets: list[tuple[Partition, Offset]]) -> None:
        """Write records and offsets together. Raises Superseded, ConnectError."""
        for topic in dict.fromkeys(record[0] for record in records):
            if self._creation is not None:
                self._creation.ensure(topic)
            self._used.use(topic)
        offset_pairs = [offset_record(self._unit.connector, *partition_and_offset) for partition_and_offset in offsets]
        for attempt in range(_WRITE_ATTEMPTS):
            try:
                self._attempt(records, offset_pairs)
                return
            except KafkaError as error:
                if error.code in _FENCED and not self._recovered():
                    raise Superseded("another worker has taken over the task") from error
                if error.code in _REFUSED:
                    self._drop_refused(records, error)
                elif not self._may_repeat(error) or attempt == _WRITE_ATTEMPTS - 1:
                    raise ConnectError(f"the records could not be written: {error}") from error
                _log.info("%s writes its records again: %s", self._unit, error)
                if attempt and self._wait(self._backoff.delay_s(attempt)):
                    raise Stopped(f"its last records were not written: {error}") from error

    def _may_repeat(self, error: KafkaError) -> bool:
        return error.is_retryable or error.code in (ErrorCode.TRANSACTION_ABORTABLE, *_FENCED)

    def _recovered(self) -> bool:
        """Return True after a transaction that only timed out: the id is still ours."""
        if not self._is_exactly_once:
            return False
        try:
            self._producer.abort_transaction()
        except KafkaError:
            return False
        return True

    def _attempt(self, records: list[Sendable], offsets: list[tuple[bytes, bytes | None]]) -> None:
        producer, topic = self._producer, self._environment.offsets.log.topic
        if not self._is_exactly_once:
            self._send(records)
            producer.flush()
            for future in [producer.send(topic, value, key=key) for key, value in offsets]:
                future.result()
            return
        producer.begin_transaction()
        try:
            self._send(records)
            for key, value in offsets:
                producer.send(topic, value, key=key)
            producer.flush()
        except KafkaError as error:
            if error.code not in _FENCED:
                producer.abort_transaction()
            raise
        self._commit()

    def _send(self, records: list[Sendable]) -> None:
        for topic, partition, key, value, headers, timestamp_ms in records:
            self._producer.send(topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms)

    def _commit(self) -> None:
        """Commit; an unknown outcome is asked for again until it is known."""
        for attempt in range(_WRITE_ATTEMPTS):
            try:
                self._producer.commit_transaction()
                return
            except KafkaError as error:
                if error.code is not ErrorCode.REQUEST_TIMED_OUT or attempt == _WRITE_ATTEMPTS - 1:
                    if error.code not in _FENCED:
                        self._producer.abort_transaction()
                    raise
                self._wait(self._backoff.delay_s(attempt))

    def _drop_refused(self, records: list[Sendable], error: KafkaError) -> None:
        """Take the largest record away, if it is tolerated that one cannot be written."""
        if not records:
            raise ConnectError(f"the source offsets could not be written: {error}") from error
        largest = max(records, key=lambda sendable: len(sendable[2] or b"") + len(sendable[3] or b""))
        self._tolerance.handle(Stage.KAFKA_PRODUCE, largest, Producer, error)
        records.remove(largest)

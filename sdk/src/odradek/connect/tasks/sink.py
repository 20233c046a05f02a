"""The loop of a sink task: poll, convert, transform, put, and commit what the task says is durable.

The task is a member of the consumer group `connect-NAME`, which divides the partitions among the tasks and fences a
member that was away for too long. What raises RetriableError, be it `start`, `open` or `put`, is called again until it
succeeds: a target that is away for a while fails no task.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from odradek.backoff import Backoff
from odradek.client.consumer.rebalance import RebalanceListener
from odradek.client.consumer.record import ConsumerRecord
from odradek.client.consumer.sync import Consumer
from odradek.client.producer.sync import Producer
from odradek.client.types import NewTopic
from odradek.connect.errors import ConnectError, RetriableError
from odradek.connect.plugin import ErrantRecordReporter, SinkTask
from odradek.connect.record import SinkRecord
from odradek.connect.settings import overrides
from odradek.connect.state.state_topic import ensure_topic
from odradek.connect.state.statuses import Unit
from odradek.connect.tasks.conversion import Conversion
from odradek.connect.tasks.run import Environment, Run
from odradek.connect.tasks.tolerance import ErrantRecords, Skipped, Tolerance
from odradek.connect.tasks.topics import UsedTopics
from odradek.errors import ErrorCode, KafkaError
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition

_log = logging.getLogger("odradek.connect.sink")
_POLL_MS = 500
_NOT_MEMBER = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.STALE_MEMBER_EPOCH,
     ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS}
)  # fmt: skip


def group_of(connector: str) -> str:
    """Return the consumer group of a sink connector; Kafka Connect's name."""
    return f"connect-{connector}"


class _DeadLetters:
    """Writes to the dead-letter topic, which is created if it is missing."""

    def __init__(self, client: Mapping[str, Any], topic: str) -> None:
        ensure_topic(client, NewTopic(topic, num_partitions=1))
        self._topic, self._producer = topic, Producer(**client)

    def send(self, record: ConsumerRecord, headers: list[tuple[str, bytes | None]]) -> None:
        """Implement tolerance.DeadLetters; `flush` makes it durable."""
        self._producer.send(
            self._topic, record.value, key=record.key, headers=[*record.headers, *headers],
            timestamp_ms=record.timestamp_ms if record.timestamp_ms >= 0 else None,
        )  # fmt: skip

    def flush(self) -> None:
        self._producer.flush()

    def close(self) -> None:
        self._producer.close()


class _Context:
    """plugin.SinkContext."""

    def __init__(self, run: SinkTaskRun, consumer: Consumer, errant_records: ErrantRecordReporter) -> None:
        self.clock = run.environment.clock
        self.wait = run.wait
        self.errant_records = errant_records
        self._consumer = consumer
        self.sought: dict[TopicPartition, int] = {}
        self.wants_commit = False

    def assignment(self) -> set[TopicPartition]:
        return self._consumer.assignment()

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.sought.update({TopicPartition(*tp): offset for tp, offset in offsets.items()})

    def request_commit(self) -> None:
        self.wants_commit = True


class SinkTaskRun(Run):
    """A running sink task.

    Args:
        make: returns the task.
        connector: the connector's configuration, parsed by the worker's definitions, and as it was given.
        task_configs: the task's own.
    """

    def __init__(
        self,
        unit: Unit,
        environment: Environment,
        generation: int,
        *,
        paused: bool,
        make: Callable[[], SinkTask],
        connector: tuple[Mapping[str, Any], Mapping[str, Any]],
        task_configs: Mapping[str, str],
    ) -> None:
        super().__init__(unit, environment, generation, paused=paused)
        self._make, self._task_configs = make, task_configs
        self._configs, self._given = connector

    def run(self) -> None:
        settings = self.environment.settings
        name = self._configs["errors.deadletterqueue.topic.name"]
        dead_letters = _DeadLetters(settings.client, name) if name else None
        tolerance = Tolerance(
            self.unit, self._configs, self.environment.clock, self.environment.rng, self.wait, dead_letters,
            settings.providers.as_written,
        )  # fmt: skip
        conversion = Conversion(settings, self._given, tolerance)
        task = self._make()
        options = {
            "auto_offset_reset": "earliest",
            **overrides(self._given, "consumer"),
            "group_id": group_of(self.unit.connector),
            "enable_auto_commit": False,
        }
        consumer = Consumer(**settings.client, **options)
        work = _SinkWork(self, task, consumer, conversion, tolerance, dead_letters)
        try:
            task.initialize(work.context)
            self.begin(lambda: task.start(self._task_configs))
            pattern = self._configs["topics.regex"]
            consumer.subscribe(None if pattern else self._configs["topics"], pattern=pattern, listener=work)
            self.put_activity()
            work.loop()
        finally:
            work.ended = True
            consumer.close(commit=False)
            task.stop()
            conversion.close()
            if dead_letters is not None:
                dead_letters.close()


class _SinkWork(RebalanceListener):
    """The state of a sink task between two commits."""

    def __init__(
        self,
        run: SinkTaskRun,
        task: SinkTask,
        consumer: Consumer,
        conversion: Conversion,
        tolerance: Tolerance,
        dead_letters: _DeadLetters | None,
    ) -> None:
        self._run, self._task, self._consumer, self._conversion = run, task, consumer, conversion
        self._dead_letters = dead_letters
        self._clock = run.environment.clock
        self.context = _Context(run, consumer, ErrantRecords(tolerance, type(task)))
        self._positions: dict[TopicPartition, int] = {}  # the next offset to put
        self._committed: dict[TopicPartition, int] = {}
        self._batch: list[SinkRecord] = []  # converted, and not accepted by the task yet
        self._behind: dict[TopicPartition, int] = {}  # positions behind the batch
        self._unopened: list[TopicPartition] = []  # partitions that the task could not open yet
        self._interval_s = run.environment.settings["offset.flush.interval.ms"] / 1000
        self._due_s = self._clock.monotonic() + self._interval_s
        self._backoff = Backoff(self._clock, run.environment.rng, first_s=0.1, max_s=10.0)
        self._failures = 0
        self.ended = False  # the partitions were given up, or the task has failed: commit nothing more
        statuses = run.environment.statuses
        self._used = UsedTopics(lambda topic: statuses.put_topic(topic, run.unit, self._clock.now_ms()))

    # --- the loop -------------------------------------------------------------------------------------------------

    def loop(self) -> None:
        shown = self._run.is_paused
        paused: set[TopicPartition] = set()
        while not self._run.is_stopping:
            if self._run.is_paused != shown:
                shown = self._run.is_paused
                self._run.put_activity()
            # A paused task stays in its group; so does one whose batch waits for another attempt.
            is_held = shown or bool(self._batch) or bool(self._unopened)
            wanted = self._consumer.assignment() if is_held else set()
            if paused - wanted:
                self._consumer.resume(*((paused - wanted) & self._consumer.assignment()))
            if wanted - paused:
                self._consumer.pause(*(wanted - paused))
            paused = wanted
            self._seek()
            wait_ms = _POLL_MS if shown or not (self._batch or self._unopened) else 0
            polled = self._consumer.poll(wait_ms)
            self._run.note_work(found=bool(polled or self._batch))
            if polled:
                self._take([record for records in polled.values() for record in records])
            if self._unopened:
                self._open()
            elif not shown:
                self._put()
            self._commit_if_due()
        if self._run.is_resting:
            self._rest()
        self._commit(self._consumer.assignment())
        self._task.close(self._consumer.assignment())

    def _rest(self) -> None:
        try:
            self._task.rest()
        except RetriableError as error:
            _log.info("%s leaves records to its next run: %s", self._run.unit, error)

    def _seek(self) -> None:
        sought, self.context.sought = self.context.sought, {}
        for tp, offset in sought.items():
            if tp in self._consumer.assignment():
                self._consumer.seek(tp, offset)
                self._positions[tp] = offset
                self._batch = [record for record in self._batch if record.source != tp]
                self._behind.pop(tp, None)

    def _take(self, records: list[ConsumerRecord]) -> None:
        for read in records:
            self._used.use(read.topic)
            tp = read.topic_partition
            try:
                record = self._conversion.transformed(self._conversion.to_record(read), read)
                if record is not None:
                    self._batch.append(record)
            except Skipped:
                pass
            self._behind[tp] = read.offset + 1

    def _pause(self) -> None:
        self._run.wait(self._backoff.delay_s(self._failures))
        self._failures += 1

    def _put(self) -> None:
        try:
            self._task.put(self._batch)
        except RetriableError as error:
            _log.info("%s puts %d records again: %s", self._run.unit, len(self._batch), error)
            self._pause()
            return
        self._failures = 0
        self._positions.update(self._behind)
        self._batch, self._behind = [], {}

    # --- commits --------------------------------------------------------------------------------------------------

    def _commit_if_due(self) -> None:
        if self._clock.monotonic() >= self._due_s or self.context.wants_commit:
            self.context.wants_commit = False
            self._commit(self._consumer.assignment())
            self._due_s = self._clock.monotonic() + self._interval_s

    def _commit(self, partitions: set[TopicPartition]) -> None:
        """Commit what is durable of these partitions. Raises ConnectError; a retriable failure is left to the next."""
        positions = {tp: offset for tp, offset in self._positions.items() if tp in partitions}
        if not positions:
            return
        if self._dead_letters is not None:
            self._dead_letters.flush()
        try:
            durable = self._task.pre_commit(positions)
        except RetriableError as error:
            _log.info("%s commits nothing yet: %s", self._run.unit, error)
            return
        changed = {
            tp: OffsetAndMetadata(offset)
            for tp, offset in durable.items()
            if tp in positions and self._committed.get(tp) != offset
        }
        if not changed:
            return
        try:
            self._consumer.commit(changed)
        except KafkaError as error:
            if error.code not in _NOT_MEMBER and not error.is_retryable:
                raise ConnectError(f"the offsets could not be committed: {error}") from error
            _log.info("%s could not commit: %s", self._run.unit, error)
            return
        self._committed.update({tp: committed.offset for tp, committed in changed.items()})

    # --- rebalance: called inside poll ----------------------------------------------------------------------------

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        self._unopened += [tp for tp in partitions if tp not in self._unopened]
        self._open()

    def _open(self) -> None:
        """Give the task its new partitions; while its target is away, in the next round of the loop again."""
        try:
            self._task.open(list(self._unopened))
        except RetriableError as error:
            _log.info("%s opens its partitions again: %s", self._run.unit, error)
            self._pause()
            return
        self._failures, self._unopened = 0, []
        self._seek()

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        if not self.ended:
            self._commit(set(partitions))
            self._forget(partitions)

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        if not self.ended:
            self._forget(partitions)

    def _forget(self, partitions: list[TopicPartition]) -> None:
        removed = set(partitions)
        self._task.close([tp for tp in partitions if tp not in self._unopened])
        self._unopened = [tp for tp in self._unopened if tp not in removed]
        self._batch = [record for record in self._batch if record.source not in removed]
        for tp in removed:
            for kept in (self._positions, self._committed, self._behind, self.context.sought):
                kept.pop(tp, None)

"""Handling of records that fail: retries, tolerance, the log, and the dead-letter topic (KIP-298).

Each operation on a record belongs to a stage. `RetriableError` is retried until `errors.retry.timeout`. Then, and for
every other error of a converter or transform, `errors.tolerance` decides: none ends the task, all skips the record,
logs it and writes it to the dead-letter topic, with its original bytes, and headers that say what happened.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from enum import Enum
from typing import Any, Protocol, TypeVar

from odradek.backoff import Backoff
from odradek.client.consumer.record import ConsumerRecord
from odradek.connect.errors import ConnectError, RetriableError
from odradek.connect.record import SinkRecord
from odradek.connect.state.statuses import Unit
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng

_log = logging.getLogger("odradek.connect.errors")
T = TypeVar("T")
_FIRST_PAUSE_S = 0.3
_HEADER = "__connect.errors."


class Stage(Enum):
    """The stage at which a record failed, by Kafka Connect's names."""

    TASK_PUT = "TASK_PUT"
    TASK_POLL = "TASK_POLL"
    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"


class Skipped(Exception):
    """The record failed and is tolerated: go on with the next one."""


class DeadLetters(Protocol):
    """Takes the records that a sink skips."""

    def send(self, record: ConsumerRecord, headers: list[tuple[str, bytes | None]]) -> None:
        """Write the record with these headers added. Raises KafkaError."""
        ...


class Tolerance:
    """The error handling of one task.

    Args:
        unit: the task.
        configs: the connector's, parsed.
        wait: waits so many seconds and returns True if the task is to stop.
        dead_letters: None for sources, and for sinks without such a topic.
        written: a message -> the same, with configurations as they were written.
    """

    def __init__(
        self,
        unit: Unit,
        configs: Mapping[str, Any],
        clock: Clock,
        rng: Rng,
        wait: Callable[[float], bool],
        dead_letters: DeadLetters | None = None,
        written: Callable[[str], str] = str,
    ) -> None:
        self._written = written
        self._unit, self._configs, self._clock, self._wait = unit, configs, clock, wait
        self._dead_letters = dead_letters
        self._tolerates = configs["errors.tolerance"] == "all"
        longest_s = configs["errors.retry.delay.max.ms"] / 1000
        self._backoff = Backoff(clock, rng, first_s=min(_FIRST_PAUSE_S, longest_s), max_s=longest_s)
        self.skipped = 0

    def run(self, stage: Stage, record: Any, plugin: object, operation: Callable[[], T]) -> T:
        """Return the result of an operation on a record.

        Args:
            record: for the dead-letter topic and the log; of a sink, as it was read.
            plugin: named in the report.

        Raises:
            Skipped: the operation failed, and the record is to be skipped.
            ConnectError: it failed, and the task with it.
        """
        try:
            return self.retried(operation)
        except Exception as error:  # whatever a plugin raises about this record
            self.handle(stage, record, type(plugin), error)
            raise Skipped from error

    def retried(self, operation: Callable[[], T]) -> T:
        """Return the result of an operation; RetriableError is retried until the timeout, and then raised."""
        timeout_ms = self._configs["errors.retry.timeout"]
        deadline_s = self._clock.monotonic() + timeout_ms / 1000
        attempt = 0
        while True:
            try:
                return operation()
            except RetriableError:
                left_s = deadline_s - self._clock.monotonic()
                if timeout_ms >= 0 and left_s <= 0:
                    raise
                pause_s = self._backoff.delay_s(attempt)
                if self._wait(pause_s if timeout_ms < 0 else min(pause_s, left_s)):
                    raise
                attempt += 1

    def handle(self, stage: Stage, record: Any, plugin: type, error: Exception) -> None:
        """Log and report a failed record. Raises ConnectError unless it is tolerated."""
        shown = _shown(record) if self._configs["errors.log.include.messages"] else "the record"
        failure = f"{shown} failed in {stage.value} ({plugin.__name__}): {error}"
        if self._configs["errors.log.enable"]:
            _log.error("%s: %s", self._unit, failure)
        if self._dead_letters is not None and isinstance(record, ConsumerRecord):
            is_with_context = self._configs["errors.deadletterqueue.context.headers.enable"]
            headers = self._context(stage, record, plugin, error) if is_with_context else []
            self._dead_letters.send(record, headers)
        if not self._tolerates:
            raise ConnectError(f"tolerance exceeded: {failure}; errors.tolerance=all skips such records") from error
        self.skipped += 1

    def _context(
        self, stage: Stage, record: ConsumerRecord, plugin: type, error: Exception
    ) -> list[tuple[str, bytes | None]]:
        values = {
            "topic": record.topic,
            "partition": str(record.partition),
            "offset": str(record.offset),
            "connector.name": self._unit.connector,
            "task.id": str(self._unit.task),
            "stage": stage.value,
            "class.name": f"{plugin.__module__}.{plugin.__qualname__}",
            "exception.class.name": f"{type(error).__module__}.{type(error).__qualname__}",
            "exception.message": self._written(str(error)),
            "exception.stacktrace": self._written("".join(traceback.format_exception(error))),
        }
        return [(_HEADER + name, value.encode()) for name, value in values.items()]


def _shown(record: Any) -> str:
    if isinstance(record, ConsumerRecord):
        return f"the record at offset {record.offset} of {record.topic_partition}"
    return f"the record of {getattr(record, 'source_partition', None)} at {getattr(record, 'source_offset', None)}"


class ErrantRecords:
    """The reporter that a sink task uses for records that it cannot handle (KIP-610).

    Args:
        tolerance: of the task.
        plugin: the task's class.
    """

    def __init__(self, tolerance: Tolerance, plugin: type) -> None:
        self._tolerance, self._plugin = tolerance, plugin

    def report(self, record: SinkRecord, error: Exception) -> Future[None]:
        """Implement plugin.ErrantRecordReporter."""
        self._tolerance.handle(Stage.TASK_PUT, record.original or record, self._plugin, error)
        done: Future[None] = Future()
        done.set_result(None)
        return done

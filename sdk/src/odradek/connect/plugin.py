"""The parts of a connector: the classes that an author of a connector implements.

A *connector* checks its configuration and divides the work; its *tasks* do the work. A worker creates both, calls each
task from one thread, and decides where it runs. A connector therefore keeps no state between calls but what it puts
into source offsets or into its target.

    SourceTask   start -> poll, poll, ... -> stop             records carry the offset that follows them
    SinkTask     start -> open -> put, put, flush, ... -> close -> stop

Source: Kafka's org.apache.kafka.connect.{connector,source,sink}.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from enum import Enum
from typing import Any, ClassVar, Protocol

from odradek.connect.config import ConfigDef, ConfigValue
from odradek.connect.record import ConnectRecord, Offset, Partition, SinkRecord, SourceRecord
from odradek.model.topic_partition import TopicPartition
from odradek.ports.clock import Clock

Configs = Mapping[str, str]
"""A connector's or task's configuration, as JSON has it."""


class Plugin(ABC):  # noqa: B024  (what every plugin has; each kind adds its own methods)
    """Base of connectors, converters, transforms and predicates.

    The first line of the docstring is what listings show.
    """

    config_def: ClassVar[ConfigDef] = ConfigDef()
    version: ClassVar[str] = ""

    @classmethod
    def validate(cls, configs: Configs) -> dict[str, ConfigValue]:
        """Return the configurations with their errors; override it for rules about several of them."""
        return cls.config_def.validate(configs)


class ErrantRecordReporter(Protocol):
    """Takes records that a sink cannot handle."""

    def report(self, record: SinkRecord, error: Exception) -> Future[None]:
        """Count and log the record, and send it to the dead-letter topic. Raises ConnectError if `errors.tolerance`
        is none."""
        ...


class ConnectorContext(Protocol):
    """The worker's services for a connector.

    Attributes:
        client: the configuration of clients of the worker's own service.
    """

    clock: Clock
    client: Mapping[str, Any]

    def request_task_reconfiguration(self) -> None:
        """Ask for `task_configs` to be called again, as after a new table was found. May be called by any thread."""
        ...

    def offset(self, partition: Partition) -> Offset | None:
        """Return the stored source offset of a partition, or None. Only of sources."""
        ...


class TransactionContext(Protocol):
    """How a source task says where transactions end (`transaction.boundary=connector`, KIP-618)."""

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        """Commit behind this record of the next batch, or behind the whole of it."""
        ...

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        """Likewise discard the records of the transaction. Their offsets are stored: they do not come again."""
        ...


class SourceContext(Protocol):
    """The worker's services for a source task.

    Attributes:
        client: the configuration of clients of the worker's own service.
        transaction: None unless the task is to say where transactions end.
    """

    clock: Clock
    client: Mapping[str, Any]
    transaction: TransactionContext | None

    def offset(self, partition: Partition) -> Offset | None:
        """Return the stored offset of a partition, or None if none of its records was written yet."""
        ...

    def wait(self, seconds: float) -> bool:
        """Wait, at most so long, and return True if the task is to stop. Use it in place of a sleep."""
        ...


class SinkContext(Protocol):
    """The worker's services for a sink task."""

    clock: Clock

    @property
    def errant_records(self) -> ErrantRecordReporter:
        """The reporter for records that the sink cannot handle."""
        ...

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that the task has."""
        ...

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Continue at these offsets, as a sink does that keeps the offsets in its target. Takes effect before the next
        `put`."""
        ...

    def request_commit(self) -> None:
        """Ask for `flush` and a commit soon, before the interval has passed."""
        ...

    def wait(self, seconds: float) -> bool:
        """Wait, at most so long, and return True if the task is to stop."""
        ...


class ExactlyOnceSupport(Enum):
    """A source connector's answer to whether its tasks can resume exactly behind the last stored offset."""

    SUPPORTED = "supported"
    UNSUPPORTED = "unsupported"


class Connector(Plugin):
    """Base of SourceConnector and SinkConnector. A worker calls `start` once, and `stop` at the end."""

    task_class: ClassVar[type[SourceTask] | type[SinkTask]]
    _context: ConnectorContext | None = None

    def initialize(self, context: ConnectorContext) -> None:
        self._context = context

    @property
    def context(self) -> ConnectorContext:
        assert self._context is not None, "a worker calls initialize before start"
        return self._context

    def start(self, configs: Configs) -> None:
        """Take the configuration, and begin to watch for changes of the work if there are any to expect.

        Raises:
            ConfigError, ConnectError: the connector fails with this message.
            RetriableError: the worker calls again after a pause.
        """
        self.configs = dict(configs)

    @abstractmethod
    def task_configs(self, tasks_max: int) -> Sequence[Configs]:
        """Return the configuration of each task, at most so many; the same work must give the same answer.

        Raises:
            RetriableError: the worker calls again after a pause.
        """

    def stop(self) -> None:
        """Release everything. May be called without `start`."""


class SourceConnector(Connector):
    """A connector that reads from elsewhere and writes to topics."""

    @classmethod
    def exactly_once_support(cls, configs: Configs) -> ExactlyOnceSupport:
        """Return whether records are repeated or lost after a restart, given transactions of records and offsets."""
        return ExactlyOnceSupport.SUPPORTED

    @classmethod
    def can_define_transaction_boundaries(cls, configs: Configs) -> bool:
        """Return whether the tasks say where transactions end, which `transaction.boundary=connector` needs."""
        return False

    @classmethod
    def check_offsets(cls, configs: Configs, offsets: Mapping[Any, Offset | None]) -> None:
        """Check source offsets that a user wants to store. Keys are partitions as sorted pairs.

        Raises:
            BadRequest: with what is wrong.
        """


class SinkConnector(Connector):
    """A connector that reads topics and writes elsewhere."""

    @classmethod
    def alter_offsets(cls, configs: Configs, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Follow a change of the group's offsets, in targets that keep offsets themselves; None resets a partition.

        Raises:
            BadRequest: if that is impossible.
        """


class SourceTask(Plugin):
    """A task of a source."""

    context: SourceContext

    def initialize(self, context: SourceContext) -> None:
        self.context = context

    @abstractmethod
    def start(self, configs: Configs) -> None:
        """Take the task's configuration, and find the position to continue at by `context.offset`.

        Raises:
            RetriableError: the worker calls again after a pause.
        """

    @abstractmethod
    def poll(self) -> Sequence[SourceRecord] | None:
        """Return the next records; wait for them by `context.wait` no longer than a second or so.

        Raises:
            RetriableError: the worker calls again after a pause.
        """

    def commit(self) -> None:
        """Everything that `poll` returned so far is stored: the source may forget it. Called after each commit."""

    def stop(self) -> None:
        """Release everything. Called by the task's thread, also if `start` failed."""


class SinkTask(Plugin):
    """A task of a sink."""

    context: SinkContext

    def initialize(self, context: SinkContext) -> None:
        self.context = context

    @abstractmethod
    def start(self, configs: Configs) -> None:
        """Take the task's configuration. Raises RetriableError: the worker calls again after a pause."""

    def open(self, partitions: Iterable[TopicPartition]) -> None:
        """The task gets these partitions; a sink that keeps offsets in its target calls `context.seek`.

        Raises:
            RetriableError: the worker calls again after a pause, and gives no records meanwhile.
        """

    @abstractmethod
    def put(self, records: Sequence[SinkRecord]) -> None:
        """Write records, or keep them until `flush`. Also called with no records, about once a second.

        Raises:
            RetriableError: the worker calls again with the same records after a pause.
        """

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Make everything durable that was put. `offsets` are the positions behind it."""

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return the offsets that may be committed: those behind everything that is durable. Flushes by default."""
        self.flush(offsets)
        return offsets

    def rest(self) -> None:
        """The task ends because there is nothing to do, and it is not known when it will run again: write what would
        wait for more records or for its time, if the guarantee allows it. Called before the last `pre_commit`.

        Raises:
            RetriableError: what is not written comes again in the next run.
        """

    def close(self, partitions: Iterable[TopicPartition]) -> None:
        """The partitions go away, after a commit of what is durable: forget what was kept of them."""

    def stop(self) -> None:
        """Release everything. Called by the task's thread, also if `start` failed."""


class Transformation(Plugin):
    """A change of single records."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Take the configuration. Raises ConfigError."""
        self.configs = self.config_def.parse(configs)

    @abstractmethod
    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """Return the changed record, or None to drop it. Raises DataError."""

    def close(self) -> None:
        """Release everything."""


class Predicate(Plugin):
    """A condition under which a transformation applies."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        """Take the configuration. Raises ConfigError."""
        self.configs = self.config_def.parse(configs)

    @abstractmethod
    def test(self, record: ConnectRecord) -> bool:
        """Return whether the condition holds."""

    def close(self) -> None:
        """Release everything."""


Factory = Callable[[], Plugin]

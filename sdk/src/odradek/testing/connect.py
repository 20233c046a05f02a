"""The contract of connectors: what every source and sink must do, as functions that drive a task without a service.

    @pytest.mark.parametrize("check", SOURCE_CHECKS, ids=check_id)
    def test_my_source(check, tmp_path):
        check(SourceUnderTest(MySourceConnector, {...}, expected=[...], value_of=lambda record: record.value))

A source must return every record once, in any number of runs, each of which begins at the offsets that were stored
last; a sink must have every record after a commit, whatever was not committed comes again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from odradek.connect.errors import ConnectError
from odradek.connect.plugin import SinkConnector, SinkTask, SourceConnector, SourceTask, TransactionContext
from odradek.connect.record import Offset, Partition, SinkRecord, SourceRecord
from odradek.connect.state.offsets import frozen, offset_record
from odradek.model.topic_partition import TopicPartition
from odradek.ports.clock import Clock
from odradek.testing.manual_clock import ManualClock

_POLLS_MAX = 1_000  # without any record, before a check gives up
_IDLE_POLLS = 20  # without a record: the source is at its end


# --- sources ----------------------------------------------------------------------------------------------------------


@dataclass
class SourceUnderTest:
    """A source connector, and what is in its source.

    Args:
        configs: the connector's.
        expected: what `value_of` gives for all of its records, in any order.
        value_of: what tells a record of the source from the others.
        tasks_max: over how many tasks the work is divided.
        is_exactly_once: False for a source that may repeat records after a restart.
    """

    connector: type[SourceConnector]
    configs: Mapping[str, str]
    expected: Sequence[Any]
    value_of: Callable[[SourceRecord], Any] = lambda record: record.value
    tasks_max: int = 1
    is_exactly_once: bool = True
    clock: Clock = field(default_factory=ManualClock)

    def task_configs(self) -> list[Mapping[str, str]]:
        problems = {n: v.errors for n, v in self.connector.validate(self.configs).items() if v.errors}
        assert problems == {}, problems
        connector = self.connector()
        connector.initialize(_ConnectorContext(self.clock))
        connector.start(self.configs)
        try:
            tasks = list(connector.task_configs(self.tasks_max))
        finally:
            connector.stop()
        assert len(tasks) <= self.tasks_max, "more tasks than tasks.max"
        return tasks


class _ConnectorContext:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.client: Mapping[str, Any] = {}  # there is no service

    def request_task_reconfiguration(self) -> None:
        return

    def offset(self, partition: Partition) -> Offset | None:
        return None


class _Waiting:
    """Waits move a manual clock, and do nothing with another one."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.stopping = threading.Event()

    def wait(self, seconds: float) -> bool:
        if isinstance(self.clock, ManualClock):
            self.clock.advance(max(seconds, 0.001))
        return self.stopping.is_set()


class SourceDriver(_Waiting):
    """Runs one source task: polls it, and keeps the offsets as a worker does.

    Args:
        offsets: what is stored, by partition (`frozen`); `store` adds to it.
    """

    transaction: TransactionContext | None = None

    def __init__(self, task: SourceTask, configs: Mapping[str, str], clock: Clock, offsets: dict[str, Offset]) -> None:
        super().__init__(clock)
        self.client: Mapping[str, Any] = {}
        self._task, self._configs, self._offsets = task, configs, offsets
        self._read: list[SourceRecord] = []

    def offset(self, partition: Partition) -> Offset | None:
        return self._offsets.get(frozen(partition))

    def start(self) -> None:
        self._task.initialize(self)
        self._task.start(self._configs)

    def poll(self) -> list[SourceRecord]:
        """Poll once."""
        records = list(self._task.poll() or ())
        self._read += records
        return [record for record in records if not record.is_position]

    def poll_until(self, count: int) -> list[SourceRecord]:
        """Poll until there are so many records, or none for a while."""
        records: list[SourceRecord] = []
        idle = 0
        while len(records) < count and idle < _IDLE_POLLS:
            some = self.poll()
            idle = 0 if some else idle + 1
            records += some
        return records

    def store(self) -> None:
        """Store the offsets of what was polled, and tell the task."""
        for record in self._read:
            if record.source_partition is not None and record.source_offset is not None:
                offset_record("contract", record.source_partition, record.source_offset)  # it must be JSON
                self._offsets[frozen(record.source_partition)] = record.source_offset
        self._read = []
        self._task.commit()

    def stop(self) -> None:
        self.stopping.set()
        self._task.stop()


def _driver(under_test: SourceUnderTest, configs: Mapping[str, str], offsets: dict[str, Offset]) -> SourceDriver:
    task = under_test.connector.task_class()
    assert isinstance(task, SourceTask)
    driver = SourceDriver(task, configs, under_test.clock, offsets)
    driver.start()
    return driver


def _compare(under_test: SourceUnderTest, values: Sequence[Any]) -> None:
    missing = [value for value in under_test.expected if value not in values]
    assert missing == [], f"{len(missing)} records are missing, such as {missing[0]!r}"
    unknown = [value for value in values if value not in under_test.expected]
    assert unknown == [], f"{len(unknown)} records are not in the source, such as {unknown[0]!r}"
    if under_test.is_exactly_once:
        assert len(values) == len(under_test.expected), f"{len(values)} records, {len(under_test.expected)} are there"


def source_reads_everything(under_test: SourceUnderTest) -> None:
    """All tasks together return every record once."""
    values = []
    for configs in under_test.task_configs():
        driver = _driver(under_test, configs, {})
        values += [under_test.value_of(record) for record in driver.poll_until(len(under_test.expected) + 1)]
        driver.stop()
    _compare(under_test, values)


def source_restarts_anywhere(under_test: SourceUnderTest) -> None:
    """A task that is stopped after any poll, and started again at the stored offsets, continues behind them."""
    values = []
    for configs in under_test.task_configs():
        offsets: dict[str, Offset] = {}
        for _ in range(_POLLS_MAX):
            driver = _driver(under_test, configs, offsets)
            some = driver.poll_until(1)
            driver.store()
            driver.stop()
            if not some:
                break
            values += [under_test.value_of(record) for record in some]
    _compare(under_test, values)


def source_repeats_what_was_not_stored(under_test: SourceUnderTest) -> None:
    """Check that a task which died before its offsets were stored returns the same records again."""
    values = []
    for configs in under_test.task_configs():
        offsets: dict[str, Offset] = {}
        lost = _driver(under_test, configs, offsets)
        lost.poll_until(1)
        lost.stop()
        driver = _driver(under_test, configs, offsets)
        values += [under_test.value_of(record) for record in driver.poll_until(len(under_test.expected) + 1)]
        driver.stop()
    _compare(under_test, values)


def source_survives_a_pause(under_test: SourceUnderTest) -> None:
    """A task that is not polled for an hour goes on where it was."""
    values = []
    for configs in under_test.task_configs():
        driver = _driver(under_test, configs, {})
        values += [under_test.value_of(record) for record in driver.poll()]
        driver.store()
        driver.wait(3_600)
        values += [under_test.value_of(record) for record in driver.poll_until(len(under_test.expected) + 1)]
        driver.stop()
    _compare(under_test, values)


def source_begins_again_after_a_reset(under_test: SourceUnderTest) -> None:
    """Without offsets, everything is read again."""
    for _ in range(2):
        source_reads_everything(under_test)


def source_stops_without_a_start(under_test: SourceUnderTest) -> None:
    """`stop` is called even if `start` failed."""
    for _ in under_test.task_configs():
        under_test.connector.task_class().stop()


SOURCE_CHECKS: tuple[Callable[[SourceUnderTest], None], ...] = (
    source_reads_everything,
    source_restarts_anywhere,
    source_repeats_what_was_not_stored,
    source_survives_a_pause,
    source_begins_again_after_a_reset,
    source_stops_without_a_start,
)


# --- sinks ------------------------------------------------------------------------------------------------------------


@dataclass
class SinkUnderTest:
    """A sink connector, and how to look into its target.

    Args:
        configs: the connector's; `name` is added.
        record: returns the record of a number, with that offset, for the partition 0 of a topic.
        read: returns the numbers that are in the target.
        bad_record: a record with an offset, that the sink cannot take; None if there is none.
        is_exactly_once: False for a sink whose target may have a record twice.
    """

    connector: type[SinkConnector]
    configs: Mapping[str, str]
    record: Callable[[int], SinkRecord]
    read: Callable[[], Sequence[int]]
    bad_record: Callable[[int], SinkRecord] | None = None
    is_exactly_once: bool = True
    clock: Clock = field(default_factory=ManualClock)

    @property
    def place(self) -> TopicPartition:
        return self.record(0).source


class SinkDriver(_Waiting):
    """Runs one sink task, and keeps its committed offsets as a consumer group does."""

    def __init__(self, under_test: SinkUnderTest, committed: dict[TopicPartition, int]) -> None:
        super().__init__(under_test.clock)
        problems = {n: v.errors for n, v in under_test.connector.validate(under_test.configs).items() if v.errors}
        assert problems == {}, problems
        connector = under_test.connector()
        connector.start({"name": "contract", **under_test.configs})
        task = under_test.connector.task_class()
        assert isinstance(task, SinkTask)
        self.task, self._configs = task, connector.task_configs(1)[0]
        self._under_test, self._committed = under_test, committed
        self._sought: dict[TopicPartition, int] = {}
        self._put: dict[TopicPartition, int] = {}
        self.refused: list[SinkRecord] = []

    # --- plugin.SinkContext ---------------------------------------------------------------------------------------

    @property
    def errant_records(self) -> SinkDriver:
        return self

    def report(self, record: SinkRecord, error: Exception) -> Future[None]:
        self.refused.append(record)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def assignment(self) -> set[TopicPartition]:
        return {self._under_test.place}

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._sought.update(offsets)

    def request_commit(self) -> None:
        return

    # --- driving --------------------------------------------------------------------------------------------------

    def start(self) -> int:
        """Start the task, and return the offset that it begins at."""
        self.task.initialize(self)
        self.task.start(self._configs)
        return self.open()

    def open(self) -> int:
        """Give the partition to the task, and return the offset that it begins at."""
        tp = self._under_test.place
        self.task.open([tp])
        return self._sought.pop(tp, self._committed.get(tp, 0))

    def put(self, records: Sequence[SinkRecord]) -> None:
        self.task.put(records)
        for record in records:
            self._put[record.source] = record.source_position + 1

    def commit(self) -> None:
        durable = self.task.pre_commit(dict(self._put))
        self._committed.update(durable)

    def close(self, *, commit: bool) -> None:
        if commit:
            self.commit()
        self.task.close([self._under_test.place])
        self._put.clear()

    def stop(self) -> None:
        self.stopping.set()
        self.task.stop()


_COUNT = 24


def _records(under_test: SinkUnderTest, first: int, end: int) -> list[SinkRecord]:
    return [under_test.record(number) for number in range(first, end)]


def _look(under_test: SinkUnderTest, wanted: set[int], *, repeats: bool = False) -> None:
    offsets = list(under_test.read())
    assert wanted <= set(offsets), f"missing in the target: {sorted(wanted - set(offsets))}"
    if under_test.is_exactly_once or not repeats:
        assert len(offsets) == len(set(offsets)), "a record is in the target twice"


def sink_writes_what_is_committed(under_test: SinkUnderTest) -> None:
    """Everything below a committed offset is in the target."""
    committed: dict[TopicPartition, int] = {}
    driver = SinkDriver(under_test, committed)
    assert driver.start() == 0
    for number in range(_COUNT):
        driver.put(_records(under_test, number, number + 1))
        driver.commit()
        _look(under_test, set(range(committed.get(under_test.place, 0))))
    driver.put([])
    driver.close(commit=True)
    driver.stop()
    assert committed.get(under_test.place, 0) > 0, "the task never lets anything be committed"


def sink_restarts_anywhere(under_test: SinkUnderTest) -> None:
    """A task that dies after any put begins at its offset again; nothing is lost, nor there twice if it promises so."""
    committed: dict[TopicPartition, int] = {}
    reached = 0
    for end in (3, 5, 6, 11, 12, 17, _COUNT):
        driver = SinkDriver(under_test, committed)
        first = driver.start()
        assert first <= reached, "the task begins behind a record that it has not seen"
        driver.put(_records(under_test, first, end))
        reached = end
        if end % 2:
            driver.commit()
        driver.stop()  # without close: the worker was killed
    driver = SinkDriver(under_test, committed)
    driver.put(_records(under_test, driver.start(), _COUNT))
    driver.commit()
    _look(under_test, set(range(committed.get(under_test.place, 0))), repeats=True)
    driver.stop()


def sink_hands_partitions_over(under_test: SinkUnderTest) -> None:
    """A partition that goes away and comes back continues at its offset."""
    committed: dict[TopicPartition, int] = {}
    driver = SinkDriver(under_test, committed)
    driver.put(_records(under_test, driver.start(), 10))
    driver.close(commit=True)
    driver.put(_records(under_test, driver.open(), _COUNT))
    driver.commit()
    driver.stop()
    _look(under_test, set(range(committed.get(under_test.place, 0))), repeats=True)


def sink_survives_a_pause(under_test: SinkUnderTest) -> None:
    """A task that gets no records for an hour goes on."""
    committed: dict[TopicPartition, int] = {}
    driver = SinkDriver(under_test, committed)
    driver.start()
    driver.put(_records(under_test, 0, 7))
    driver.wait(3_600)
    driver.put([])
    driver.put(_records(under_test, 7, _COUNT))
    driver.commit()
    driver.stop()
    _look(under_test, set(range(committed.get(under_test.place, 0))))


def sink_does_not_swallow_a_bad_record(under_test: SinkUnderTest) -> None:
    """A record that cannot be written is reported, or fails the task; the others are written."""
    if under_test.bad_record is None:
        return
    driver = SinkDriver(under_test, {})
    driver.start()
    bad = under_test.bad_record(7)
    try:
        driver.put([*_records(under_test, 0, 7), bad, *_records(under_test, 8, _COUNT)])
        driver.commit()
    except ConnectError:
        pass  # the task fails with it
    else:
        assert driver.refused == [bad], "a bad record was neither reported nor refused"
    driver.stop()


def sink_begins_again_after_a_reset(under_test: SinkUnderTest) -> None:
    """After its offsets are reset, in its target too (`alter_offsets`), a task takes all records again."""
    committed: dict[TopicPartition, int] = {}
    for _ in range(2):
        driver = SinkDriver(under_test, committed)
        assert driver.start() == 0, "the target has kept an offset"
        driver.put(_records(under_test, 0, _COUNT))
        driver.close(commit=True)
        driver.stop()
        assert set(range(committed.get(under_test.place, 0))) <= set(under_test.read())
        committed.clear()
        under_test.connector.alter_offsets({"name": "contract", **under_test.configs}, {under_test.place: None})


def sink_stops_without_a_start(under_test: SinkUnderTest) -> None:
    """`stop` is called even if `start` failed."""
    under_test.connector.task_class().stop()


SINK_CHECKS: tuple[Callable[[SinkUnderTest], None], ...] = (
    sink_writes_what_is_committed,
    sink_restarts_anywhere,
    sink_hands_partitions_over,
    sink_survives_a_pause,
    sink_does_not_swallow_a_bad_record,
    sink_begins_again_after_a_reset,
    sink_stops_without_a_start,
)

"""Connectors of the tests: a source that counts, and a sink that keeps what it gets in this process."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from odradek.connect import DataError, RetriableError, SinkConnector, SinkTask, SourceConnector, SourceTask
from odradek.connect.config import ConfigDef, Kind
from odradek.connect.plugin import Transformation
from odradek.connect.record import ConnectRecord, SinkRecord, SourceRecord
from odradek.model.topic_partition import TopicPartition

COUNTER = f"{__name__}:CounterSource"
BOUNDED = f"{__name__}:BoundedSource"
KEEPER = f"{__name__}:KeeperSink"
KEPT: dict[str, list[SinkRecord]] = defaultdict(list)
EVENTS: dict[str, list[str]] = defaultdict(list)
FAIL: dict[str, int] = {}  # how often `put`, or NAME/start and the like, are still to fail with a RetriableError
LOCK = threading.Lock()
_A_POLL = 10


class CounterTask(SourceTask):
    def start(self, configs: Mapping[str, str]) -> None:
        self._configs = configs
        self._partition = {"counter": configs["task"]}
        stored = self.context.offset(self._partition)
        self._next = 0 if stored is None else int(stored["next"])
        _fail(f"{configs['name']}/start")
        if configs.get("fail") == "start":
            raise DataError("it cannot start")

    def poll(self) -> list[SourceRecord]:
        end = int(self._configs["count"])
        if self._next >= end:
            self.context.wait(0.05)
            return []
        if self._configs.get("fail") == str(self._next):
            raise ValueError("a bug of the connector")
        self.context.wait(float(self._configs.get("pause", "0")))
        first, self._next = self._next, min(self._next + _A_POLL, end)
        return [self._record(number) for number in range(first, self._next)]

    def _record(self, number: int) -> SourceRecord:
        return SourceRecord(
            topic=self._configs["topic"],
            value={"task": self._configs["task"], "n": number},
            source_partition=self._partition,
            source_offset={"next": number + 1},
        )


class CounterSource(SourceConnector):
    """Counts."""

    task_class = CounterTask
    config_def = (
        ConfigDef().define("topic", Kind.STRING, documentation="The topic.").define("count", Kind.INT, 100, "How many.")
    )

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        return [{"count": "100", **self.configs, "task": str(number)} for number in range(tasks_max)]


class BoundedTask(CounterTask):
    """Transactions of 15 records, of which the third is aborted; polls return 10."""

    def poll(self) -> list[SourceRecord]:
        records = super().poll()
        assert self.context.transaction is not None
        for record in records:
            number = record.value["n"]
            if number % 15 == 14:
                ask = self.context.transaction.abort_transaction if number == 44 else None
                (ask or self.context.transaction.commit_transaction)(record)
        if records and self._next == int(self._configs["count"]):
            self.context.transaction.commit_transaction()
        return records


class BoundedSource(CounterSource):
    """Counts, and says where transactions end."""

    task_class = BoundedTask

    @classmethod
    def can_define_transaction_boundaries(cls, configs: Mapping[str, str]) -> bool:
        return True


def _fail(what: str) -> None:
    if FAIL.get(what, 0) > 0:
        FAIL[what] -= 1
        raise RetriableError("the target is busy")


class KeeperTask(SinkTask):
    def start(self, configs: Mapping[str, str]) -> None:
        self._name = configs["name"]
        self._refuses = configs.get("refuse", "")
        self._held: list[SinkRecord] = []
        _fail(f"{self._name}/start")

    def open(self, partitions: Iterable[TopicPartition]) -> None:
        _fail(f"{self._name}/open")
        EVENTS[self._name].append(f"open {len(list(partitions))}")

    def put(self, records: Sequence[SinkRecord]) -> None:
        if records:
            _fail(self._name)
        for record in records:
            if self._refuses and self._refuses in str(record.value):
                self.context.errant_records.report(record, DataError("the sink does not want it"))
            else:
                self._held.append(record)

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        with LOCK:
            KEPT[self._name] += self._held
        self._held = []

    def close(self, partitions: Iterable[TopicPartition]) -> None:
        EVENTS[self._name].append(f"close {len(list(partitions))}")
        self._held = []


class KeeperSink(SinkConnector):
    """Keeps records in this process."""

    task_class = KeeperTask

    def start(self, configs: Mapping[str, str]) -> None:
        super().start(configs)
        _fail(f"{configs['name']}/connector")

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        _fail(f"{self.configs['name']}/tasks")
        return [dict(self.configs) for _ in range(tasks_max)]


def values(name: str) -> list[Any]:
    with LOCK:
        return [record.value for record in KEPT[name]]


class Shout(Transformation):
    """A transform of one's own: the value in capitals, and a mark."""

    config_def = ConfigDef().define("mark", Kind.STRING, "!", "What is put behind the value.")

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        return record.replace(value=f"{record.value}".upper() + self.configs["mark"])

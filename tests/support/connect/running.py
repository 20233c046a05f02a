"""A Connect cluster for tests: workers in this process over an embedded service, and ways to look at it."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import odradek
from odradek.connect import Cluster, Worker, WorkerSettings

from tests.support.kafka.port import until

_NUMBERS = itertools.count(1)
FAST = {
    "slots": "4",
    "offset.storage.partitions": "2",
    "offset.flush.interval.ms": "200",
    "session.timeout.ms": "6000",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


class RunningCluster:
    """A cluster of its own name; use it as a context manager."""

    def __init__(self, service: Any, *, workers: int = 1, **configs: str) -> None:
        self.service = service
        self.client = dict(service.client_config)
        self.configs = {**FAST, "group.id": f"connect-{next(_NUMBERS)}", **configs}
        self.settings = self.settings_of("first")
        self._count = workers
        self.workers: list[Worker] = []

    def settings_of(self, worker: str) -> WorkerSettings:
        return WorkerSettings.of({**self.configs, "worker.id": worker}, self.client)

    def __enter__(self) -> Self:
        self.cluster = Cluster(self.settings)
        for number in range(self._count):
            self.add_worker(f"worker-{number}")
        return self

    def add_worker(self, name: str) -> Worker:
        worker = Worker(self.settings_of(name)).start()
        self.workers.append(worker)
        return worker

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.stop()
        self.cluster.close()

    # --- looking --------------------------------------------------------------------------------------------------

    def create(self, name: str, configs: Mapping[str, Any], *, tasks: int = 1) -> None:
        self.cluster.create(name, {"tasks.max": str(tasks), **configs})
        self.wait_running(name, tasks)

    def states(self, name: str) -> list[str]:
        for worker in self.workers:
            worker.check()
        status = self.cluster.status(name)
        return [status["connector"]["state"], *(each["state"] for each in status["tasks"])]

    def wait_states(self, name: str, *states: str, timeout_s: float = 30) -> None:
        found: list[str] = []

        def has_come() -> bool:
            found[:] = self.states(name)
            return found == list(states)

        until(has_come, timeout_s, lambda: f"{name} is to be {states} and is {found}")

    def wait_running(self, name: str, tasks: int = 1) -> None:
        self.wait_states(name, "RUNNING", *["RUNNING"] * tasks)

    def trace(self, name: str, task: int = 0) -> str:
        until(lambda: self.states(name)[task + 1 :][:1] == ["FAILED"], 30, "failed")
        return str(self.cluster.task_status(name, task)["trace"])

    def produce(self, topic: str, *values: Any, key: bytes | None = None) -> None:
        with odradek.Producer(**self.client, partitioner="round_robin" if key is None else "default") as producer:
            for value in values:
                data = value if isinstance(value, bytes) or value is None else json.dumps(value).encode()
                producer.send(topic, data, key=key)

    def topic(self, name: str, partitions: int = 1) -> str:
        with odradek.Admin(**self.client) as admin:
            admin.create_topics([odradek.NewTopic(name, num_partitions=partitions)])
        return name

    def read(self, topic: str, count: int, *, timeout_s: float = 60, more: bool = False) -> list[Any]:
        """Return `count` records of a topic; `more` looks whether there are too many."""
        found: list[Any] = []
        with odradek.Consumer(**self.client, auto_offset_reset="earliest", max_poll_records=10_000) as consumer:
            until(lambda: _exists(consumer, topic), timeout_s, topic)
            consumer.assign([odradek.TopicPartition(topic, number) for number in consumer.partitions_for(topic)])
            end_s = time.monotonic() + timeout_s
            while len(found) < count and time.monotonic() < end_s:
                found += [record for records in consumer.poll(300).values() for record in records]
            if more:
                found += [record for records in consumer.poll(500).values() for record in records]
        return found


def _exists(consumer: Any, topic: str) -> bool:
    try:
        return bool(consumer.partitions_for(topic))
    except odradek.KafkaError:
        return False


@contextmanager
def embedded() -> Iterator[Any]:
    with odradek.local() as service:  # type: ignore[operator]
        yield service

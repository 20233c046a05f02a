"""Fixtures of pytest for applications that use Odradek; docs/testing.md. Installed with the wheel, found by pytest.

    odradek_options        options of odradek.local for the service; override it in conftest.py
    odradek_service        an embedded service for the whole run
    odradek_client_config  keyword arguments of Producer, Consumer and Admin for it
    odradek_admin          an admin client of it
    odradek_topic          a function that creates topics, which are deleted after the test
    odradek_records        a function that returns all records of a topic
    odradek_time           a service of the test alone, whose time the test moves

Nothing of Odradek is imported until a test uses a fixture.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from odradek.client.admin.sync import Admin
    from odradek.client.consumer.record import ConsumerRecord
    from odradek.local.threaded import ThreadedService
    from odradek.testing.shifted_clock import ShiftedClock

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_NAME_CHARACTERS_MAX = 200
_POLL_MS = 1_000
_MAINTENANCE_PASSES = 3  # one retires what is too old, the next ones remove what nothing refers to


@pytest.fixture(scope="session")
def odradek_options() -> dict[str, Any]:
    """Return options of odradek.local for `odradek_service`, as {"kafka_port": 0}."""
    return {}


@pytest.fixture(scope="session")
def odradek_service(odradek_options: dict[str, Any]) -> Iterator[ThreadedService]:
    """Return an embedded service that runs until the end of the run, on a temporary folder."""
    from odradek.local import start_local

    with start_local(**{"synchronous": "NORMAL", **odradek_options}) as service:
        yield service


@pytest.fixture(scope="session")
def odradek_client_config(odradek_service: ThreadedService) -> dict[str, str]:
    """Return the keyword arguments of Producer, Consumer and Admin."""
    return odradek_service.client_config


@pytest.fixture(scope="session")
def odradek_admin(odradek_client_config: dict[str, str]) -> Iterator[Admin]:
    """Return an admin client."""
    from odradek.client.admin.sync import Admin

    with Admin(**odradek_client_config) as admin:
        yield admin


@pytest.fixture
def odradek_topic(odradek_admin: Admin, request: pytest.FixtureRequest) -> Iterator[Callable[..., str]]:
    """Return a function that creates a topic and returns its name; its topics are deleted after the test.

    `odradek_topic()` takes the name of the test; `odradek_topic("orders", partitions=3, configs={...})` is the topic
    that the application expects.
    """
    from odradek.client.types import NewTopic

    created: list[str] = []

    def create(name: str = "", *, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        plain = _NOT_IN_NAMES.sub("-", request.node.name).strip("-")[:_NAME_CHARACTERS_MAX]
        chosen = name or (f"{plain}-{len(created)}" if created else plain)
        odradek_admin.create_topics([NewTopic(chosen, partitions, configs=dict(configs or {}))])
        created.append(chosen)
        return chosen

    yield create
    existing = set(odradek_admin.list_topics())
    odradek_admin.delete_topics([name for name in created if name in existing])


@pytest.fixture
def odradek_records(odradek_client_config: dict[str, str]) -> Callable[[str], list[ConsumerRecord]]:
    """Return a function that returns the records of a topic up to its present end, by partition and offset."""
    return lambda topic: records_of(odradek_client_config, topic)


def records_of(client_config: Mapping[str, Any], topic: str) -> list[ConsumerRecord]:
    """Return the records of a topic up to its present end, by partition and offset. Raises KafkaError."""
    from odradek.client.admin.sync import Admin
    from odradek.client.consumer.sync import Consumer

    with Admin(**client_config) as admin:
        places = admin.describe_topics([topic])[topic].partitions
    with Consumer(**client_config) as consumer:
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        ends = consumer.end_offsets(places)
        read: list[ConsumerRecord] = []
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            for records in consumer.poll(timeout_ms=_POLL_MS).values():
                read += records
    read = [record for record in read if record.offset < ends[record.topic_partition]]
    return sorted(read, key=lambda record: (record.partition, record.offset))


class MovableTime:
    """A service whose time a test moves.

    Attributes:
        service: the service, which only this test uses.
        client_config: keyword arguments of Producer, Consumer and Admin. They call the Kafka port: signed requests are
            refused when the clocks of client and service differ.
    """

    def __init__(self, service: ThreadedService, clock: ShiftedClock) -> None:
        self.service = service
        self._clock = clock
        self.client_config = {"bootstrap_servers": f"kafka://{service.kafka_bootstrap_servers}"}

    def advance(self, seconds: float = 0, *, minutes: float = 0, hours: float = 0, days: float = 0) -> None:
        """Move the time forward, and run maintenance: retention and compaction have taken place when it returns."""
        self._clock.advance(seconds + 60 * (minutes + 60 * (hours + 24 * days)))
        for _ in range(_MAINTENANCE_PASSES):
            self.service.maintain()

    def now_ms(self) -> int:
        """Return the service's time in ms since the epoch."""
        return self._clock.now_ms()

    def records(self, topic: str) -> list[ConsumerRecord]:
        """Return the records of a topic, by partition and offset. Raises KafkaError."""
        return records_of(self.client_config, topic)


@pytest.fixture
def odradek_time(odradek_options: dict[str, Any]) -> Iterator[MovableTime]:
    """Return a service of its own for the test, whose time it moves: `odradek_time.advance(days=8)`."""
    from dataclasses import replace

    from odradek.local import start_local
    from odradek.settings import Settings
    from odradek.testing.shifted_clock import ShiftedClock

    clock = ShiftedClock()
    options: dict[str, Any] = {"synchronous": "NORMAL", "kafka_port": 0, **odradek_options, "clock": clock}
    options["settings"] = replace(options.get("settings") or Settings(), maintenance_interval_ms=0)
    with start_local(**options) as service:
        yield MovableTime(service, clock)

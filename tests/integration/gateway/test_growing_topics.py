"""A topic grows under load, and stock consumers read it: records of our producers keep the order of their keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from odradek.local import ThreadedService

from tests.support.kafka import port
from tests.support.kafka.growing import grow_under_load, sdk_producer

CONFIGS: dict[str, dict[str, Any]] = {
    "classic": {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 200},
    "cooperative": {
        "session.timeout.ms": 6_000,
        "heartbeat.interval.ms": 200,
        "partition.assignment.strategy": "cooperative-sticky",
    },
    "consumer": {"group.protocol": "consumer"},
}


@pytest.fixture(scope="module")
def service() -> Iterator[ThreadedService]:
    with port.kafka_service() as service:
        yield service


@pytest.mark.parametrize("protocol", CONFIGS)
def test_a_group_of_stock_consumers_sees_each_key_in_order(service: ThreadedService, protocol: str) -> None:
    growth = grow_under_load(service, f"orders-{protocol}", sdk_producer, config=CONFIGS[protocol])
    assert growth.seen == growth.sent
    assert growth.out_of_order == 0
    assert growth.in_new_partitions > growth.sent // 4, "it has grown under them"

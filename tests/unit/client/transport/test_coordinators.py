"""Brokers at a Kafka port: a coordinator that has moved is looked up again; a question about nothing has an answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.list_offsets.v7.request import ListOffsetsRequest
from odradek.client.transport.kafka import KafkaTransport
from odradek.client.transport.kafka_link import Security
from odradek.errors import ErrorCode


class Broker:
    """A link to a broker, which coordinates what `Cluster.coordinator` says."""

    def __init__(self, number: int, cluster: Cluster) -> None:
        self.number, self.cluster = number, cluster

    async def call(self, message: Any, response_type: Any, timeout_s: float) -> Any:
        self.cluster.asked.append((self.number, type(message).__name__))
        if isinstance(message, FindCoordinatorRequest):
            found = SimpleNamespace(
                error_code=0, error_message="", node_id=self.cluster.coordinator, host="b", port=9092
            )
            return SimpleNamespace(coordinators=[found])
        if isinstance(message, ListOffsetsRequest):
            return SimpleNamespace(topics=message.topics)
        is_right = self.number == self.cluster.coordinator
        return SimpleNamespace(error_code=ErrorCode.NONE if is_right else ErrorCode.NOT_COORDINATOR)


class Cluster:
    def __init__(self) -> None:
        self.coordinator = 1
        self.asked: list[tuple[int, str]] = []


@pytest.mark.parametrize("moves", [1, 3])
async def test_a_coordinator_that_moved_is_asked_for_once_more(moves: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    transport = KafkaTransport("kafka://b:9092", Security())
    transport._brokers = dict.fromkeys((1, 2), ("b", 9092))
    monkeypatch.setattr(transport, "_to", lambda number, **_: Broker(number, cluster))
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m", group_instance_id=None)  # type: ignore[arg-type]

    async def call() -> ErrorCode:
        answer = await transport.call(beat, object, 1.0)
        return answer.error_code  # type: ignore[attr-defined,no-any-return]

    assert [await call(), await call()] == [ErrorCode.NONE] * 2
    assert [name for _, name in cluster.asked].count("FindCoordinatorRequest") == 1, "it is kept"
    for _ in range(moves):
        cluster.coordinator = 3 - cluster.coordinator
        assert [await call(), await call()] == [ErrorCode.NOT_COORDINATOR, ErrorCode.NONE]
    assert [name for _, name in cluster.asked].count("FindCoordinatorRequest") == 1 + moves


async def test_offsets_of_no_partitions_are_asked_of_one_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """`consumer.end_offsets([])`: an empty answer, as from the functions."""
    cluster = Cluster()
    transport = KafkaTransport("kafka://b:9092", Security())
    transport._brokers = dict.fromkeys((1, 2), ("b", 9092))
    monkeypatch.setattr(transport, "_to", lambda number, **_: Broker(number, cluster))
    asked = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=())  # type: ignore[arg-type]
    answer: Any = await transport.call(asked, object, 1.0)
    assert answer.topics == ()
    assert len(cluster.asked) == 1

"""Leaders, epochs, conditional produce and quotas as they stand on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from kio.index import load_response_schema
from odradek.dispatcher.answer import build
from odradek.dispatcher.records.produce import STORE_BUSY_PAUSE_MS
from odradek.engine.leaders.view import LeaderView
from odradek.errors import ErrorCode
from odradek.model.cluster import Broker
from odradek.model.log import EpochEndPartition, FetchPartition, FetchResult, ProducePartition, ProduceResult
from odradek.model.topic_partition import PartitionId
from odradek.protocol.api import ApiKey
from odradek.protocol.conditional_produce import EXPECTED_OFFSET_TAG
from odradek.protocol.frame import decode_response, encode_request, request_schema
from odradek.protocol.versions import SUPPORTED_VERSIONS
from odradek.settings import Settings

from tests.support.dispatching import ask, context, dispatcher
from tests.support.fake_engine import TOPIC_ID, FakeEngine


def versions(api_key: ApiKey) -> range:
    low, high = SUPPORTED_VERSIONS[api_key]
    return range(low, high + 1)


GATEWAY = Broker(7, "gateway.example", 9093, "rack-1")
VIEW = LeaderView((GATEWAY,), {PartitionId(TOPIC_ID, 1): (7, 5), PartitionId(TOPIC_ID, 2): (0, 6)})


# --- metadata -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", versions(ApiKey.METADATA))
async def test_metadata_names_leaders_epochs_and_gateways(version: int) -> None:
    response = await ask(FakeEngine(view=VIEW), ApiKey.METADATA, version, {"topics": [{"name": "flights"}]})
    assert [(b.node_id, b.host, b.port) for b in response.brokers] == [
        (0, "fleet.example", 9092),
        (7, "gateway.example", 9093),
    ]
    partitions = response.topics[0].partitions
    assert [p.leader_id for p in partitions] == [0, 7, 0]
    if version >= 7:
        assert [p.leader_epoch for p in partitions] == [0, 5, 6]


async def test_describe_cluster_lists_gateways() -> None:
    response = await ask(FakeEngine(view=VIEW), ApiKey.DESCRIBE_CLUSTER, 1, {})
    assert [(b.broker_id, b.rack) for b in response.brokers] == [(0, None), (7, "rack-1")]


# --- epochs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FOR_LEADER_EPOCH))
async def test_offset_for_leader_epoch(version: int) -> None:
    engine = FakeEngine()
    requested = {"partition": 1, "leader_epoch": 3, "current_leader_epoch": 4}
    topics = [{"topic": "flights", "partitions": [requested]}]
    response = await ask(engine, ApiKey.OFFSET_FOR_LEADER_EPOCH, version, {"topics": topics})
    assert engine.calls == [("epoch_end_offsets", [EpochEndPartition("flights", 1, 3, 4)])]
    [partition] = response.topics[0].partitions
    assert (partition.error_code, partition.partition, partition.leader_epoch, partition.end_offset) == (0, 1, 3, 40)


async def test_offset_for_leader_epoch_that_fails_says_so_for_every_partition() -> None:
    engine = FakeEngine(failure=RuntimeError("boom"))
    topics = [{"topic": "flights", "partitions": [{"partition": 1, "leader_epoch": 3}]}]
    response = await ask(engine, ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, {"topics": topics})
    [partition] = response.topics[0].partitions
    assert (partition.error_code, partition.end_offset) == (ErrorCode.UNKNOWN_SERVER_ERROR, -1)


# --- produce ------------------------------------------------------------------------------------------------------


class Answering(FakeEngine):
    """Answers produce and fetch with results to order."""

    produced: ProduceResult | None = None
    fetched: FetchResult | None = None

    async def produce(self, partitions: Sequence[ProducePartition], **options: Any) -> list[ProduceResult]:
        self.met("produce", partitions)
        return [self.produced or ProduceResult(p.topic, p.partition, base_offset=7) for p in partitions]

    async def fetch(self, partitions: Sequence[FetchPartition], **limits: int) -> list[FetchResult]:
        return [self.fetched] if self.fetched else await super().fetch(partitions, **limits)


def produce(**partition: Any) -> dict[str, Any]:
    data = {"index": 0, "records": b"batch", **partition}
    return {"acks": -1, "topic_data": [{"name": "flights", "topic_id": TOPIC_ID, "partition_data": [data]}]}


@pytest.mark.parametrize("version", range(9, 14))
async def test_a_conditional_produce_carries_its_expectation_and_the_conflict_comes_back(version: int) -> None:
    engine = Answering()
    engine.produced = ProduceResult(
        "flights", 0, ErrorCode.OFFSET_OUT_OF_RANGE, message="it is at 12", next_offset=12, topic_id=TOPIC_ID
    )
    response = await ask(engine, ApiKey.PRODUCE, version, produce(expected_offset=10))
    [(_, [partition_asked])] = engine.calls
    assert partition_asked.expected_offset == 10
    [partition] = response.responses[0].partition_responses
    assert (partition.error_code, partition.next_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 12)


@pytest.mark.parametrize("version", versions(ApiKey.PRODUCE))
async def test_a_produce_without_expectation_is_none(version: int) -> None:
    engine = Answering()
    await ask(engine, ApiKey.PRODUCE, version, produce())
    assert engine.calls[0][1][0].expected_offset is None


async def test_stock_clients_can_read_a_conflict_and_never_meet_our_field_otherwise() -> None:
    """kio's own schema stands for them: an unknown tag is skipped."""
    engine = Answering()
    request = build(request_schema(ApiKey.PRODUCE, 9), produce(expected_offset=10))
    tag = EXPECTED_OFFSET_TAG.to_bytes(2, "big")
    varint = bytes([tag[1] & 0x7F | 0x80, (EXPECTED_OFFSET_TAG >> 7) & 0x7F])
    assert varint + b"\x08" + (10).to_bytes(8, "big") in encode_request(request, correlation_id=1, client_id=None)
    for conflict in (True, False):
        if conflict:
            engine.produced = ProduceResult("flights", 0, ErrorCode.OFFSET_OUT_OF_RANGE, next_offset=12)
        else:
            engine.produced = None
        frame = encode_request(request, correlation_id=1, client_id=None)
        parts = await dispatcher(engine).dispatch(frame, context())
        assert parts is not None
        response: Any = decode_response(b"".join(parts), load_response_schema(ApiKey.PRODUCE, 9), correlation_id=1)
        assert response.responses[0].partition_responses[0].base_offset == (-1 if conflict else 7)
        assert (varint in b"".join(parts)) is conflict


async def test_a_transaction_cannot_expect_offsets() -> None:
    engine = Answering()
    response = await ask(engine, ApiKey.PRODUCE, 9, {**produce(expected_offset=10), "transactional_id": "t"})
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_REQUEST
    assert engine.calls == []


async def test_who_sent_to_the_wrong_broker_is_told_where_the_right_one_is() -> None:
    engine = Answering(view=VIEW)
    engine.produced = ProduceResult(
        "flights", 1, ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader_id=7, current_leader_epoch=5
    )
    response = await ask(engine, ApiKey.PRODUCE, 10, produce())
    leader = response.responses[0].partition_responses[0].current_leader
    assert (leader.leader_id, leader.leader_epoch) == (7, 5)
    assert [(n.node_id, n.host, n.port) for n in response.node_endpoints] == [(7, "gateway.example", 9093)]


# --- throttling ---------------------------------------------------------------------------------------------------


def fetch() -> dict[str, Any]:
    topic = {"topic": "flights", "topic_id": TOPIC_ID, "partitions": [{"partition": 2, "fetch_offset": 40}]}
    return {"max_bytes": 5_000, "session_epoch": -1, "topics": [topic]}


@pytest.mark.parametrize("version", [3, 9, 13])
async def test_a_produce_beyond_the_quota_is_done_and_answered_with_a_pause(version: int) -> None:
    engine = FakeEngine(Settings(quota_produce_bytes_per_s=10))
    pauses = [(await ask(engine, ApiKey.PRODUCE, version, produce())).throttle_time for _ in range(4)]
    assert pauses == [timedelta(0), timedelta(0), timedelta(milliseconds=500), timedelta(seconds=1)]
    assert len(engine.calls) == 4


@pytest.mark.parametrize("version", [4, 12, 16])
async def test_a_fetch_beyond_the_quota_is_answered_with_a_pause(version: int) -> None:
    engine = FakeEngine(Settings(quota_fetch_bytes_per_s=4))
    pauses = [(await ask(engine, ApiKey.FETCH, version, fetch())).throttle_time for _ in range(2)]
    assert pauses == [timedelta(0), timedelta(seconds=1)]


async def test_a_store_that_throttles_makes_clients_pause() -> None:
    engine = Answering()
    engine.produced = ProduceResult("flights", 0, ErrorCode.NOT_ENOUGH_REPLICAS)
    engine.fetched = FetchResult("flights", 2, ErrorCode.KAFKA_STORAGE_ERROR)
    pause = timedelta(milliseconds=STORE_BUSY_PAUSE_MS)
    assert (await ask(engine, ApiKey.PRODUCE, 9, produce())).throttle_time == pause
    assert (await ask(engine, ApiKey.FETCH, 12, fetch())).throttle_time == pause

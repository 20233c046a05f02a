"""The responses written by hand are byte for byte those of kio's writer, in every version."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from odradek.dispatcher.answer import build
from odradek.errors import ErrorCode
from odradek.model.log import FetchResult, ProduceResult
from odradek.protocol.api import ApiKey
from odradek.protocol.encode import NodeEndpoint
from odradek.protocol.fetch_response import encode_fetch_response
from odradek.protocol.frame import encode_response, response_schema
from odradek.protocol.produce_response import encode_produce_response
from odradek.protocol.versions import SUPPORTED_VERSIONS

from tests.support.examples import examples

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
codes = st.sampled_from(ErrorCode)
names = st.text(max_size=200)
ids = st.uuids(allow_nil=False)
nodes = st.lists(st.builds(NodeEndpoint, int32, names, int32, st.none() | names), max_size=2)

produce_results = st.builds(
    ProduceResult,
    topic=st.just(""),
    partition=int32,
    error=codes,
    base_offset=int64,
    log_append_time_ms=st.just(-1) | st.integers(-(2**45), 2**45),
    log_start_offset=int64,
    message=st.none() | st.text(max_size=300),
    current_leader_id=st.just(-1) | int32,
    current_leader_epoch=st.just(-1) | int32,
)
fetch_results = st.builds(
    FetchResult,
    topic=st.just(""),
    partition=int32,
    error=codes,
    high_watermark=int64,
    log_start_offset=int64,
    records=st.lists(st.binary(max_size=300), max_size=3),
    current_leader_id=st.just(-1) | int32,
    current_leader_epoch=st.just(-1) | int32,
)


def topics(results: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(st.tuples(names, ids, st.lists(results, max_size=3)), max_size=3)


def versions(api_key: ApiKey) -> range:
    low, high = SUPPORTED_VERSIONS[api_key]
    return range(low, high + 1)


def by_kio(api_key: int, version: int, correlation_id: int, fields: dict[str, Any]) -> bytes:
    return b"".join(encode_response(build(response_schema(api_key, version), fields), correlation_id=correlation_id))


A_PRODUCE_RESULT = ProduceResult("", 3, ErrorCode.NOT_LEADER_OR_FOLLOWER, 7, 1_000, 2, "no", 4, 5)
A_FETCH_RESULT = FetchResult("", 3, ErrorCode.NOT_LEADER_OR_FOLLOWER, 7, 2, (b"ab", b"c"), None, 4, 5)
AN_ID = UUID(int=9)
A_NODE = NodeEndpoint(4, "host", 9092, "rack")


def endpoint_fields(endpoints: list[NodeEndpoint]) -> list[dict[str, Any]]:
    return [{"node_id": n.node_id, "host": n.host, "port": n.port, "rack": n.rack} for n in endpoints]


def leader_fields(result: ProduceResult | FetchResult) -> dict[str, Any]:
    return {"leader_id": result.current_leader_id, "leader_epoch": result.current_leader_epoch}


@pytest.mark.parametrize("version", versions(ApiKey.PRODUCE))
@settings(max_examples=examples(20))
@given(
    correlation_id=int32,
    topics=topics(produce_results),
    throttle_ms=st.integers(0, 2**31 - 1),
    endpoints=nodes,
)
@example(correlation_id=1, topics=[("t", AN_ID, [A_PRODUCE_RESULT])], throttle_ms=6, endpoints=[A_NODE])
def test_produce(
    version: int, correlation_id: int, topics: Any, throttle_ms: int, endpoints: list[NodeEndpoint]
) -> None:
    ours = encode_produce_response(
        topics,
        api_version=version,
        correlation_id=correlation_id,
        throttle_time_ms=throttle_ms,
        node_endpoints=endpoints,
    )
    fields = {
        "throttle_time": throttle_ms,
        "node_endpoints": endpoint_fields(endpoints),
        "responses": [
            {
                "name": name,
                "topic_id": topic_id,
                "partition_responses": [
                    {
                        "index": r.partition,
                        "error_code": r.error,
                        "base_offset": r.base_offset,
                        "log_append_time": r.log_append_time_ms,
                        "log_start_offset": r.log_start_offset,
                        "error_message": r.message,
                        "current_leader": leader_fields(r),
                    }
                    for r in results
                ],
            }
            for name, topic_id, results in topics
        ],
    }
    assert b"".join(ours) == by_kio(0, version, correlation_id, fields)


@pytest.mark.parametrize("version", versions(ApiKey.FETCH))
@settings(max_examples=examples(20))
@given(
    correlation_id=int32,
    topics=topics(fetch_results),
    error=codes,
    session_id=int32,
    endpoints=nodes,
)
@example(
    correlation_id=1,
    topics=[("t", AN_ID, [A_FETCH_RESULT])],
    error=ErrorCode.NONE,
    session_id=6,
    endpoints=[A_NODE],
)
def test_fetch(
    version: int, correlation_id: int, topics: Any, error: ErrorCode, session_id: int, endpoints: list[NodeEndpoint]
) -> None:
    ours = encode_fetch_response(
        topics,
        api_version=version,
        correlation_id=correlation_id,
        error=error,
        session_id=session_id,
        node_endpoints=endpoints,
    )
    fields = {
        "error_code": error,
        "session_id": session_id,
        "node_endpoints": endpoint_fields(endpoints),
        "responses": [
            {
                "topic": name,
                "topic_id": topic_id,
                "partitions": [
                    {
                        "partition_index": r.partition,
                        "error_code": r.error,
                        "high_watermark": r.high_watermark,
                        "last_stable_offset": r.high_watermark,
                        "log_start_offset": r.log_start_offset,
                        "aborted_transactions": None,
                        "records": b"".join(r.records),
                        "current_leader": leader_fields(r),
                    }
                    for r in results
                ],
            }
            for name, topic_id, results in topics
        ],
    }
    assert b"".join(ours) == by_kio(1, version, correlation_id, fields)


def test_records_of_a_fetch_are_handed_on_uncopied() -> None:
    blobs = [bytes(10), bytes(5_000)]
    parts = encode_fetch_response([("t", None, [FetchResult("t", 0, records=blobs)])], api_version=11, correlation_id=1)
    assert all(any(part is blob for part in parts) for blob in blobs)

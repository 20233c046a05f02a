"""Hand-written Fetch responses, versions 4 to 18: the same bytes as kio's writer, with uncopied records.

    throttle time i32, error i16 (7+), session id i32 (7+),
    responses [ topic | topic id (13+), [ index i32, error i16, high watermark i64, last stable offset i64,
                log start offset i64 (5+), aborted transactions [] (null where none), preferred read replica i32 (11+),
                records, {1: current leader} (12+) ] ]
    {0: node endpoints} (16+)

Flexible from version 12 on. A log never contains uncommitted records, so the last stable offset is the high watermark
and no transaction is ever listed as aborted. Source: FetchResponse.json of Apache Kafka 4.x.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from uuid import UUID

from odradek.errors import ErrorCode
from odradek.model.log import Buffer, FetchResult
from odradek.protocol import encode
from odradek.protocol.encode import NodeEndpoint

FLEXIBLE_FROM = 12
TOPIC_ID_FROM = 13
_SESSION_FROM = 7
_LOG_START_OFFSET_FROM = 5
_PREFERRED_READ_REPLICA_FROM = 11
_CURRENT_LEADER_FROM = 12
_NODE_ENDPOINTS_FROM = 16
_CURRENT_LEADER_TAG = 1

_PARTITION = struct.Struct(">ihqq").pack  # index, error, high watermark, last stable offset
_INT64 = struct.Struct(">q").pack
_INT32 = struct.Struct(">i").pack
_SESSION = struct.Struct(">hi").pack  # error, session id


def encode_fetch_response(
    topics: Sequence[tuple[str, UUID | None, Sequence[FetchResult]]],
    *,
    api_version: int,
    correlation_id: int,
    error: ErrorCode = ErrorCode.NONE,
    session_id: int = 0,
    throttle_time_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> list[Buffer]:
    """Encode header and response in parts; each buffer of a result's records is one part, uncopied.

    Args:
        topics: name, id and results of each topic, in the order of the request.
        api_version: 4 to 18; topics are identified by name before 13, by id from 13 on.
        correlation_id: of the request.
        error: of the whole request (7+).
        session_id: 0 means that there is no fetch session (7+).
        throttle_time_ms: the pause that the client is asked to make.
        node_endpoints: of the leaders named in results (16+).
    """
    flexible = api_version >= FLEXIBLE_FROM
    parts: list[Buffer] = []
    small = [_INT32(correlation_id)]
    if flexible:
        small.append(encode.NO_TAGS)
    small.append(_INT32(throttle_time_ms))
    if api_version >= _SESSION_FROM:
        small.append(_SESSION(error, session_id))
    small.append(encode.count(len(topics), flexible))
    for name, topic_id, results in topics:
        small.append(encode.topic(name, topic_id, api_version >= TOPIC_ID_FROM, flexible))
        small.append(encode.count(len(results), flexible))
        for result in results:
            small.append(_partition_head(result, api_version, flexible))
            if result.records:
                parts.append(b"".join(small))
                parts.extend(result.records)
                small = []
            if flexible:
                leader = None
                if api_version >= _CURRENT_LEADER_FROM:
                    leader = encode.current_leader(result.current_leader_id, result.current_leader_epoch)
                small.append(encode.tagged([] if leader is None else [(_CURRENT_LEADER_TAG, leader)]))
        if flexible:
            small.append(encode.NO_TAGS)
    if flexible:
        has_nodes = node_endpoints and api_version >= _NODE_ENDPOINTS_FROM
        small.append(encode.tagged([(0, encode.node_endpoints(node_endpoints))] if has_nodes else []))
    if small:
        parts.append(b"".join(small))
    return parts


def _partition_head(result: FetchResult, api_version: int, flexible: bool) -> bytes:
    """Encode a partition up to and including the length of its records."""
    data = _PARTITION(result.partition, result.error, result.high_watermark, result.high_watermark)
    if api_version >= _LOG_START_OFFSET_FROM:
        data += _INT64(result.log_start_offset)
    data += b"\0" if flexible else b"\xff\xff\xff\xff"  # aborted transactions: null
    if api_version >= _PREFERRED_READ_REPLICA_FROM:
        data += _INT32(result.preferred_read_replica)
    return data + encode.blob_length(result.size_bytes, flexible)

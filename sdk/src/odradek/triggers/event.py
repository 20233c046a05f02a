"""The event of a call, as Lambda's mapping for MSK makes it, and the meaning of the response. Pure.

    {"eventSource": "aws:kafka", "eventSourceArn": ..., "bootstrapServers": ..., "records": {"orders-0": [record]}}
    record: topic, partition, offset, timestamp, timestampType, key, value, headers

Key and value are base64; a null key is left out, a null value is null. A header is an object of its name and its bytes
as a list of Java's signed ones, -128 to 127. With a tumbling window come window, state, shardId, eventSourceARN,
isFinalInvokeForWindow and isWindowTerminatedEarly, as for Kinesis.

A response says which records failed:

    {"batchItemFailures": [{"itemIdentifier": {"partition": "orders-0", "offset": 7}}]}

The first of them, and all after it, come again. An offset alone is taken, too, as the sequence number of Kinesis is.
Sources: Lambda developer guide, "Using Lambda with Amazon MSK", "Configuring error handling controls for Kafka".
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from odradek.model.record import Record, TimestampType
from odradek.model.topic_partition import TopicPartition

EVENT_SOURCE = "aws:kafka"
_SIGNED = [byte - 256 if byte > 127 else byte for byte in range(256)]


@dataclass(frozen=True, slots=True)
class EventSource:
    """The cluster's description in events.

    Attributes:
        arn: as an MSK cluster's.
        bootstrap_servers: with commas.
    """

    arn: str
    bootstrap_servers: str


@dataclass(frozen=True, slots=True)
class WindowCall:
    """The tumbling window of a call.

    Attributes:
        start_ms, end_ms: of the window, which is half-open.
        state: what the last call of the window returned; `{}` at first.
        is_final: nothing more comes in this window.
    """

    start_ms: int
    end_ms: int
    state: Any
    is_final: bool


class BadResponse(Exception):
    """A response that says nothing that can be followed: the call counts as failed."""


def encode_event(
    source: EventSource,
    partition: TopicPartition,
    records: Sequence[Record],
    appended: Collection[int] = (),
    window: WindowCall | None = None,
) -> bytes:
    """Encode the event of one call as JSON.

    Args:
        records: in order; none of them in the last call of a window.
        appended: offsets of the records whose timestamp is that of their append.
    """
    event: dict[str, Any] = {
        "eventSource": EVENT_SOURCE,
        "eventSourceArn": source.arn,
        "bootstrapServers": source.bootstrap_servers,
        "records": {str(partition): [_record(partition, record, record.offset in appended) for record in records]},
    }
    if window is not None:
        event |= {
            "window": {"start": _iso(window.start_ms), "end": _iso(window.end_ms)},
            "state": window.state,
            "shardId": str(partition),
            "eventSourceARN": source.arn,
            "isFinalInvokeForWindow": window.is_final,
            "isWindowTerminatedEarly": False,
        }
    return json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode()


def _record(partition: TopicPartition, record: Record, has_append_time: bool) -> dict[str, Any]:
    timestamp_type = TimestampType.LOG_APPEND_TIME if has_append_time else TimestampType.CREATE_TIME
    document: dict[str, Any] = {
        "topic": partition.topic,
        "partition": partition.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "timestampType": timestamp_type.name,
    }
    if record.key is not None:
        document["key"] = b64encode(record.key).decode()
    document["value"] = None if record.value is None else b64encode(record.value).decode()
    document["headers"] = [{name: [_SIGNED[byte] for byte in value or b""]} for name, value in record.headers]
    return document


def _iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def first_failure(response: bytes, partition: TopicPartition, offsets: Sequence[int]) -> int | None:
    """Return the position in `offsets` of the first record that failed, or None if all of them succeeded.

    An empty or null response, and an empty or null list, mean success, as for Lambda; a failure that names nothing, or
    no record of the call, means that all of them failed.

    Raises BadResponse: all records failed.
    """
    failures = _document(response).get("batchItemFailures")
    if not failures:
        return None
    if not isinstance(failures, list):
        raise BadResponse(f"batchItemFailures must be a list, not {type(failures).__name__}")
    positions = {offset: position for position, offset in enumerate(offsets)}
    offsets_said = [_offset(failure, partition) for failure in failures]
    if any(offset not in positions for offset in offsets_said):
        raise BadResponse(
            'batchItemFailures names what is no record of this call: itemIdentifier must be {"partition": '
            f'"{partition}", "offset": ...}}'
        )
    return min(positions[offset] for offset in offsets_said)


def _offset(failure: Any, partition: TopicPartition) -> int:
    """Return the offset that a failure names; -1: none of this partition."""
    identifier = failure.get("itemIdentifier") if isinstance(failure, dict) else None
    if isinstance(identifier, dict):
        name = identifier.get("partition", identifier.get("topic-partition"))
        offset = identifier.get("offset")
        return offset if name == str(partition) and type(offset) is int else -1
    if isinstance(identifier, str) and identifier.isascii() and identifier.isdigit():
        return int(identifier)
    return identifier if type(identifier) is int else -1


def window_state(response: bytes, otherwise: str) -> Any:
    """Return the state that a call of a tumbling window hands on.

    Args:
        otherwise: JSON of the state where the response has none: `{}`, or of a partial response the one of before.
    """
    return _document(response).get("state") or json.loads(otherwise)


def _document(response: bytes) -> dict[str, Any]:
    if not response.strip():
        return {}
    try:
        document = json.loads(response)
    except (ValueError, RecursionError):
        return {}  # a text that is not JSON: nothing is reported
    return document if isinstance(document, dict) else {}

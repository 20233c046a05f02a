"""Destinations of the records that a trigger gives up: a topic of this cluster, SQS, SNS or S3.

    topic:NAME      each record as it was, with headers that say why: odradek.trigger.name, .error, .topic, .partition,
                    .offset, .timestamp
    sqs:, sns:, s3: one document a batch, as Lambda's for MSK: requestContext, responseContext, version, timestamp,
                    KafkaBatchInfo; in S3 with the event as `payload`, under aws/lambda/<trigger>/<date>/

A destination that does not take them fails the call again: nothing is passed over that has not been kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from odradek.engine.engine import Engine
from odradek.errors import KafkaError
from odradek.format.record_batch import RecordBatchBuilder
from odradek.model.log import ProducePartition
from odradek.model.record import Record
from odradek.model.topic_partition import TopicPartition
from odradek.model.trigger import Trigger
from odradek.ports.outside import Outside, OutsideFailed
from odradek.triggers.calls import CallFailed
from odradek.triggers.reach import Reach

HEADER_PREFIX = "odradek.trigger."
_BATCH_BYTES = 256 * 1024  # of records that go to a failure topic together
_RECORD_BYTES = 16  # of a record, and of a header, beside their texts: at most


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A batch that is given up.

    Attributes:
        condition: RetryAttemptsExhausted, RecordAgeExceeded, or BatchTooLarge.
        attempts: the calls that were made with it.
        error: the last failure.
        event: as JSON, for S3.
    """

    trigger: Trigger
    partition: TopicPartition
    records: Sequence[Record]
    condition: str
    attempts: int
    error: str
    event: bytes
    now_ms: int
    call_id: str


class FailureDestination(Protocol):
    """A destination of one kind."""

    async def put(self, address: str, batch: GivenUp) -> None:
        """Keep the batch. Raises CallFailed: it may not be kept."""
        ...


class TopicDestination:
    """A topic of this cluster."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def put(self, topic_name: str, batch: GivenUp) -> None:
        topic = await self._engine.topics.get(topic_name)
        if topic is None:
            raise CallFailed(f"the topic {topic_name!r} of on_failure does not exist: create it")
        number = batch.partition.partition % topic.partition_count
        for kept in _batches(batch):
            try:
                [result] = await self._engine.produce([ProducePartition(topic_name, number, kept)])
            except KafkaError as error:
                raise CallFailed(f"on_failure topic:{topic_name}: {error.message}") from None
            if result.error:
                raise CallFailed(f"on_failure topic:{topic_name}: {result.error.name}: {result.message}")


def _batches(batch: GivenUp) -> Iterator[bytes]:
    """The records in batches that the topic takes; one that is larger alone is refused, with the reason."""
    builder, size = RecordBatchBuilder(), 0
    for record in batch.records:
        headers = [*record.headers, *_headers(batch, record)]
        bytes_of = len(record.key or b"") + len(record.value or b"")
        bytes_of += sum(len(name) + len(value or b"") for name, value in headers) + _RECORD_BYTES * (1 + len(headers))
        if size and size + bytes_of > _BATCH_BYTES:
            yield builder.build()
            builder, size = RecordBatchBuilder(), 0
        builder.append(batch.now_ms, record.key, record.value, headers)
        size += bytes_of
    yield builder.build()


def _headers(batch: GivenUp, record: Record) -> list[tuple[str, bytes | None]]:
    said = {
        "name": batch.trigger.name,
        "condition": batch.condition,
        "error": batch.error,
        "topic": batch.partition.topic,
        "partition": str(batch.partition.partition),
        "offset": str(record.offset),
        "timestamp": str(record.timestamp_ms),
    }
    return [(f"{HEADER_PREFIX}{name}", text.encode()) for name, text in said.items()]


def invocation_record(batch: GivenUp, *, with_payload: bool) -> dict[str, Any]:
    """The document of a batch, as Lambda writes it for MSK."""
    first, last = batch.records[0], batch.records[-1]
    document: dict[str, Any] = {
        "requestContext": {
            "requestId": batch.call_id,
            "functionArn": batch.trigger.function,
            "condition": batch.condition,
            "approximateInvokeCount": batch.attempts,
        },
        "responseContext": {
            "statusCode": 200,
            "executedVersion": "$LATEST",
            "functionError": "Unhandled",
            "errorMessage": batch.error,
        },
        "version": "1.0",
        "timestamp": _iso(batch.now_ms),
        "KafkaBatchInfo": {
            "batchSize": len(batch.records),
            "topicPartition": str(batch.partition),
            "firstOffset": first.offset,
            "lastOffset": last.offset,
            "firstRecordTimestamp": _iso(first.timestamp_ms),
            "lastRecordTimestamp": _iso(last.timestamp_ms),
        },
        "trigger": batch.trigger.name,
    }
    if with_payload:
        document["payload"] = json.loads(batch.event)
    return document


def object_key(prefix: str, batch: GivenUp) -> str:
    """The key in S3: a repetition of the batch has the same one."""
    day = datetime.fromtimestamp(batch.now_ms / 1000, UTC).strftime("%Y/%m/%d")
    offset = batch.records[0].offset
    folder = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
    return f"{folder}aws/lambda/{batch.trigger.name}/{batch.partition}/{day}/{offset:020d}-{batch.call_id}.json"


def _iso(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Failures:
    """The destinations of one dispatcher.

    Args:
        by_kind: topic, sqs, sns, s3.
        reach: which of them may be used.
    """

    def __init__(self, by_kind: Mapping[str, FailureDestination], reach: Reach) -> None:
        self._by_kind = by_kind
        self._reach = reach

    async def put(self, batch: GivenUp) -> None:
        """Keep a batch where the trigger says; without a destination it is dropped. Raises CallFailed."""
        if not batch.trigger.on_failure:
            return
        if refusal := self._reach.refusal_of(batch.trigger.on_failure):
            raise CallFailed(refusal)
        destination_kind, _, address = batch.trigger.on_failure.partition(":")
        destination = self._by_kind.get(destination_kind)
        if destination is None:
            raise CallFailed(
                f"this service has no destination {destination_kind}: use one of {', '.join(sorted(self._by_kind))}"
            )
        await destination.put(address, batch)


class AwsDestination:
    """SQS, SNS or S3.

    Args:
        kind: sqs, sns or s3.
        outside: created at the first failure: only who has one needs AWS.
    """

    def __init__(self, destination_kind: str, outside: Callable[[], Outside]) -> None:
        self._kind = destination_kind
        self._create = outside
        self._outside: Outside | None = None

    async def put(self, address: str, batch: GivenUp) -> None:
        if self._outside is None:
            self._outside = self._create()
        document = json.dumps(invocation_record(batch, with_payload=self._kind == "s3"))
        try:
            if self._kind == "sqs":
                await self._outside.send_message(address, document)
            elif self._kind == "sns":
                await self._outside.publish(address, document)
            else:
                bucket, _, prefix = address.partition("/")
                await self._outside.put_object(bucket, object_key(prefix, batch), document.encode())
        except OutsideFailed as error:
            raise CallFailed(f"on_failure {self._kind}:{address}: {error}") from None

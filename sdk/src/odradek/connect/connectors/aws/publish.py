"""Sinks that publish records in batches of up to ten: Amazon SNS and Amazon EventBridge. At least once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from odradek.connect.config import ConfigDef, Kind, non_empty
from odradek.connect.connectors.aws.client import AWS, client, translated
from odradek.connect.connectors.text import text_of
from odradek.connect.converters.json import dump
from odradek.connect.converters.json_format import to_json
from odradek.connect.data.values import to_text
from odradek.connect.errors import ConnectError, RetriableError
from odradek.connect.plugin import Configs, SinkConnector, SinkTask
from odradek.connect.record import SinkRecord


def key_text(record: SinkRecord) -> str | None:
    """Return a key as text, or None."""
    return None if record.key is None else to_text(record.key)


class BatchTask(SinkTask):
    """Sends records in batches; those that the service refuses for now are sent again, in the next attempt."""

    service: ClassVar[str]
    definitions: ClassVar[ConfigDef]
    batch_max: ClassVar[int] = 10

    def start(self, configs: Configs) -> None:
        self._options = self.definitions.parse(configs)
        self._client: Any = client(self.service, self._options)
        self._left: list[SinkRecord] | None = None  # of a batch that comes again after a failure

    def put(self, records: Sequence[SinkRecord]) -> None:
        waiting = [record for record in records if record.value is not None] if self._left is None else self._left
        while waiting:
            self._left = waiting
            batch = waiting[: self.batch_max]
            with translated(f"{self.service} refused the records"):
                failures = self.send(batch)
            again = [batch[index] for index, (is_retriable, _) in failures.items() if is_retriable]
            for index, (is_retriable, why) in failures.items():
                if not is_retriable:
                    self.context.errant_records.report(batch[index], ConnectError(why))
            waiting = [*again, *waiting[len(batch) :]]
            if again:
                self._left = waiting
                raise RetriableError(f"{self.service} refused {len(again)} of {len(batch)} records for now")
        self._left = None

    @abstractmethod
    def send(self, batch: list[SinkRecord]) -> dict[int, tuple[bool, str]]:
        """Send records; return by index those that were refused: whether it may succeed later, and why."""


class _AwsSink(SinkConnector):
    """Base of these connectors."""

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        return [dict(self.configs)] * tasks_max


class SnsSinkTask(BatchTask):
    """Publishes to a topic of Amazon SNS."""

    service = "sns"
    definitions = (
        ConfigDef()
        .define("sns.topic.arn", Kind.STRING, documentation="The topic.", importance="HIGH", allowed=non_empty())
        .define("sns.subject", Kind.STRING, None, "Subject of the messages.")
    ) + AWS  # fmt: skip

    def send(self, batch: list[SinkRecord]) -> dict[int, tuple[bool, str]]:
        arn = self._options["sns.topic.arn"]
        entries = [self._entry(index, record, arn) for index, record in enumerate(batch)]
        return failed(self._client.publish_batch(TopicArn=arn, PublishBatchRequestEntries=entries))

    def _entry(self, index: int, record: SinkRecord, arn: str) -> dict[str, Any]:
        entry: dict[str, Any] = {"Id": str(index), "Message": text_of(record.value_schema, record.value)}
        if self._options["sns.subject"]:
            entry["Subject"] = self._options["sns.subject"]
        return {**entry, **fifo(record, arn)}


def fifo(record: SinkRecord, name: str) -> dict[str, Any]:
    """Return what a FIFO topic or queue needs: the order of the partition, and an id that makes repeats harmless."""
    if not name.endswith(".fifo"):
        return {}
    tp = record.source
    group = key_text(record) or f"{tp.topic}-{tp.partition}"
    return {
        "MessageGroupId": group[:128],
        "MessageDeduplicationId": f"{tp.topic}-{tp.partition}-{record.source_position}"[-128:],
    }


def failed(response: Mapping[str, Any]) -> dict[int, tuple[bool, str]]:
    """Return the failures of a response of SNS or SQS."""
    return {
        int(failure["Id"]): (not failure.get("SenderFault", False), f"{failure.get('Code')}: {failure.get('Message')}")
        for failure in response.get("Failed", ())
    }


class SnsSinkConnector(_AwsSink):
    """Messages to a topic of Amazon SNS."""

    task_class = SnsSinkTask
    config_def = SnsSinkTask.definitions


class EventBridgeSinkTask(BatchTask):
    """Puts events on a bus of Amazon EventBridge."""

    service = "events"
    definitions = (
        ConfigDef()
        .define(
            "aws.eventbridge.eventbus.arn", Kind.STRING, "default", "Name or ARN of the bus.", importance="HIGH"
        )
        .define("aws.eventbridge.source", Kind.STRING, "odradek.connect", "Source of the events.")
        .define("aws.eventbridge.detail.types", Kind.STRING, "${topic}", "Detail type; ${topic} is the topic.")
    ) + AWS  # fmt: skip

    def send(self, batch: list[SinkRecord]) -> dict[int, tuple[bool, str]]:
        options = self._options
        entries = [
            {
                "EventBusName": options["aws.eventbridge.eventbus.arn"],
                "Source": options["aws.eventbridge.source"],
                "DetailType": options["aws.eventbridge.detail.types"].replace("${topic}", record.topic),
                "Detail": dump(self._detail(record)).decode(),
            }
            for record in batch
        ]
        response = self._client.put_events(Entries=entries)
        return {
            index: (result["ErrorCode"] in ("ThrottlingException", "InternalFailure"), str(result.get("ErrorMessage")))
            for index, result in enumerate(response.get("Entries", ()))
            if result.get("ErrorCode")
        }

    def _detail(self, record: SinkRecord) -> dict[str, Any]:
        """Return the record as EventBridge's Kafka connector writes it."""
        return {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp_ms,
            "timestampType": record.timestamp_type,
            "headers": [{header.key: to_json(header.schema, header.value)} for header in record.headers],
            "key": to_json(record.key_schema, record.key),
            "value": to_json(record.value_schema, record.value),
        }


class EventBridgeSinkConnector(_AwsSink):
    """Events on a bus of Amazon EventBridge."""

    task_class = EventBridgeSinkTask
    config_def = EventBridgeSinkTask.definitions

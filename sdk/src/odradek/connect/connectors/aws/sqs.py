"""Amazon SQS: messages as a source, and as a sink. At least once.

The source deletes a message when its record is stored. A message that is delivered again in between, because the task
died or its visibility time-out ran out, becomes a second record.
"""

from __future__ import annotations

from typing import Any

from odradek.connect.config import ConfigDef, Kind, between, non_empty
from odradek.connect.connectors.aws.client import AWS, client, translated
from odradek.connect.connectors.aws.publish import BatchTask, failed, fifo
from odradek.connect.connectors.text import text_of
from odradek.connect.data import schema as schemas
from odradek.connect.plugin import Configs, ExactlyOnceSupport, SinkConnector, SourceConnector, SourceTask
from odradek.connect.record import Header, SinkRecord, SourceRecord

_QUEUE = ConfigDef().define(
    "sqs.url", Kind.STRING, documentation="URL of the queue.", importance="HIGH", allowed=non_empty()
)
_BATCH_MAX = 10


class SqsSourceTask(SourceTask):
    """Receives messages."""

    def start(self, configs: Configs) -> None:
        self._options = SqsSourceConnector.config_def.parse(configs)
        self._client: Any = client("sqs", self._options)
        self._received: list[str] = []  # receipts of messages whose records are not stored yet

    def poll(self) -> list[SourceRecord]:
        with translated("the queue cannot be read"):
            response = self._client.receive_message(
                QueueUrl=self._options["sqs.url"],
                MaxNumberOfMessages=_BATCH_MAX,
                WaitTimeSeconds=self._options["sqs.wait.time.seconds"],
                MessageAttributeNames=["All"],
                AttributeNames=["SentTimestamp"],
            )
        records = []
        for message in response.get("Messages", ()):
            self._received.append(message["ReceiptHandle"])
            attributes = message.get("MessageAttributes", {})
            records.append(
                SourceRecord(
                    topic=self._options["kafka.topic"],
                    key=message["MessageId"],
                    key_schema=schemas.STRING,
                    value=message["Body"],
                    value_schema=schemas.STRING,
                    timestamp_ms=int(message["Attributes"]["SentTimestamp"]),
                    headers=tuple(
                        Header(name, message_attribute.get("StringValue") or message_attribute.get("BinaryValue"))
                        for name, message_attribute in attributes.items()
                    ),
                )
            )
        return records

    def commit(self) -> None:
        while self._received:
            entries = [
                {"Id": str(n), "ReceiptHandle": receipt} for n, receipt in enumerate(self._received[:_BATCH_MAX])
            ]
            with translated("the messages cannot be deleted"):
                self._client.delete_message_batch(QueueUrl=self._options["sqs.url"], Entries=entries)
            del self._received[:_BATCH_MAX]


class SqsSourceConnector(SourceConnector):
    """Messages of an Amazon SQS queue."""

    task_class = SqsSourceTask
    config_def = (
        _QUEUE
        + ConfigDef()
        .define("kafka.topic", Kind.STRING, documentation="The topic.", importance="HIGH", allowed=non_empty(),
                also=("topic",))
        .define("sqs.wait.time.seconds", Kind.INT, 1, "How long a request waits for messages.", allowed=between(0, 20))
        + AWS
    )  # fmt: skip

    @classmethod
    def exactly_once_support(cls, configs: Configs) -> ExactlyOnceSupport:
        return ExactlyOnceSupport.UNSUPPORTED

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        return [dict(self.configs)] * tasks_max


class SqsSinkTask(BatchTask):
    """Sends messages."""

    service = "sqs"
    definitions = _QUEUE + AWS

    def send(self, batch: list[SinkRecord]) -> dict[int, tuple[bool, str]]:
        url = self._options["sqs.url"]
        entries = [
            {"Id": str(index), "MessageBody": text_of(record.value_schema, record.value), **fifo(record, url)}
            for index, record in enumerate(batch)
        ]
        return failed(self._client.send_message_batch(QueueUrl=url, Entries=entries))


class SqsSinkConnector(SinkConnector):
    """Messages to an Amazon SQS queue; exactly once to a FIFO queue within its five minutes."""

    task_class = SqsSinkTask
    config_def = SqsSinkTask.definitions

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        return [dict(self.configs)] * tasks_max

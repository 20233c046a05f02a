"""Amazon Kinesis Data Streams: a source with a position for each shard, and a sink."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odradek.connect.config import ConfigDef, Kind, non_empty
from odradek.connect.connectors.aws.client import AWS, client, translated
from odradek.connect.connectors.aws.publish import BatchTask, key_text
from odradek.connect.connectors.aws.shards import ShardsTask, shard_options
from odradek.connect.converters.json import dump
from odradek.connect.converters.json_format import to_json
from odradek.connect.data import schema as schemas
from odradek.connect.plugin import Configs, SinkConnector, SourceConnector
from odradek.connect.record import SinkRecord, SourceRecord

_STREAM = ConfigDef().define(
    "kinesis.stream", Kind.STRING, documentation="Name of the stream.", importance="HIGH", allowed=non_empty()
)
_PUT_MAX = 500


class KinesisSourceTask(ShardsTask):
    """Reads its share of the shards of a stream."""

    prefix = "kinesis"

    def open(self, configs: Configs) -> Mapping[str, Any]:
        options = KinesisSourceConnector.config_def.parse(configs)
        self._client: Any = client("kinesis", options)
        self._stream, self._topic = options["kinesis.stream"], options["kafka.topic"]
        return options

    def shards(self) -> list[dict[str, Any]]:
        shards: list[dict[str, Any]] = []
        with translated(f"the shards of {self._stream} cannot be listed"):
            for page in self._client.get_paginator("list_shards").paginate(StreamName=self._stream):
                shards += page["Shards"]
        return shards

    def iterator(self, shard: str, where: Mapping[str, Any]) -> str:
        with translated(f"the shard {shard} cannot be read"):
            response = self._client.get_shard_iterator(StreamName=self._stream, ShardId=shard, **where)
        return str(response["ShardIterator"])

    def records(self, iterator: str, limit: int) -> dict[str, Any]:
        with translated(f"the stream {self._stream} cannot be read"):
            response: dict[str, Any] = self._client.get_records(ShardIterator=iterator, Limit=limit)
        return response

    def partition(self, shard: str) -> dict[str, str]:
        return {"shard": shard, "stream": self._stream}

    def sequence(self, kinesis_record: dict[str, Any]) -> str:
        return str(kinesis_record["SequenceNumber"])

    def record(self, shard: str, kinesis_record: dict[str, Any]) -> SourceRecord:
        return SourceRecord(
            topic=self._topic,
            key=kinesis_record["PartitionKey"],
            key_schema=schemas.STRING,
            value=bytes(kinesis_record["Data"]),
            value_schema=schemas.BYTES,
            timestamp_ms=int(kinesis_record["ApproximateArrivalTimestamp"].timestamp() * 1000),
            source_partition=self.partition(shard),
            source_offset={"sequence": kinesis_record["SequenceNumber"]},
        )


class KinesisSourceConnector(SourceConnector):
    """Records of an Amazon Kinesis data stream; use ByteArrayConverter for the values."""

    task_class = KinesisSourceTask
    config_def = (
        _STREAM
        + ConfigDef().define(
            "kafka.topic", Kind.STRING, documentation="The topic.", importance="HIGH", allowed=non_empty(),
            also=("topic",),
        )
        + shard_options("kinesis")
        + AWS
    )  # fmt: skip

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        return [{**self.configs, "task.number": str(n), "task.count": str(tasks_max)} for n in range(tasks_max)]


class KinesisSinkTask(BatchTask):
    """Puts records."""

    service = "kinesis"
    definitions = _STREAM + AWS
    batch_max = _PUT_MAX

    def send(self, batch: list[SinkRecord]) -> dict[int, tuple[bool, str]]:
        entries = [{"Data": _data(record), "PartitionKey": _partition_key(record)} for record in batch]
        response = self._client.put_records(StreamName=self._options["kinesis.stream"], Records=entries)
        return {
            index: (True, str(result.get("ErrorMessage")))
            for index, result in enumerate(response["Records"])
            if result.get("ErrorCode")
        }


def _data(record: SinkRecord) -> bytes:
    if isinstance(record.value, bytes | str):
        return record.value if isinstance(record.value, bytes) else record.value.encode()
    return dump(to_json(record.value_schema, record.value))


def _partition_key(record: SinkRecord) -> str:
    return (key_text(record) or f"{record.source.topic}-{record.source.partition}")[:256]


class KinesisSinkConnector(SinkConnector):
    """Records to an Amazon Kinesis data stream. At least once."""

    task_class = KinesisSinkTask
    config_def = KinesisSinkTask.definitions

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        return [dict(self.configs)] * tasks_max

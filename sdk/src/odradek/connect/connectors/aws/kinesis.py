"""Amazon Kinesis Data Streams: a source with a position for each shard, and a sink."""

from __future__ import annotations

import zlib
from typing import Any

from odradek.connect.config import ConfigDef, Kind, between, non_empty, one_of
from odradek.connect.connectors.aws.client import AWS, client, translated
from odradek.connect.connectors.aws.publish import BatchTask, key_text
from odradek.connect.converters.json import dump
from odradek.connect.converters.json_format import to_json
from odradek.connect.data import schema as schemas
from odradek.connect.plugin import Configs, SinkConnector, SourceConnector, SourceTask
from odradek.connect.record import SinkRecord, SourceRecord

_STREAM = ConfigDef().define(
    "kinesis.stream", Kind.STRING, documentation="Name of the stream.", importance="HIGH", allowed=non_empty()
)
_PUT_MAX = 500


class KinesisSourceTask(SourceTask):
    """Reads its share of the shards; a shard that was split or merged is read to its end, then its children."""

    def start(self, configs: Configs) -> None:
        self._given = KinesisSourceConnector.config_def.parse(configs)
        self._client: Any = client("kinesis", self._given)
        self._task, self._tasks = int(configs.get("task.number", 0)), int(configs.get("task.count", 1))
        self._iterators: dict[str, str] = {}
        self._positions: dict[str, str] = {}
        self._ended: set[str] = set()
        self._listed_s = float("-inf")

    def poll(self) -> list[SourceRecord]:
        now_s = self.context.clock.monotonic()
        if now_s - self._listed_s >= self._given["kinesis.shard.list.interval.ms"] / 1000:
            self._list()
            self._listed_s = now_s
        records = [record for shard in list(self._iterators) for record in self._read(shard)]
        if not records:
            self.context.wait(self._given["kinesis.poll.interval.ms"] / 1000)
        return records

    def _list(self) -> None:
        """Find shards; a child begins when its parents have ended, so that keys keep their order."""
        stream, shards = self._given["kinesis.stream"], []
        with translated(f"the shards of {stream} cannot be listed"):
            for page in self._client.get_paginator("list_shards").paginate(StreamName=stream):
                shards += page["Shards"]
        known = {each["ShardId"] for each in shards}
        for each in shards:
            shard = each["ShardId"]
            parents = {each.get("ParentShardId"), each.get("AdjacentParentShardId")} & known
            is_mine = zlib.crc32(shard.encode()) % self._tasks == self._task
            # Parents of other tasks cannot be waited for: with several tasks, order ends at a resharding.
            waits = {p for p in parents if zlib.crc32(p.encode()) % self._tasks == self._task} - self._ended
            if is_mine and not waits and shard not in self._iterators and shard not in self._ended:
                self._iterators[shard] = self._iterator(shard)

    def _iterator(self, shard: str) -> str:
        stored = self.context.offset({"shard": shard, "stream": self._given["kinesis.stream"]})
        position = self._positions.get(shard) or (None if stored is None else str(stored["sequence"]))
        where: dict[str, Any] = {"ShardIteratorType": self._given["kinesis.position"]}
        if position is not None:
            where = {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": position}
        with translated(f"the shard {shard} cannot be read"):
            found = self._client.get_shard_iterator(StreamName=self._given["kinesis.stream"], ShardId=shard, **where)
        return str(found["ShardIterator"])

    def _read(self, shard: str) -> list[SourceRecord]:
        try:
            with translated(f"the shard {shard} cannot be read"):
                found = self._client.get_records(
                    ShardIterator=self._iterators[shard], Limit=self._given["kinesis.record.limit"]
                )
        except Exception as error:
            if "ExpiredIteratorException" not in str(error):
                raise
            self._iterators[shard] = self._iterator(shard)
            return []
        following = found.get("NextShardIterator")
        if following is None:
            del self._iterators[shard]
            self._ended.add(shard)
            self._listed_s = float("-inf")
        else:
            self._iterators[shard] = following
        return [self._record(shard, each) for each in found["Records"]]

    def _record(self, shard: str, found: dict[str, Any]) -> SourceRecord:
        self._positions[shard] = found["SequenceNumber"]
        return SourceRecord(
            topic=self._given["kafka.topic"],
            key=found["PartitionKey"],
            key_schema=schemas.STRING,
            value=bytes(found["Data"]),
            value_schema=schemas.BYTES,
            timestamp_ms=int(found["ApproximateArrivalTimestamp"].timestamp() * 1000),
            source_partition={"shard": shard, "stream": self._given["kinesis.stream"]},
            source_offset={"sequence": found["SequenceNumber"]},
        )


class KinesisSourceConnector(SourceConnector):
    """Records of an Amazon Kinesis data stream; use ByteArrayConverter for the values."""

    task_class = KinesisSourceTask
    config_def = (
        _STREAM
        + ConfigDef()
        .define("kafka.topic", Kind.STRING, documentation="The topic.", importance="HIGH", allowed=non_empty(),
                also=("topic",))
        .define("kinesis.position", Kind.STRING, "TRIM_HORIZON", "Where a shard without a stored offset begins.",
                allowed=one_of("TRIM_HORIZON", "LATEST"))
        .define("kinesis.record.limit", Kind.INT, 500, "Records of one request.", allowed=between(1, 10_000))
        .define("kinesis.poll.interval.ms", Kind.LONG, 1_000, "Pause after requests without records.",
                allowed=between(1))
        .define("kinesis.shard.list.interval.ms", Kind.LONG, 30_000, "Time between two looks for new shards.",
                importance="LOW", allowed=between(1))
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
        entries = [{"Data": _data(each), "PartitionKey": _partition_key(each)} for each in batch]
        response = self._client.put_records(StreamName=self._given["kinesis.stream"], Records=entries)
        return {
            index: (True, str(each.get("ErrorMessage")))
            for index, each in enumerate(response["Records"])
            if each.get("ErrorCode")
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

"""The DynamoDB Streams source: every change of a table's items, in the order of their keys.

The value of a record is {"op", "before", "after", "ts_ms", "source": {"table"}}, as Debezium writes changes: `op` is c
for a new item, u for a changed one and d for a deleted one; before and after are items as plain JSON, as far as the
stream's view type has them. The key has the item's key attributes. Numbers that are not whole are text, since they may
have 38 digits.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from odradek.connect.config import ConfigDef, Kind, non_empty
from odradek.connect.connectors.aws.client import AWS, client, translated
from odradek.connect.connectors.aws.shards import ShardsTask, shard_options
from odradek.connect.errors import ConnectError
from odradek.connect.plugin import Configs, SourceConnector
from odradek.connect.record import SourceRecord

_OPERATIONS = {"INSERT": "c", "MODIFY": "u", "REMOVE": "d"}


def plain(attribute: Mapping[str, Any]) -> Any:
    """Return an attribute of DynamoDB as plain JSON."""
    [(type_code, value)] = attribute.items()
    if type_code == "NULL":
        return None
    if type_code in ("S", "BOOL"):
        return value
    if type_code == "N":
        return int(value) if str(value).lstrip("-").isdigit() else str(value)
    if type_code == "B":
        return base64.b64encode(bytes(value)).decode()
    if type_code == "L":
        return [plain(element) for element in value]
    if type_code == "M":
        return {name: plain(member) for name, member in value.items()}
    return [plain({type_code[0]: element}) for element in value]  # a set: SS, NS, BS


def _item(image: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if image is None else {name: plain(cell) for name, cell in image.items()}


class DynamoDbStreamsTask(ShardsTask):
    """Reads its share of the shards of a table's stream."""

    prefix = "dynamodb"

    def open(self, configs: Configs) -> Mapping[str, Any]:
        options = DynamoDbStreamsSourceConnector.config_def.parse(configs)
        self._table, self._topic = (
            options["dynamodb.table.name"],
            options["kafka.topic"] or options["dynamodb.table.name"],
        )
        with translated(f"the table {self._table} cannot be described"):
            described = client("dynamodb", options).describe_table(TableName=self._table)["Table"]
        if "LatestStreamArn" not in described:
            raise ConnectError(f"the table {self._table} has no stream: enable one, with new and old images")
        self._stream: str = described["LatestStreamArn"]
        self._client: Any = client("dynamodbstreams", options)
        return options

    def shards(self) -> list[dict[str, Any]]:
        shards: list[dict[str, Any]] = []
        last: dict[str, str] = {}
        with translated(f"the stream of {self._table} cannot be described"):
            while True:
                page = self._client.describe_stream(StreamArn=self._stream, **last)["StreamDescription"]
                shards += page["Shards"]
                if "LastEvaluatedShardId" not in page:
                    return shards
                last = {"ExclusiveStartShardId": page["LastEvaluatedShardId"]}

    def iterator(self, shard: str, where: Mapping[str, Any]) -> str:
        arguments = {
            {"StartingSequenceNumber": "SequenceNumber"}.get(name, name): argument for name, argument in where.items()
        }
        with translated(f"the shard {shard} cannot be read"):
            response = self._client.get_shard_iterator(StreamArn=self._stream, ShardId=shard, **arguments)
        return str(response["ShardIterator"])

    def records(self, iterator: str, limit: int) -> dict[str, Any]:
        with translated(f"the stream of {self._table} cannot be read"):
            response: dict[str, Any] = self._client.get_records(ShardIterator=iterator, Limit=min(limit, 1000))
        return response

    def partition(self, shard: str) -> dict[str, str]:
        return {"shard": shard, "stream": self._stream}

    def sequence(self, stream_record: dict[str, Any]) -> str:
        return str(stream_record["dynamodb"]["SequenceNumber"])

    def record(self, shard: str, stream_record: dict[str, Any]) -> SourceRecord:
        change = stream_record["dynamodb"]
        time_ms = int(change["ApproximateCreationDateTime"].timestamp() * 1000)
        return SourceRecord(
            topic=self._topic,
            key=_item(change["Keys"]),
            value={
                "op": _OPERATIONS[stream_record["eventName"]],
                "before": _item(change.get("OldImage")),
                "after": _item(change.get("NewImage")),
                "ts_ms": time_ms,
                "source": {"table": self._table},
            },
            timestamp_ms=time_ms,
            source_partition=self.partition(shard),
            source_offset={"sequence": self.sequence(stream_record)},
        )


class DynamoDbStreamsSourceConnector(SourceConnector):
    """Changes of the items of an Amazon DynamoDB table."""

    task_class = DynamoDbStreamsTask
    config_def = (
        ConfigDef()
        .define(
            "dynamodb.table.name", Kind.STRING, documentation="The table, which needs a stream.", importance="HIGH",
            allowed=non_empty(),
        )
        .define("kafka.topic", Kind.STRING, "", "The topic; by default the name of the table.", also=("topic",))
        + shard_options("dynamodb")
        + AWS
    )  # fmt: skip

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        return [{**self.configs, "task.number": str(n), "task.count": str(tasks_max)} for n in range(tasks_max)]

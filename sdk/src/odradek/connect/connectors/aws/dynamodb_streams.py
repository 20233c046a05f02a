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
    [(kind, value)] = attribute.items()
    if kind == "NULL":
        return None
    if kind in ("S", "BOOL"):
        return value
    if kind == "N":
        return int(value) if str(value).lstrip("-").isdigit() else str(value)
    if kind == "B":
        return base64.b64encode(bytes(value)).decode()
    if kind == "L":
        return [plain(each) for each in value]
    if kind == "M":
        return {name: plain(each) for name, each in value.items()}
    return [plain({kind[0]: each}) for each in value]  # a set: SS, NS, BS


def _item(image: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if image is None else {name: plain(each) for name, each in image.items()}


class DynamoDbStreamsTask(ShardsTask):
    """Reads its share of the shards of a table's stream."""

    prefix = "dynamodb"

    def open(self, configs: Configs) -> Mapping[str, Any]:
        given = DynamoDbStreamsSourceConnector.config_def.parse(configs)
        self._table, self._topic = given["dynamodb.table.name"], given["kafka.topic"] or given["dynamodb.table.name"]
        with translated(f"the table {self._table} cannot be described"):
            described = client("dynamodb", given).describe_table(TableName=self._table)["Table"]
        if "LatestStreamArn" not in described:
            raise ConnectError(f"the table {self._table} has no stream: enable one, with new and old images")
        self._stream: str = described["LatestStreamArn"]
        self._client: Any = client("dynamodbstreams", given)
        return given

    def shards(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        last: dict[str, str] = {}
        with translated(f"the stream of {self._table} cannot be described"):
            while True:
                page = self._client.describe_stream(StreamArn=self._stream, **last)["StreamDescription"]
                found += page["Shards"]
                if "LastEvaluatedShardId" not in page:
                    return found
                last = {"ExclusiveStartShardId": page["LastEvaluatedShardId"]}

    def iterator(self, shard: str, where: Mapping[str, Any]) -> str:
        given = {{"StartingSequenceNumber": "SequenceNumber"}.get(name, name): each for name, each in where.items()}
        with translated(f"the shard {shard} cannot be read"):
            found = self._client.get_shard_iterator(StreamArn=self._stream, ShardId=shard, **given)
        return str(found["ShardIterator"])

    def records(self, iterator: str, limit: int) -> dict[str, Any]:
        with translated(f"the stream of {self._table} cannot be read"):
            found: dict[str, Any] = self._client.get_records(ShardIterator=iterator, Limit=min(limit, 1000))
        return found

    def partition(self, shard: str) -> dict[str, str]:
        return {"shard": shard, "stream": self._stream}

    def sequence(self, found: dict[str, Any]) -> str:
        return str(found["dynamodb"]["SequenceNumber"])

    def record(self, shard: str, found: dict[str, Any]) -> SourceRecord:
        change = found["dynamodb"]
        time_ms = int(change["ApproximateCreationDateTime"].timestamp() * 1000)
        return SourceRecord(
            topic=self._topic,
            key=_item(change["Keys"]),
            value={
                "op": _OPERATIONS[found["eventName"]],
                "before": _item(change.get("OldImage")),
                "after": _item(change.get("NewImage")),
                "ts_ms": time_ms,
                "source": {"table": self._table},
            },
            timestamp_ms=time_ms,
            source_partition=self.partition(shard),
            source_offset={"sequence": self.sequence(found)},
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

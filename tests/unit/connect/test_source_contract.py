"""Every source of the wheel keeps the contract of sources (odradek.testing.connect)."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import parse_qs, urlsplit

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from odradek.connect.connectors.aws import dynamodb_streams as dynamodb_streams_module
from odradek.connect.connectors.aws.kinesis import KinesisSourceConnector
from odradek.connect.connectors.aws.sqs import SqsSourceConnector
from odradek.connect.connectors.datagen.source import DatagenConnector
from odradek.connect.connectors.files.s3 import S3SourceConnector
from odradek.connect.connectors.files.source import FileSourceConnector
from odradek.connect.connectors.http.source import HttpSourceConnector
from odradek.connect.connectors.jdbc.source import JdbcSourceConnector
from odradek.connect.data import plain
from odradek.testing.connect import SOURCE_CHECKS, SourceUnderTest, source_restarts_anywhere
from odradek.testing.contract import check_id
from odradek.testing.manual_clock import START_MS

from tests.support.connect import aws
from tests.support.connect.http_server import Request, serving

Make = Callable[[Path, ExitStack], SourceUnderTest]
_COUNT = 25
_ROWS = [{"id": number, "name": f"row {number}"} for number in range(_COUNT)]


def _id_of(record: Any) -> Any:
    value = plain(record.value)
    return int(value["id"])


def datagen(folder: Path, stack: ExitStack) -> SourceUnderTest:
    configs = {"kafka.topic": "t", "quickstart": "orders", "iterations": str(_COUNT), "max.interval": "10"}
    expected = [(task, number) for task in range(2) for number in range(_COUNT)]
    return SourceUnderTest(
        DatagenConnector, configs, expected, lambda r: (r.source_partition["task"], r.value["orderid"]), tasks_max=2
    )  # fmt: skip


def _files(folder: Path, form: str) -> dict[str, bytes]:
    """Two files with the rows, the first five and the others."""
    made = {}
    for name, rows in (("a", _ROWS[:5]), ("sub/b", _ROWS[5:])):
        out = io.BytesIO()
        if form == "json":
            out.write(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
        elif form == "csv":
            out.write(b"id,name\n" + b"".join(f'{row["id"]},"{row["name"]}"\n'.encode() for row in rows))
        elif form == "lines":
            out.write(b"".join(f"{row['id']}\r\n".encode() for row in rows) + b"not yet complete")
        elif form == "avro":
            fields = [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}]
            fastavro.writer(out, {"type": "record", "name": "row", "fields": fields}, rows)
        else:
            pq.write_table(pa.Table.from_pylist(rows), out, row_group_size=3)
        made[f"{name}.{form}"] = out.getvalue()
    return made


def _of_files(form: str) -> Make:
    def make(folder: Path, stack: ExitStack) -> SourceUnderTest:
        for name, data in _files(folder, form).items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(data)
        (folder / "other.tmp").write_bytes(b"of another pattern\n")
        configs = {
            "file": str(folder),
            "topic": "t",
            "format": form,
            "file.name.pattern": rf".*\.{form}",
            "batch.size": "4",
        }
        value_of = (lambda r: int(r.value)) if form == "lines" else _id_of
        return SourceUnderTest(FileSourceConnector, configs, list(range(_COUNT)), value_of, tasks_max=2)

    return make


def s3(folder: Path, stack: ExitStack) -> SourceUnderTest:
    stack.enter_context(aws.moto())
    client = aws.client("s3")
    client.create_bucket(Bucket="bucket")
    for name, data in _files(folder, "json").items():
        client.put_object(Bucket="bucket", Key=f"in/{name}", Body=data)
    configs = {"s3.bucket.name": "bucket", "s3.prefix": "in/", "topic": "t", "format": "json", "batch.size": "4"}
    return SourceUnderTest(S3SourceConnector, {**configs, **aws.CONFIGS}, list(range(_COUNT)), _id_of)


def _database(folder: Path) -> str:
    url = f"sqlite:///{folder / 'source.db'}"
    engine = sa.create_engine(url)
    table = sa.Table(
        "rows",
        sa.MetaData(),
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.Text),
        sa.Column("changed", sa.DateTime, nullable=False),
        sa.Column("price", sa.Numeric(10, 2), nullable=False),
    )
    table.create(engine)
    start = dt.datetime.fromtimestamp(START_MS / 1000, dt.UTC).replace(tzinfo=None) - dt.timedelta(days=1)
    with engine.begin() as connection:
        for row in _ROWS:  # five rows have the same time
            changed = start + dt.timedelta(microseconds=row["id"] // 5)
            connection.execute(sa.insert(table).values({**row, "changed": changed, "price": row["id"] / 4}))
    engine.dispose()
    return url


def _jdbc(mode: str, **more: str) -> Make:
    def make(folder: Path, stack: ExitStack) -> SourceUnderTest:
        configs = {
            "connection.url": _database(folder),
            "mode": mode,
            "topic.prefix": "t-",
            "batch.max.rows": "3",
            "poll.interval.ms": "10",
            **({"incrementing.column.name": "id"} if "incrementing" in mode else {}),
            **({"timestamp.column.name": "changed"} if "timestamp" in mode else {}),
            **more,
        }
        return SourceUnderTest(JdbcSourceConnector, configs, list(range(_COUNT)), _id_of)

    return make


def _http(mode: str) -> Make:
    def answer(request: Request) -> tuple[int, bytes]:
        asked = parse_qs(urlsplit(request.path).query)["from"][0]
        if request.headers.get("Authorization") != "Bearer secret":
            return 401, b"who are you?"
        if mode == "CHAINING":
            first = int(asked) + 1
        elif mode == "CURSOR_PAGINATION":
            first = int(asked.removeprefix("page-"))
        else:
            first = int(asked)
        rows = _ROWS[first : first + 4]
        following = f"page-{first + 4}" if first + 4 <= _COUNT else None
        return 200, json.dumps({"data": {"items": rows}, "next": following}).encode()

    def make(folder: Path, stack: ExitStack) -> SourceUnderTest:
        url = stack.enter_context(serving(answer))
        initial = {"SIMPLE_INCREMENTING": "0", "CHAINING": "-1", "CURSOR_PAGINATION": "page-0"}[mode]
        configs = {
            "url": f"{url}/rows?from=${{offset}}",
            "topic": "t",
            "http.offset.mode": mode,
            "http.initial.offset": initial,
            "http.response.data.json.pointer": "/data/items",
            "http.offset.json.pointer": "/id",
            "http.next.page.json.pointer": "/next",
            "request.interval.ms": "1000000",
            "auth.type": "bearer",
            "bearer.token": "secret",
        }
        return SourceUnderTest(HttpSourceConnector, configs, list(range(_COUNT)), _id_of)

    return make


def kinesis(folder: Path, stack: ExitStack) -> SourceUnderTest:
    stack.enter_context(aws.moto())
    client = aws.client("kinesis")
    client.create_stream(StreamName="stream", ShardCount=3)
    for row in _ROWS:
        client.put_record(StreamName="stream", Data=json.dumps(row).encode(), PartitionKey=str(row["id"]))
    configs = {"kinesis.stream": "stream", "kafka.topic": "t", "kinesis.record.limit": "2", **aws.CONFIGS}
    return SourceUnderTest(
        KinesisSourceConnector, configs, list(range(_COUNT)), lambda r: json.loads(r.value)["id"], tasks_max=2
    )  # fmt: skip


class _Streams:
    """The stream of a table: a shard, and the one that it was continued by. (moto does not answer DescribeStream.)"""

    def __init__(self, changes: list[dict[str, Any]]) -> None:
        self._shards = {"shard-1": changes[:9], "shard-2": changes[9:]}

    def describe_table(self, TableName: str) -> Any:
        return {"Table": {"LatestStreamArn": f"arn:{TableName}"}}

    def describe_stream(self, StreamArn: str, **_: Any) -> Any:
        shards = [{"ShardId": "shard-1"}, {"ShardId": "shard-2", "ParentShardId": "shard-1"}]
        return {"StreamDescription": {"Shards": shards}}

    def get_shard_iterator(self, ShardId: str, SequenceNumber: str = "", **_: Any) -> Any:
        numbers = [each["dynamodb"]["SequenceNumber"] for each in self._shards[ShardId]]
        return {"ShardIterator": f"{ShardId}:{numbers.index(SequenceNumber) + 1 if SequenceNumber else 0}"}

    def get_records(self, ShardIterator: str, Limit: int) -> Any:
        shard, _, first = ShardIterator.partition(":")
        end = int(first) + Limit
        following = None if shard == "shard-1" and end >= len(self._shards[shard]) else f"{shard}:{end}"
        return {"Records": self._shards[shard][int(first) : end], "NextShardIterator": following}


def _change(number: int, kind: str, key: int, **images: Any) -> dict[str, Any]:
    moment = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    keys = {"id": {"N": str(key)}}
    found = {name: {**keys, **image} for name, image in images.items()}
    data = {"Keys": keys, "SequenceNumber": f"{number:021}", "ApproximateCreationDateTime": moment, **found}
    return {"eventName": kind, "dynamodb": data}


def dynamodb_streams(folder: Path, stack: ExitStack) -> SourceUnderTest:
    tags = {"tags": {"SS": ["a"]}}
    changes = [_change(row["id"], "INSERT", row["id"], NewImage=tags) for row in _ROWS]
    changes.append(_change(100, "MODIFY", 0, OldImage=tags, NewImage={"price": {"N": "1.5"}}))
    changes.append(_change(101, "REMOVE", 1, OldImage=tags))
    streams = _Streams(changes)
    stack.enter_context(mock.patch.object(dynamodb_streams_module, "client", return_value=streams))

    def value_of(record: Any) -> Any:
        return record.value["op"], record.key["id"], record.value["after"], record.value["before"]

    created = [("c", row["id"], {"id": row["id"], "tags": ["a"]}, None) for row in _ROWS]
    changed = ("u", 0, {"id": 0, "price": "1.5"}, {"id": 0, "tags": ["a"]})
    deleted = ("d", 1, None, {"id": 1, "tags": ["a"]})
    configs = {"dynamodb.table.name": "rows", "dynamodb.record.limit": "4"}
    connector = dynamodb_streams_module.DynamoDbStreamsSourceConnector
    return SourceUnderTest(connector, configs, [*created, changed, deleted], value_of)


SOURCES: dict[str, Make] = {
    "datagen": datagen,
    **{f"file {form}": _of_files(form) for form in ("lines", "csv", "json", "avro", "parquet")},
    "s3": s3,
    **{f"jdbc {mode}": _jdbc(mode) for mode in ("incrementing", "timestamp", "timestamp+incrementing")},
    "jdbc query": _jdbc("incrementing", query="SELECT id, name FROM rows WHERE id >= 0"),
    **{f"http {mode}": _http(mode) for mode in ("SIMPLE_INCREMENTING", "CHAINING", "CURSOR_PAGINATION")},
    "kinesis": kinesis,
    "dynamodb streams": dynamodb_streams,
}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("check", SOURCE_CHECKS, ids=check_id)
@pytest.mark.parametrize("name", SOURCES)
def test_a_source_keeps_the_contract(name: str, check: Any, tmp_path: Path, stack: ExitStack) -> None:
    check(SOURCES[name](tmp_path, stack))


def test_the_contract_finds_a_source_that_forgets_its_position(tmp_path: Path, stack: ExitStack) -> None:
    class Forgetful(DatagenConnector.task_class):  # type: ignore[name-defined,misc]
        def start(self, configs: Any) -> None:
            super().start(configs)
            self._number = min(self._number, 3)

    class ForgetfulConnector(DatagenConnector):
        task_class = Forgetful

    under_test = datagen(tmp_path, stack)
    under_test.connector = ForgetfulConnector
    with pytest.raises(AssertionError, match="records"):
        source_restarts_anywhere(under_test)


def test_messages_of_a_queue_are_deleted_when_their_records_are_stored(stack: ExitStack) -> None:
    stack.enter_context(aws.moto())
    client = aws.client("sqs")
    url = client.create_queue(QueueName="queue")["QueueUrl"]
    for number in range(_COUNT):
        client.send_message(QueueUrl=url, MessageBody=str(number))
    from odradek.testing.connect import SourceDriver
    from odradek.testing.manual_clock import ManualClock

    configs = {"sqs.url": url, "kafka.topic": "t", "sqs.wait.time.seconds": "0", **aws.CONFIGS}
    driver = SourceDriver(SqsSourceConnector.task_class(), configs, ManualClock(), {})  # type: ignore[arg-type]
    driver.start()
    records = driver.poll_until(_COUNT)
    assert sorted(int(record.value) for record in records) == list(range(_COUNT))

    def hidden() -> int:
        attributes = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        return int(attributes["ApproximateNumberOfMessagesNotVisible"])

    assert hidden() == _COUNT
    driver.store()
    assert hidden() == 0

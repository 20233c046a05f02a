"""Every sink of the wheel keeps the contract of sinks (odradek.testing.connect)."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from odradek.connect.connectors.aws.dynamodb import DynamoDbSinkConnector
from odradek.connect.connectors.aws.invoke import LambdaSinkConnector
from odradek.connect.connectors.aws.kinesis import KinesisSinkConnector
from odradek.connect.connectors.aws.publish import EventBridgeSinkConnector, SnsSinkConnector
from odradek.connect.connectors.aws.sqs import SqsSinkConnector
from odradek.connect.connectors.files.s3 import S3SinkConnector
from odradek.connect.connectors.files.sink import FileSinkConnector
from odradek.connect.connectors.files.stream_sink import FileStreamSinkConnector
from odradek.connect.connectors.http.sink import HttpSinkConnector
from odradek.connect.connectors.iceberg.sink import IcebergSinkConnector
from odradek.connect.connectors.jdbc.sink import JdbcSinkConnector
from odradek.connect.connectors.opensearch import OpenSearchSinkConnector
from odradek.connect.connectors.redis import RedisSinkConnector
from odradek.connect.data import INT64, STRING, Struct, struct
from odradek.connect.data.schema import OPTIONAL_STRING
from odradek.connect.errors import RetriableError
from odradek.connect.record import SinkRecord
from odradek.testing.connect import SINK_CHECKS, SinkDriver, SinkUnderTest, sink_restarts_anywhere
from odradek.testing.contract import check_id
from odradek.testing.manual_clock import START_MS

from tests.support.connect import aws
from tests.support.connect.http_server import Request, serving
from tests.support.connect.lake import iceberg_configs, read_table
from tests.support.connect.search_server import SearchServer
from tests.support.connect.valkey import flushed

Make = Callable[[Path, ExitStack], SinkUnderTest]
_SCHEMA = struct({"id": INT64, "name": STRING, "note": OPTIONAL_STRING}, name="Row")


def row(number: int) -> SinkRecord:
    value = Struct(_SCHEMA, {"id": number, "name": f"row {number % 3}"})
    return SinkRecord(
        topic="rows", partition=0, offset=number, key=number, key_schema=INT64, value=value, value_schema=_SCHEMA,
        timestamp_ms=START_MS + number * 60_000,
    )  # fmt: skip


def text(number: int) -> SinkRecord:
    return row(number).replace(value="just text", value_schema=STRING)


def _read_files(files: dict[str, bytes]) -> list[int]:
    found: list[int] = []
    for name, data in sorted(files.items()):
        if name.endswith(".json"):
            found += [json.loads(line)["id"] for line in data.splitlines()]
        elif name.endswith(".avro"):
            found += [each["id"] for each in fastavro.reader(io.BytesIO(data))]  # type: ignore[index,misc]
        else:
            found += pq.read_table(io.BytesIO(data)).column("id").to_pylist()
    return found


def _of_files(form: str, **more: str) -> Make:
    def make(folder: Path, stack: ExitStack) -> SinkUnderTest:
        def read() -> Sequence[int]:
            return _read_files({str(p): p.read_bytes() for p in folder.rglob("*") if p.is_file()})

        configs = {"path": str(folder), "format.class": form, "flush.size": "4", **more}
        bad = text if form == "parquet" else None
        return SinkUnderTest(FileSinkConnector, configs, row, read, bad)

    return make


def s3(folder: Path, stack: ExitStack) -> SinkUnderTest:
    stack.enter_context(aws.moto())
    client = aws.client("s3")
    client.create_bucket(Bucket="bucket")

    def read() -> Sequence[int]:
        keys = [each["Key"] for each in client.list_objects_v2(Bucket="bucket").get("Contents", ())]
        return _read_files({key: client.get_object(Bucket="bucket", Key=key)["Body"].read() for key in keys})

    configs = {
        "s3.bucket.name": "bucket",
        "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
        "flush.size": "5",
        "partitioner.class": "io.confluent.connect.storage.partitioner.HourlyPartitioner",
        **aws.CONFIGS,
    }
    return SinkUnderTest(S3SinkConnector, configs, row, read)


def stream_file(folder: Path, stack: ExitStack) -> SinkUnderTest:
    path = folder / "out.txt"

    def read() -> Sequence[int]:
        return [json.loads(line)["id"] for line in path.read_text().splitlines()] if path.exists() else []

    return SinkUnderTest(FileStreamSinkConnector, {"file": str(path)}, row, read, is_exactly_once=False)


def _jdbc(**configs: str) -> Make:
    def make(folder: Path, stack: ExitStack) -> SinkUnderTest:
        url = f"sqlite:///{folder / 'sink.db'}"
        engine = sa.create_engine(url)
        stack.callback(engine.dispose)

        def read() -> Sequence[int]:
            if not sa.inspect(engine).has_table("rows"):
                return []
            with engine.connect() as connection:
                return list(connection.execute(sa.text("SELECT id FROM rows")).scalars())

        more = {"connection.url": f"jdbc:{url}", "auto.create": "true", **configs}
        return SinkUnderTest(JdbcSinkConnector, more, row, read, text)

    return make


def _http(batch: int) -> Make:
    def make(folder: Path, stack: ExitStack) -> SinkUnderTest:
        seen: list[int] = []

        def answer(request: Request) -> tuple[int, bytes]:
            found = json.loads(request.body)
            rows = found if isinstance(found, list) else [found]
            if not all(isinstance(each, dict) for each in rows):
                return 400, b"no row"
            seen.extend(each["id"] for each in rows)
            return 201, b""

        url = stack.enter_context(serving(answer))
        configs = {"http.api.url": f"{url}/${{topic}}", "batch.max.size": str(batch)}
        bad = text if batch == 1 else None
        return SinkUnderTest(HttpSinkConnector, configs, row, lambda: seen, bad, is_exactly_once=False)

    return make


def dynamodb(folder: Path, stack: ExitStack) -> SinkUnderTest:
    stack.enter_context(aws.moto())
    client = aws.client("dynamodb")
    client.create_table(
        TableName="rows",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "N"}],
        BillingMode="PAY_PER_REQUEST",
    )

    def read() -> Sequence[int]:
        return [int(item["id"]["N"]) for item in client.scan(TableName="rows")["Items"]]

    return SinkUnderTest(DynamoDbSinkConnector, dict(aws.CONFIGS), row, read, text)


def sqs(folder: Path, stack: ExitStack) -> SinkUnderTest:
    stack.enter_context(aws.moto())
    client = aws.client("sqs")
    url = client.create_queue(QueueName="rows")["QueueUrl"]
    return _queued(SqsSinkConnector, {"sqs.url": url}, client, url, lambda body: json.loads(body)["id"])


def sqs_fifo(folder: Path, stack: ExitStack) -> SinkUnderTest:
    stack.enter_context(aws.moto())
    client = aws.client("sqs")
    url = client.create_queue(QueueName="rows.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    found = _queued(SqsSinkConnector, {"sqs.url": url}, client, url, lambda body: json.loads(body)["id"])
    found.is_exactly_once = True
    return found


def _queued(connector: Any, configs: dict[str, str], client: Any, url: str, number: Callable[[str], int]) -> Any:
    seen: list[int] = []

    def read() -> Sequence[int]:
        while found := client.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            seen.extend(number(each["Body"]) for each in found)
            for each in found:
                client.delete_message(QueueUrl=url, ReceiptHandle=each["ReceiptHandle"])
        return seen

    return SinkUnderTest(connector, {**configs, **aws.CONFIGS}, row, read, is_exactly_once=False)


def sns(folder: Path, stack: ExitStack) -> SinkUnderTest:
    stack.enter_context(aws.moto())
    topics, queues = aws.client("sns"), aws.client("sqs")
    arn = topics.create_topic(Name="rows")["TopicArn"]
    url = queues.create_queue(QueueName="all")["QueueUrl"]
    queue_arn = queues.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    topics.subscribe(TopicArn=arn, Protocol="sqs", Endpoint=queue_arn)

    def number(body: str) -> int:
        return int(json.loads(json.loads(body)["Message"])["id"])

    return _queued(SnsSinkConnector, {"sns.topic.arn": arn}, queues, url, number)


def event_bridge(folder: Path, stack: ExitStack) -> SinkUnderTest:
    stack.enter_context(aws.moto())
    events, queues = aws.client("events"), aws.client("sqs")
    url = queues.create_queue(QueueName="all")["QueueUrl"]
    queue_arn = queues.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    events.put_rule(Name="all", EventPattern=json.dumps({"source": ["odradek.connect"]}))
    events.put_targets(Rule="all", Targets=[{"Id": "1", "Arn": queue_arn}])
    return _queued(EventBridgeSinkConnector, {}, queues, url, lambda body: json.loads(body)["detail"]["value"]["id"])


def kinesis(folder: Path, stack: ExitStack) -> SinkUnderTest:
    stack.enter_context(aws.moto())
    client = aws.client("kinesis")
    client.create_stream(StreamName="rows", ShardCount=1)

    def read() -> Sequence[int]:
        shard = client.list_shards(StreamName="rows")["Shards"][0]["ShardId"]
        where = client.get_shard_iterator(StreamName="rows", ShardId=shard, ShardIteratorType="TRIM_HORIZON")
        return [json.loads(each["Data"])["id"] for each in client.get_records(**where_of(where))["Records"]]

    def where_of(found: Any) -> dict[str, str]:
        return {"ShardIterator": found["ShardIterator"]}

    configs = {"kinesis.stream": "rows", **aws.CONFIGS}
    return SinkUnderTest(KinesisSinkConnector, configs, row, read, is_exactly_once=False)


def _redis(command: str, **more: str) -> Make:
    def make(folder: Path, stack: ExitStack) -> SinkUnderTest:
        server = flushed()

        def read() -> Sequence[int]:
            if command == "XADD":
                return [int(fields[b"id"]) for _, fields in server.client.xrange("rows")]
            if command == "HSET":
                return [int(server.client.hget(key, "id")) for key in server.client.scan_iter("rows:*")]
            return [int(key.rpartition(b":")[2]) for key in server.client.scan_iter("rows:*")]

        configs = {"redis.uri": server.url, "redis.command": command, **more}
        once = command != "XADD" or "exactly.once" in more
        bad = None if command == "SET" else text
        return SinkUnderTest(RedisSinkConnector, configs, row, read, bad, is_exactly_once=once)

    return make


def _search(**more: str) -> Make:
    def make(folder: Path, stack: ExitStack) -> SinkUnderTest:
        server = SearchServer()
        url = stack.enter_context(server.running())

        def read() -> Sequence[int]:
            return [document["id"] for document in server.documents.get("rows", {}).values()]

        return SinkUnderTest(OpenSearchSinkConnector, {"connection.url": url, **more}, row, read, text)

    return make


def _iceberg(**more: str) -> Make:
    def make(folder: Path, stack: ExitStack) -> SinkUnderTest:
        configs = {**iceberg_configs(folder), "commit.records.max": "5", **more}

        def read() -> Sequence[int]:
            return [found["id"] for found in read_table(folder, "db.rows")]

        return SinkUnderTest(IcebergSinkConnector, configs, row, read, text)

    return make


SINKS: dict[str, Make] = {
    "file json": _of_files("json"),
    "file avro by field": _of_files(
        "avro", **{"partitioner.class": "FieldPartitioner", "partition.field.name": "name"}
    ),
    "file parquet by time": _of_files("parquet", **{"rotate.interval.ms": "120000", "flush.size": "100"}),
    "file stream": stream_file,
    "s3": s3,
    "jdbc exactly once": _jdbc(**{"exactly.once": "true"}),
    "jdbc upsert": _jdbc(**{"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"}),
    "http": _http(1),
    "http batches": _http(5),
    "dynamodb": dynamodb,
    "sqs": sqs,
    "sqs fifo": sqs_fifo,
    "sns": sns,
    "event bridge": event_bridge,
    "kinesis": kinesis,
    "redis set": _redis("SET"),
    "redis hset": _redis("HSET"),
    "redis xadd": _redis("XADD"),
    "redis xadd exactly once": _redis("XADD", **{"exactly.once": "true"}),
    "iceberg": _iceberg(),
    "iceberg by key": _iceberg(
        **{"iceberg.tables.upsert-mode-enabled": "true", "iceberg.tables.default-id-columns": "id"}
    ),
    "opensearch": _search(),
    "opensearch upsert": _search(**{"write.method": "UPSERT"}),
    "opensearch without keys": _search(**{"key.ignore": "true", "schema.ignore": "true"}),
}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("check", SINK_CHECKS, ids=check_id)
@pytest.mark.parametrize("name", SINKS)
def test_a_sink_keeps_the_contract(name: str, check: Any, tmp_path: Path, stack: ExitStack) -> None:
    check(SINKS[name](tmp_path, stack))


def test_the_contract_finds_a_sink_that_commits_too_early(tmp_path: Path, stack: ExitStack) -> None:
    class Early(FileSinkConnector.task_class):  # type: ignore[name-defined,misc]
        def pre_commit(self, offsets: Any) -> Any:
            return offsets

    class EarlyConnector(FileSinkConnector):
        task_class = Early

    under_test = _of_files("json")(tmp_path, stack)
    under_test.connector = EarlyConnector
    with pytest.raises(AssertionError, match="missing in the target"):
        sink_restarts_anywhere(under_test)


def test_of_two_tasks_each_writes_only_what_the_other_has_not(tmp_path: Path, stack: ExitStack) -> None:
    """Exactly once in a database: the offset in the transaction says who was first."""
    under_test = _jdbc(**{"exactly.once": "true"})(tmp_path, stack)
    first, second = SinkDriver(under_test, {}), SinkDriver(under_test, {})
    first.start()
    first.put([row(0), row(1)])
    assert second.start() == 2
    second.put([row(2)])
    with pytest.raises(RetriableError, match="another task has written"):
        first.put([row(2), row(3)])
    assert under_test.read() == [0, 1, 2]
    first.put([row(2), row(3)])  # as the worker does
    assert under_test.read() == [0, 1, 2, 3]
    first.stop()
    second.stop()


def test_rows_are_changed_and_deleted_by_their_key_and_tables_follow_schemas(tmp_path: Path, stack: ExitStack) -> None:
    configs = {"insert.mode": "upsert", "pk.mode": "record_key", "pk.fields": "id", "delete.enabled": "true"}
    under_test = _jdbc(**configs, **{"auto.evolve": "true"})(tmp_path, stack)
    driver = SinkDriver(under_test, {})
    driver.start()
    wider = struct({"id": INT64, "name": STRING, "note": OPTIONAL_STRING, "size": INT64}, name="Row")
    changed = Struct(wider, {"id": 1, "name": "changed", "size": 9})
    driver.put([row(0), row(1), row(2), row(1).replace(value=changed, value_schema=wider, offset=3)])
    driver.put([row(0).replace(value=None, value_schema=None, offset=4)])
    driver.stop()
    engine = sa.create_engine(under_test.configs["connection.url"].removeprefix("jdbc:"))
    with engine.connect() as connection:
        rows = connection.execute(sa.text("SELECT id, name, size FROM rows ORDER BY id")).all()
    engine.dispose()
    assert [tuple(each) for each in rows] == [(1, "changed", 9), (2, "row 2", None)]


def test_a_function_is_called_with_batches_and_its_failure_is_reported(stack: ExitStack) -> None:
    calls: list[Any] = []

    class Function:
        def invoke(self, **call: Any) -> Any:
            calls.append(json.loads(call["Payload"]))
            return (
                {"FunctionError": "Unhandled", "Payload": io.BytesIO(b'{"errorMessage": "no"}')}
                if len(calls) == 2
                else {}
            )

    configs = {"aws.lambda.function.name": "f", "aws.lambda.batch.size": "2", **aws.CONFIGS}
    under_test = SinkUnderTest(LambdaSinkConnector, configs, row, list)
    driver = SinkDriver(under_test, {})
    driver.start()
    driver.task._client = Function()  # type: ignore[attr-defined]
    driver.put([row(number) for number in range(5)])
    assert [len(call) for call in calls] == [2, 2, 1]
    assert calls[0][1]["payload"]["value"] == {"id": 1, "name": "row 1", "note": None}
    assert [record.offset for record in driver.refused] == [2, 3]

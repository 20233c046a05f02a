"""The catalog of Glue, and files and metadata on S3, by an emulator of both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import boto3
import pytest
from moto.server import ThreadedMotoServer
from odradek.adapters.iceberg.tables import IcebergTables
from odradek.columnar.table_file import encode_table_segment
from odradek.columnar.typed.typed_values import TypedValues
from odradek.errors import ConditionFailed, StoreUnavailable
from odradek.format.object_keys import segment_key
from odradek.format.segment import SegmentBuilder
from odradek.model.kinds import Column, Kind, kind_of
from odradek.model.topic_partition import PartitionId
from odradek.ports.table_catalog import TableChange, TableName

from infra.permissions import ICEBERG_TABLES
from tests.integration.query.test_iceberg_kills import tables_equal_topics_after_kills
from tests.support.engine import batch

TOPIC = UUID(int=7)
NAME = TableName("odradek", "flights")
KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}


def properties_of(url: str) -> dict[str, str]:
    """Of the catalog of an emulator, with tables in a bucket of it."""
    return {
        "type": "glue",
        "warehouse": "s3://bucket/iceberg",
        "client.region": "us-east-1",
        "client.access-key-id": "test",
        "client.secret-access-key": "test",
        "glue.endpoint": url,
        "s3.endpoint": url,
    }


@pytest.fixture(scope="module")
def tables() -> Iterator[IcebergTables]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    boto3.client("s3", endpoint_url=url, **KEYS).create_bucket(Bucket="bucket")
    opened = IcebergTables.open("odradek", properties_of(url), "s3://bucket")
    opened.called = set()  # type: ignore[attr-defined]
    opened._catalog.glue.meta.events.register(  # type: ignore[attr-defined]
        "before-call.glue",
        lambda model, **_: opened.called.add(f"glue:{model.name}"),  # type: ignore[attr-defined]
    )
    opened.s3 = boto3.client("s3", endpoint_url=url, **KEYS)  # type: ignore[attr-defined]
    yield opened
    server.stop()


def uploaded(tables: IcebergTables, number: int, base: int, columns: tuple[tuple[str, Kind], ...]) -> str:
    builder = SegmentBuilder(base)
    values = [b'{"n": %d}' % (base + i) for i in range(10)]
    builder.append(batch(values), base, 0)
    values = TypedValues([Column(name, data_type, name) for name, data_type in columns])
    segment, _ = encode_table_segment(builder.build(), values, 1_000, number)
    key = segment_key(PartitionId(TOPIC, number), base, base.to_bytes(16, "big"), is_columnar=True)
    tables.s3.put_object(Bucket="bucket", Key=key, Body=bytes(segment.parts[0]))  # type: ignore[attr-defined]
    return key


def test_a_table_grows_forgets_and_goes(tables: IcebergTables) -> None:
    assert tables.load(NAME) is None
    columns = (("n", kind_of("bigint")),)
    tables.create(NAME, TOPIC, columns)
    first, second = uploaded(tables, 0, 0, columns), uploaded(tables, 1, 0, columns)
    loaded = tables.load(NAME)
    assert loaded is not None
    assert (loaded.topic_id, loaded.files) == (TOPIC, frozenset())
    late = tables.load(NAME)
    assert late is not None
    assert tables.commit(loaded, TableChange(columns, [first, second], (), {"odradek.offsets": "{}"})) == []
    for stale in (loaded, late):
        with pytest.raises(ConditionFailed):
            tables.commit(stale, TableChange(columns, [first], (), {}))
    loaded = tables.load(NAME)
    assert loaded is not None
    assert loaded.files == {first, second}
    assert loaded.summary["odradek.offsets"] == "{}"
    rows = loaded.handle.table.scan(row_filter="partition = 1 AND n >= 5").to_arrow()
    assert rows.column("offset").to_pylist() == [5, 6, 7, 8, 9]
    tables.commit(loaded, TableChange(None, (), [first], {}))
    assert tables.expire(NAME, before_ms=None) == 1
    loaded = tables.load(NAME)
    assert loaded is not None
    assert loaded.files == {second}
    tables.drop(NAME)
    assert tables.load(NAME) is None
    left = tables.s3.list_objects_v2(Bucket="bucket")["Contents"]  # type: ignore[attr-defined]
    assert [entry["Key"] for entry in left if not entry["Key"].endswith("/")] == [first, second], (
        "files are the log's, metadata is gone"
    )
    [grant] = ICEBERG_TABLES.databases
    assert tables.called == set(grant.actions), "what the maintainer's role allows"  # type: ignore[attr-defined]


def test_credentials_that_come_with_a_table_need_not_reach_the_logs_objects(
    tables: IcebergTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = TableName("odradek", "narrow")
    columns = (("n", kind_of("bigint")),)
    tables.create(name, TOPIC, columns)
    key = uploaded(tables, 2, 0, columns)
    loaded = tables.load(name)
    assert loaded is not None
    table = loaded.handle.table
    every = table.io.new_input

    def narrow(path: str) -> Any:
        if not path.startswith(table.location()):
            raise PermissionError(path)
        return every(path)

    monkeypatch.setattr(table.io, "new_input", narrow)
    tables.commit(loaded, TableChange(columns, [key], (), {}))
    loaded = tables.load(name)
    assert loaded is not None
    assert loaded.files == {key}
    tables.drop(name)


def test_a_catalog_that_cannot_be_reached() -> None:
    dead = {"type": "glue", "glue.endpoint": "http://127.0.0.1:9", "glue.region": "us-east-1", "glue.max-retries": "1"}
    keys = {"glue.access-key-id": "test", "glue.secret-access-key": "test", "warehouse": "s3://bucket/iceberg"}
    with pytest.raises(StoreUnavailable, match="cannot be loaded: EndpointConnectionError"):
        IcebergTables.open("odradek", {**dead, **keys}, "s3://bucket").load(NAME)


@pytest.mark.slow
def test_the_tables_equal_the_topics_after_50_kills(tmp_path: Path) -> None:
    """Slow: 50 processes."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        url = f"http://{host}:{port}"
        boto3.client("s3", endpoint_url=url, **KEYS).create_bucket(Bucket="bucket")
        setting = ",".join(f"{name}={value}" for name, value in properties_of(url).items())
        tables_equal_topics_after_kills(tmp_path / "store", setting)
    finally:
        server.stop()

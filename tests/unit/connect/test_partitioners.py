"""Folders of files by time, partition and field; numbers of databases."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from types import SimpleNamespace

import pytest
import sqlalchemy as sa
from odradek.client.consumer.record import ConsumerRecord
from odradek.connect.connectors.files.partitioners import PARTITIONERS, make_partitioner
from odradek.connect.connectors.files.sink import FileSinkConnector
from odradek.connect.connectors.jdbc.database import column_schema, fitted
from odradek.connect.data.logical import ms_of
from odradek.connect.errors import ConfigError
from odradek.connect.record import SinkRecord
from odradek.model.record import TimestampType
from odradek.model.topic_partition import TopicPartition
from odradek.testing.manual_clock import ManualClock


def folder(time: str, value: object = None, **configs: str) -> str:
    given = PARTITIONERS.parse({name.replace("_", "."): each for name, each in configs.items()})
    time_ms = ms_of(dt.datetime.fromisoformat(time))
    record = SinkRecord(topic="t", partition=3, offset=0, value=value, timestamp_ms=time_ms)
    return make_partitioner(given).folder(record, 0)


@pytest.mark.parametrize(
    ("name", "zone", "time", "expected"),
    [
        ("DailyPartitioner", "UTC", "2024-03-31T00:30:00+00:00", "year=2024/month=03/day=31"),
        ("DailyPartitioner", "America/New_York", "2024-03-31T00:30:00+00:00", "year=2024/month=03/day=30"),
        ("HourlyPartitioner", "Europe/Berlin", "2024-03-31T00:59:00+00:00", "year=2024/month=03/day=31/hour=01"),
        ("HourlyPartitioner", "Europe/Berlin", "2024-03-31T01:00:00+00:00", "year=2024/month=03/day=31/hour=03"),
        ("HourlyPartitioner", "Asia/Kolkata", "2024-01-01T00:00:00+00:00", "year=2024/month=01/day=01/hour=05"),
    ],
)
def test_folders_by_time_are_of_the_time_zone(name: str, zone: str, time: str, expected: str) -> None:
    assert folder(time, partitioner_class=name, timezone=zone) == expected


def test_folders_begin_at_multiples_of_the_duration() -> None:
    configs = {"partitioner_class": "TimeBasedPartitioner", "path_format": "HH-mm", "partition_duration_ms": "900000"}
    assert folder("2024-01-01T10:44:59+00:00", **configs) == "10-30"
    assert folder("2024-01-01T10:45:00+00:00", **configs, timezone="Asia/Kolkata") == "16-15"
    for wrong in ({"timezone": "Mars"}, {"partition_duration_ms": "0"}):
        with pytest.raises(ConfigError):
            folder("2024-01-01T10:00:00+00:00", **{**configs, **wrong})


def test_folders_by_partition_and_field() -> None:
    now = "2024-01-01T10:00:00+00:00"
    assert folder(now) == "partition=3"
    chosen = {"partitioner_class": "FieldPartitioner", "partition_field_name": "a,b"}
    assert folder(now, {"a": "x/y", "b": 1}, **chosen) == "a=x_y/b=1"


@pytest.mark.parametrize(
    ("mapping", "kinds"),
    [
        ("none", ("BYTES", "BYTES", "BYTES", "BYTES", "BYTES")),
        ("precision_only", ("INT8", "INT32", "INT64", "BYTES", "BYTES")),
        ("best_fit", ("INT8", "INT32", "INT64", "FLOAT64", "BYTES")),
        ("best_fit_eager_double", ("INT8", "INT32", "INT64", "FLOAT64", "FLOAT64")),
    ],
)
def test_exact_numbers_of_a_database_are_mapped_as_confluents_are(mapping: str, kinds: tuple[str, ...]) -> None:
    columns = [sa.Column("n", sa.Numeric(*size)) for size in ((2, 0), (9, 0), (18, 0), (8, 2), (30, 5))]
    found = [column_schema(each, mapping) for each in columns]
    assert tuple(each.type.name for each in found) == kinds
    assert column_schema(sa.Column("n", sa.Numeric(19, 0)), mapping).type.name == "BYTES"
    values = [fitted(each, sa.Numeric().python_type("7")) for each in found]
    assert [int(each) for each in values] == [7] * 5


def test_files_are_rotated_by_the_bytes_that_were_read(tmp_path: Path) -> None:
    task = FileSinkConnector.task_class()
    task.initialize(SimpleNamespace(clock=ManualClock()))  # type: ignore[arg-type]
    task.start({"name": "f", "path": str(tmp_path), "format.class": "lines", "flush.bytes": "100"})

    def records(*sizes: int) -> list[SinkRecord]:
        read = [
            ConsumerRecord("t", 0, offset, 0, TimestampType.CREATE_TIME, b"k" * 10, b"v" * (size - 10), ())
            for offset, size in enumerate(sizes)
        ]
        return [SinkRecord(topic="t", partition=0, offset=each.offset, value="x", original=each) for each in read]

    task.put(records(40, 59, 1, 100, 30))
    files = {path.name: path.read_text().count("\n") for path in tmp_path.rglob("*.txt")}
    assert files == {"t+0+0000000000.txt": 3, "t+0+0000000003.txt": 1}
    assert task.pre_commit({TopicPartition("t", 0): 5}) == {TopicPartition("t", 0): 4}

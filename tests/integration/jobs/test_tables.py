"""Topics to tables and back, and to another installation: each record once, also when a micro-batch runs again.

Slow: each job runs several times on one checkpoint, and a micro-batch costs Spark a second or more.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import odradek
import pandas as pd
import pytest
from odradek.client.serializers import AvroSerializer, HttpRegistry, Schema
from odradek.glue_jobs.export_table import job as export_table_job
from odradek.glue_jobs.export_table.target import open_catalog
from odradek.glue_jobs.import_table import job as import_table_job
from odradek.glue_jobs.mirror import job as mirror_job
from odradek.glue_jobs.replay import job as replay_job
from odradek.model.topic_partition import OffsetAndMetadata, TopicPartition
from odradek.spark.admin import open_admin
from odradek.spark.jobs.slices import load_slices, save_slices

from tests.support.clients.protobuf import framed, messages_of
from tests.support.spark.flights import append, departures, flight_events, values_of
from tests.support.spark.jobs import Job, forget_last_commit, has_run
from tests.support.spark.sink import ServedLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

FIELDS = ["origin", "dest", "carrier", "tailnum", "flight", "dep_delay"]


@pytest.fixture(scope="module")
def flights() -> pd.DataFrame:
    return departures(1)


def read_parquet(output: Path) -> list[dict[str, Any]]:
    """The table as any reader of Parquet finds it that takes the columns of all files."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    files = ds.dataset(str(output / "data"), format="parquet", partitioning="hive")
    schema = pa.unify_schemas([fragment.physical_schema for fragment in files.get_fragments()])
    rows: list[dict[str, Any]] = (
        ds.dataset(str(output / "data"), schema=schema, format="parquet").to_table().to_pylist()
    )
    return rows


def read_iceberg(output: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (
        open_catalog(str(output), "sql").load_table("demo.flights").scan().to_arrow().to_pylist()
    )
    return rows


@pytest.mark.parametrize("table_format", ["parquet", "iceberg"])
def test_a_topic_becomes_a_table_that_grows_and_holds_each_record_once(
    spark: SparkSession, served: ServedLog, flights: pd.DataFrame, tmp_path: Path, table_format: str
) -> None:
    topic, dead, output = f"export-{table_format}", f"dead-{table_format}", tmp_path / "table"
    served.create(topic, 2)
    served.create(dead, 1)
    job = Job(
        spark, served, export_table_job, tmp_path, input_topic=topic, output=str(output),
        dead_letter_topic=dead, table="demo.flights" if table_format == "iceberg" else "",
    )  # fmt: skip
    half = len(flights) // 2
    append(served, topic, flight_events(flights[:half]))
    assert job.run()["dead_letters"] == 0
    more = [(key, {**value, "gate": f"G{i}"}, ms) for i, (key, value, ms) in enumerate(flight_events(flights[half:]))]  # type: ignore[dict-item]
    wrong = [("w", {"dep_delay": "late"}, 1), ("j", b"no JSON", 2), ("t", None, 3)]
    append(served, topic, [*more, *wrong], partition=1)
    assert job.run()["dead_letters"] == 2
    again = forget_last_commit(job.checkpoint)
    job.run()
    assert has_run(job.checkpoint, again)

    rows = read_parquet(output) if table_format == "parquet" else read_iceberg(output)
    expected = flights[FIELDS].assign(gate=None).astype(object)
    expected.loc[half:, "gate"] = [f"G{i}" for i in range(len(flights) - half)]
    wanted = expected.itertuples(index=False, name=None)
    assert sorted((tuple(row[name] for name in [*FIELDS, "gate"]) for row in rows), key=str) == sorted(wanted, key=str)
    places = {(row["record_topic"], row["record_partition"], row["record_offset"]) for row in rows}
    assert places == {(topic, 0, i) for i in range(half)} | {(topic, 1, i) for i in range(len(flights) - half)}
    assert all(row["record_key"] == row["tailnum"] for row in rows)
    ms = sorted(int(row["record_timestamp"].timestamp() * 1000) for row in rows)
    assert ms == sorted(flights.ms)
    letters = {record.key: (record.value, dict(map(tuple, record.headers))) for record in served.records(dead)[0]}
    assert len(served.values(dead)) == 2
    assert letters[b"j"][0] == b"no JSON"
    assert letters[b"w"][1]["odradek.offset"] == str(len(more)).encode()


ORDERS = {
    "avro": [
        """{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}""",
        """{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"},
            {"name": "lines", "type": {"type": "array", "items": "string"}, "default": []}]}""",
    ],
    "protobuf": [
        """syntax = "proto3"; message Other { } message Order { int64 id = 1; }""",
        """syntax = "proto3"; message Other { } message Order { int64 id = 1; repeated string lines = 2; }""",
    ],
}


@pytest.mark.parametrize("value_format", ["avro", "protobuf"])
def test_values_of_a_registry_become_the_columns_of_their_schemas(
    spark: SparkSession, served: ServedLog, tmp_path: Path, value_format: str
) -> None:
    topic, dead, output = f"export-{value_format}", f"dead-{value_format}", tmp_path / "table"
    served.create(topic)
    served.create(dead)
    with odradek.local(registry_port=0) as service:
        registry = HttpRegistry(service.registry_url)

        def write(text: str, value: dict[str, Any]) -> bytes | None:
            if value_format == "avro":
                return AvroSerializer(registry, text, f"{topic}-value")(value)
            schema_id = registry.register(f"{topic}-value", Schema(text, "PROTOBUF"))
            return framed(schema_id, [1], messages_of(text)("Order")(**value))

        old, new = ORDERS[value_format]
        big = 2**53 + 1  # more than a JSON reader of doubles would keep
        good = [write(old, {"id": big}), write(new, {"id": 2, "lines": ["a", "b"]})]
        cut = (good[1] or b"")[:-1]
        append(served, topic, [(f"k{i}", value, i) for i, value in enumerate([*good, cut, b"no id", None])])
        job = Job(
            spark, served, export_table_job, tmp_path, input_topic=topic, output=str(output),
            dead_letter_topic=dead, format=value_format, registry=service.registry_url,
        )  # fmt: skip
        assert job.run()["dead_letters"] == 2
    rows = sorted((row["record_offset"], row["id"], row["lines"]) for row in read_parquet(output))
    assert rows == [(0, big, None), (1, 2, ["a", "b"])]
    letters = {record.value: dict(map(tuple, record.headers)) for record in served.records(dead)[0]}
    assert set(letters) == {cut, b"no id"}
    assert value_format in str(letters[cut]["odradek.error"]).lower()


def test_files_become_records_once_each(
    spark: SparkSession, served: ServedLog, flights: pd.DataFrame, tmp_path: Path
) -> None:
    served.create("imported", 2)
    files = tmp_path / "files"
    files.mkdir()
    frame = flights.drop(columns="event_time")
    half = len(frame) // 2
    frame[:half].to_parquet(files / "1.parquet", index=False)
    job = Job(
        spark, served, import_table_job, tmp_path, output_topic="imported", format="parquet",
        path=str(files), key=("carrier", "flight"), timestamp="ms",
    )  # fmt: skip
    job.run()
    frame[half:].to_parquet(files / "2.parquet", index=False)
    job.run()
    forget_last_commit(job.checkpoint)
    job.run()
    values_read = [
        (r.key, r.timestamp_ms, json.loads(r.value or b"")) for p in served.records("imported").values() for r in p
    ]
    wanted = [(f"{row['carrier']}|{row['flight']}".encode(), row["ms"], row) for row in frame.to_dict("records")]
    assert sorted(values_read, key=str) == sorted(wanted, key=str)


def test_a_table_is_replayed_in_the_order_of_its_events(
    spark: SparkSession, served: ServedLog, flights: pd.DataFrame, tmp_path: Path
) -> None:
    served.create("live", 1)
    flights.drop(columns="event_time").sample(frac=1, random_state=1).to_csv(tmp_path / "flights.csv", index=False)
    job = Job(
        spark, served, replay_job, tmp_path, output_topic="live", format="csv",
        path=str(tmp_path / "flights.csv"), timestamp="ms", key=("tailnum",), speed=0.0, slice="8 hours",
    )  # fmt: skip
    assert job.run()["left"] == 0
    slices = load_slices(str(job.checkpoint), "none")
    # As if the job had died after writing the last two slices, before it noted them.
    save_slices(str(job.checkpoint), type(slices)(slices.writer_id, slices.slices, slices.done - 2))
    assert job.run() == {"slices": 2, "left": 0}
    times = [record.timestamp_ms for record in served.records("live")[0]]
    assert times == sorted(flights.ms)
    rows_read = [tuple(value[name] for name in FIELDS) for value in values_of(served, "live")]
    assert sorted(rows_read) == sorted(flights[FIELDS].itertuples(index=False, name=None))


def test_another_installation_holds_the_same_records_and_the_groups_go_on_there(
    spark: SparkSession, served: ServedLog, flights: pd.DataFrame, tmp_path: Path
) -> None:
    served.create("home", 2)
    events = flight_events(flights)
    third = len(events) // 3
    append(served, "home", events[:third])
    append(served, "home", events[third : 2 * third], partition=1)
    with ServedLog(tmp_path / "there") as target:
        job = Job(
            spark, served, mirror_job, tmp_path, topics=("home",), topic_prefix="mirrored.",
            target_store=target.source["store"], target_bootstrap_servers=target.bootstrap_servers, groups="reports-.*",
        )  # fmt: skip
        job.run()
        append(served, "home", events[2 * third :], partition=1)
        with open_admin(served.source, served.bootstrap_servers) as admin:
            committed = {
                TopicPartition("home", i): OffsetAndMetadata(offset) for i, offset in enumerate((7, third + 5))
            }
            admin.alter_consumer_group_offsets("reports-1", committed)
            admin.alter_consumer_group_offsets("others", committed)
        again = job.run()
        assert again["groups"] == {"reports-1": 2}
        number = forget_last_commit(job.checkpoint)
        job.run()
        assert has_run(job.checkpoint, number)
        for partition, records in served.records("home").items():
            copies = target.records("mirrored.home")[partition]
            assert copies == records
        with open_admin(target.source, target.bootstrap_servers) as admin:
            offsets = admin.list_consumer_group_offsets("reports-1")
            assert not admin.list_consumer_group_offsets("others")
        assert {tp.partition: offset.offset for tp, offset in offsets.items()} == {0: 7, 1: third + 5}

"""The Iceberg sink beyond the contract: keys, columns, partitions, other writers, and commits whose answer is lost."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from odradek.connect.connectors.iceberg.sink import IcebergSinkConnector
from odradek.connect.data import INT32, INT64, Struct, struct
from odradek.connect.data import schema as schemas
from odradek.connect.data.logical import TIME, TIMESTAMP, decimal
from odradek.connect.data.schema import OPTIONAL_STRING
from odradek.connect.errors import ConnectError, RetriableError
from odradek.connect.record import SinkRecord
from odradek.model.topic_partition import TopicPartition
from odradek.testing.connect import SinkDriver, SinkUnderTest
from pyiceberg.catalog.sql import SqlCatalog

from tests.support.connect.lake import iceberg_configs, open_table, read_table

BY_KEY = {"iceberg.tables.upsert-mode-enabled": "true", "iceberg.tables.default-id-columns": "id"}
PLACE = TopicPartition("rows", 0)


def record(offset: int, value: Any, key: Any = None) -> SinkRecord:
    schema = value.schema if isinstance(value, Struct) else None
    return SinkRecord(topic="rows", partition=0, offset=offset, key=key, value=value, value_schema=schema)


def into(folder: Path, records_max: int = 1_000, **more: str) -> SinkDriver:
    configs = {**iceberg_configs(folder), "commit.records.max": str(records_max), **more}
    driver = SinkDriver(SinkUnderTest(IcebergSinkConnector, configs, lambda n: record(n, {"id": n}), list), {})
    driver.start()
    return driver


def committed(driver: SinkDriver) -> int:
    """Commit what the interval of five minutes leaves uncommitted, and return the offset that is durable."""
    driver.wait(301)
    driver.put([])
    return driver.task.pre_commit(dict(driver._put))[PLACE]


def test_rows_are_changed_and_deleted_by_their_key(tmp_path: Path) -> None:
    driver = into(tmp_path, **BY_KEY, **{"iceberg.tables.cdc-field": "__op"})
    driver.put([record(n, {"id": n, "name": f"row {n}", "__op": "c"}) for n in range(5)])
    assert driver.task.pre_commit({PLACE: 5}) == {PLACE: 0}
    assert committed(driver) == 5
    changes = [
        record(5, {"id": 1, "name": "changed", "__op": "u"}), record(6, {"id": 2, "name": "old", "__op": "d"}),
        record(7, None, key={"id": 3}), record(8, {"id": 9, "name": "new", "__op": "c"}),
        record(9, {"id": 9, "name": "newer", "__op": "u"}),
    ]  # fmt: skip
    driver.put(changes)
    assert committed(driver) == 10
    rows = {row["id"]: row["name"] for row in read_table(tmp_path, "db.rows")}
    assert rows == {0: "row 0", 1: "changed", 4: "row 4", 9: "newer"}
    driver.put([record(10, None, key=4), record(11, None, key=400)])
    assert committed(driver) == 12
    assert sorted(row["id"] for row in read_table(tmp_path, "db.rows")) == [0, 1, 9]
    driver.stop()


def test_columns_follow_the_schemas_and_tables_are_partitioned(tmp_path: Path) -> None:
    first = struct({"id": INT64, "at": TIMESTAMP, "price": decimal(2), "hour": TIME})
    second = first.with_fields([*((each.name, each.schema) for each in first.fields), ("note", OPTIONAL_STRING)])
    more = {"iceberg.tables.evolve-schema-enabled": "true", "iceberg.tables.default-partition-by": "day(at)"}
    driver = into(tmp_path, records_max=2, **more)
    for offset, schema in enumerate((first, first, second, first)):
        value = {
            "id": offset, "at": dt.datetime(2026, 1, 1 + offset, tzinfo=dt.UTC), "price": Decimal("1.25"),
            "hour": dt.time(1, 2),
        }  # fmt: skip

        driver.put([record(offset, Struct(schema, value | ({"note": "n"} if schema is second else {})))])
    table = open_table(tmp_path, "db.rows")
    assert [field.name for field in table.spec().fields] == ["at_day"]
    rows = sorted(read_table(tmp_path, "db.rows"), key=lambda row: row["id"])
    assert [row["note"] for row in rows] == [None, None, "n", None]
    assert (str(rows[0]["price"]), rows[0]["hour"], rows[3]["at"].day) == ("1.25", dt.time(1, 2), 4)
    driver.stop()


def test_a_column_becomes_as_wide_as_a_later_schema(tmp_path: Path) -> None:
    driver = into(tmp_path, records_max=1, **{"iceberg.tables.evolve-schema-enabled": "true"})
    for offset, (kind, value) in enumerate(((INT32, 1), (INT64, 2**40), (INT32, 3))):
        driver.put([record(offset, Struct(struct({"id": kind}), {"id": value}))])
    assert sorted(row["id"] for row in read_table(tmp_path, "db.rows")) == [1, 3, 2**40]
    driver.stop()


def test_offsets_are_found_behind_the_snapshots_of_other_writers(tmp_path: Path) -> None:
    driver = into(tmp_path, records_max=2)
    driver.put([record(n, {"id": n}) for n in range(4)])
    table = open_table(tmp_path, "db.rows")
    table.append(pa.table({"id": pa.array([100], pa.int64())}))
    # A task that begins before them, because the commit of its group was lost, writes only what is missing.
    late = into(tmp_path, records_max=2)
    late.put([record(n, {"id": n}) for n in range(6)])
    assert sorted(row["id"] for row in read_table(tmp_path, "db.rows")) == [0, 1, 2, 3, 4, 5, 100]
    # The other one's commit is refused by the catalog: it goes on behind what is written.
    late.put([record(n, {"id": n}) for n in range(6, 8)])
    with pytest.raises(RetriableError, match="another task has written"):
        driver.put([record(n, {"id": n}) for n in range(4, 6)])
    assert len(read_table(tmp_path, "db.rows")) == 9
    driver.put([record(n, {"id": n}) for n in range(4, 10)])
    assert sorted(row["id"] for row in read_table(tmp_path, "db.rows")) == [*range(10), 100]
    driver.stop()
    late.stop()


def test_a_commit_on_an_older_snapshot_is_made_again(tmp_path: Path) -> None:
    driver = into(tmp_path, records_max=2)
    driver.put([record(n, {"id": n}) for n in range(2)])
    open_table(tmp_path, "db.rows").append(pa.table({"id": pa.array([100], pa.int64())}))
    with pytest.raises(RetriableError):
        driver.put([record(n, {"id": n}) for n in range(2, 4)])
    driver.put([record(n, {"id": n}) for n in range(2, 4)])
    assert sorted(row["id"] for row in read_table(tmp_path, "db.rows")) == [0, 1, 2, 3, 100]
    driver.stop()


def test_a_commit_whose_answer_is_lost_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = into(tmp_path, records_max=2)
    driver.put([record(n, {"id": n}) for n in range(2)])
    commit = SqlCatalog.commit_table

    def lost(*arguments: Any, **more: Any) -> Any:
        commit(*arguments, **more)
        raise OSError("the connection broke")

    monkeypatch.setattr(SqlCatalog, "commit_table", lost)
    batch = [record(n, {"id": n}) for n in range(2, 4)]
    with pytest.raises(RetriableError):
        driver.put(batch)
    monkeypatch.undo()
    driver.put(batch)
    assert sorted(row["id"] for row in read_table(tmp_path, "db.rows")) == [0, 1, 2, 3]
    assert driver.task.pre_commit({PLACE: 4}) == {PLACE: 4}
    driver.stop()


def test_offsets_in_the_table_follow_those_that_a_user_sets(tmp_path: Path) -> None:
    driver = into(tmp_path, records_max=2)
    driver.put([record(n, {"id": n}) for n in range(4)])
    IcebergSinkConnector.alter_offsets({"name": "contract", **iceberg_configs(tmp_path)}, {PLACE: 2})
    again = into(tmp_path, records_max=2)
    again.put([record(n, {"id": n}) for n in range(4)])
    assert sorted(row["id"] for row in read_table(tmp_path, "db.rows")) == [0, 1, 2, 2, 3, 3]
    for each in (driver, again):
        each.stop()


def test_what_cannot_be_is_said(tmp_path: Path) -> None:
    missing = into(tmp_path, **{"iceberg.tables.auto-create-enabled": "false"})
    with pytest.raises(ConnectError, match=r"the table db\.rows does not exist: create it"):
        missing.put([record(0, {"id": 0})])
    configs = {**iceberg_configs(tmp_path), "iceberg.tables.upsert-mode-enabled": "true"}
    found = IcebergSinkConnector.validate(configs)
    assert "is required with upsert mode" in found["iceberg.tables.default-id-columns"].errors[0]
    refused = into(tmp_path, **BY_KEY)
    refused.put([record(0, {"name": "no id"}), record(1, None), record(2, "text")])
    assert [each.offset for each in refused.refused] == [0, 1, 2]
    unknown = {"iceberg.catalog.type": "unknown"}
    with pytest.raises(ConnectError, match="the catalog iceberg cannot be opened"):
        into(tmp_path, **unknown)


@pytest.mark.parametrize("within", ["struct", "list", "map", "list of lists"])
def test_new_fields_of_structs_are_columns_wherever_the_structs_are(tmp_path: Path, within: str) -> None:
    def value(number: int, **fields: str) -> Struct:
        inner = struct(dict.fromkeys(fields, OPTIONAL_STRING), optional=True)
        one: Any = Struct(inner, fields)
        kind, data = {
            "struct": (inner, one),
            "list": (schemas.array(inner, optional=True), [one]),
            "map": (schemas.map_of(OPTIONAL_STRING, inner, optional=True), {"k": one}),
            "list of lists": (schemas.array(schemas.array(inner, optional=True), optional=True), [[one]]),
        }[within]
        return Struct(struct({"id": INT64, "c": kind}), {"id": number, "c": data})

    driver = into(tmp_path, **{"iceberg.tables.evolve-schema-enabled": "true"})
    driver.put([record(0, value(0, a="x"))])
    assert committed(driver) == 1
    driver.put([record(1, value(1, a="y", b="NEW"))])
    assert committed(driver) == 2
    assert "NEW" in str(next(row for row in read_table(tmp_path, "db.rows") if row["id"] == 1)["c"])


def test_bounds_hide_neither_nan_nor_a_text_before_the_surrogates(tmp_path: Path) -> None:
    texts = ["a" * 15 + "\ud7ffb", "plain", "\U0010ffff" * 20]
    numbers = [float("nan"), 1.0, 1.0]
    driver = into(tmp_path, records_max=3)
    driver.put(
        [record(n, {"id": n, "text": texts[n], "number": numbers[n], "list": [numbers[n]]}) for n in range(len(texts))]
    )
    assert committed(driver) == 3
    driver.stop()
    table = open_table(tmp_path, "db.rows")
    for condition, ids in {
        "number is nan": [0], "number is not nan": [1, 2], "number != 1": [0], "text > 'b'": [1, 2],
        f"text = '{texts[0]}'": [0], f"text = '{texts[2]}'": [2], "id < 2": [0, 1],
    }.items():  # fmt: skip
        found = table.scan(row_filter=condition).to_arrow().column("id").to_pylist()
        assert sorted(found) == ids, condition
    [file] = [task.file for task in table.scan().plan_files()]
    names = {id: table.schema().find_column_name(id) for id in file.lower_bounds}
    assert sorted(names.values()) == ["id", "text"]
    assert file.null_value_counts.keys() >= names.keys()
    import duckdb

    path = file.file_path.removeprefix("file://")
    assert duckdb.sql(f"SELECT id FROM '{path}' WHERE isnan(number)").fetchall() == [(0,)]


def test_metrics_that_a_table_turns_off_are_not_written(tmp_path: Path) -> None:
    properties = {"iceberg.tables.auto-create-props.write.metadata.metrics.column.text": "none",
                  "iceberg.tables.auto-create-props.write.metadata.metrics.column.number": "counts"}  # fmt: skip
    driver = into(tmp_path, records_max=1, **properties)
    driver.put([record(0, {"id": 1, "text": "x", "number": 2.5})])
    assert committed(driver) == 1
    driver.stop()
    table = open_table(tmp_path, "db.rows")
    [file] = [task.file for task in table.scan().plan_files()]
    columns = {table.schema().find_column_name(id): id for id in (1, 2, 3)}
    assert (columns["id"] in file.lower_bounds, columns["number"] in file.lower_bounds) == (True, False)
    assert columns["number"] in file.null_value_counts
    assert columns["text"] not in file.value_counts

"""An Iceberg table in a local catalog: a micro-batch is added once, and columns come with it. Files by pyarrow here."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from odradek.errors import KafkaError
from odradek.glue_jobs.export_table.target import IcebergTarget, open_catalog
from pyspark.sql.types import LongType, StringType, StructField, StructType

PLACE = {"record_key": "k", "record_topic": "t", "record_partition": 0}
A = StructType([StructField("a", LongType())])
A_AND_B = StructType([*A.fields, StructField("b", StructType([StructField("x", StringType())]))])


class Rows:
    """The part of a DataFrame that the target writes by, as one file."""

    def __init__(self, rows: list[dict[str, Any]], schema: StructType) -> None:
        from odradek.glue_jobs.export_table.transform import with_place
        from pyspark.sql.pandas.types import to_arrow_schema

        self._table = pa.Table.from_pylist([{**PLACE, **row} for row in rows], to_arrow_schema(with_place(schema)))
        self.writes = 0

    @property
    def write(self) -> Rows:
        return self

    def mode(self, name: str) -> Rows:
        assert name == "errorifexists"
        return self

    def parquet(self, folder: str) -> None:
        self.writes += 1
        path = Path(folder.removeprefix("file://"))
        path.mkdir(parents=True)
        pq.write_table(self._table, path / "part-0.parquet")


def target(tmp_path: Path) -> IcebergTarget:
    return IcebergTarget(str(tmp_path / "warehouse"), "demo.flights", catalog="sql")


def add(tmp_path: Path, values: list[dict[str, Any]], schema: StructType, batch_id: int, query: str = "q") -> Rows:
    rows = Rows([{"record_offset": i, **value} for i, value in enumerate(values)], schema)
    target(tmp_path).add(cast(Any, rows), schema, query, batch_id)
    return rows


def rows_of(tmp_path: Path) -> list[Any]:
    table = open_catalog(str(tmp_path / "warehouse"), "sql").load_table("demo.flights").scan().to_arrow()
    return sorted(((row["a"], row.get("b")) for row in table.to_pylist()), key=str)


def test_a_micro_batch_that_runs_again_adds_nothing(tmp_path: Path) -> None:
    assert target(tmp_path).schema() is None
    add(tmp_path, [{"a": 1}, {"a": 2}], A, 0)
    assert add(tmp_path, [{"a": 1}, {"a": 2}], A, 0).writes == 0
    add(tmp_path, [{"a": 3}], A, 1)
    add(tmp_path, [{"a": 1}, {"a": 2}], A, 0)  # a driver that was replaced
    assert rows_of(tmp_path) == [(1, None), (2, None), (3, None)]
    add(tmp_path, [{"a": 4}], A, 0, query="another")
    assert len(rows_of(tmp_path)) == 4


def test_columns_come_with_the_rows_that_have_them(tmp_path: Path) -> None:
    add(tmp_path, [{"a": 1}], A, 0)
    assert target(tmp_path).schema() == A
    add(tmp_path, [{"a": 2, "b": {"x": "y"}}], A_AND_B, 1)
    assert rows_of(tmp_path) == [(1, None), (2, {"x": "y"})]
    assert target(tmp_path).schema() == A_AND_B


def test_a_commit_that_met_another_one_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(tmp_path, [{"a": 1}], A, 0)
    mine = target(tmp_path)
    load = mine._load
    raced: list[bool] = []

    def stale() -> Any:
        table = load()
        if not raced:
            raced.append(True)
            add(tmp_path, [{"a": 9}], A, 0, query="another")
        return table

    monkeypatch.setattr(mine, "_load", stale)
    mine.add(cast(Any, Rows([{"a": 2, "record_offset": 0}], A)), A, "q", 1)
    assert [a for a, _ in rows_of(tmp_path)] == [1, 2, 9]
    table = open_catalog(str(tmp_path / "warehouse"), "sql").load_table("demo.flights")
    assert set(table.properties) & {"commit.retry.num-retries"} == set()  # others' writers keep theirs


def test_of_two_drivers_of_one_query_one_adds_the_micro_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(tmp_path, [{"a": 1}], A, 0)
    mine = target(tmp_path)
    load = mine._load

    def stale() -> Any:
        table = load()
        add(tmp_path, [{"a": 2}], A, 1)
        return table

    monkeypatch.setattr(mine, "_load", stale)
    mine.add(cast(Any, Rows([{"a": 2, "record_offset": 0}], A)), A, "q", 1)
    assert [a for a, _ in rows_of(tmp_path)] == [1, 2]


def test_wrong_names_are_told(tmp_path: Path) -> None:
    with pytest.raises(KafkaError, match="<namespace>"):
        IcebergTarget(str(tmp_path), "flights", catalog="sql")
    with pytest.raises(KafkaError, match="glue or sql"):
        IcebergTarget(str(tmp_path), "a.b", catalog="hive")
    with pytest.raises(KafkaError, match="needs a folder"):
        IcebergTarget("s3://bucket/x", "a.b", catalog="sql")

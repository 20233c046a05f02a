"""Spark's table of a topic whose values are Avro or Protobuf with schemas of the registry, which got wider."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import odradek.spark
import pytest

from tests.support.clients.registered import COLUMNS, SMALL, fill
from tests.support.spark.session import LiveLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(("schema_type", "keeps"), [("avro", "false"), ("protobuf", "true")])
def test_rows_of_both_versions(spark: SparkSession, tmp_path: Path, schema_type: str, keeps: str) -> None:
    with LiveLog(tmp_path / "store", **SMALL) as log:
        values, rows = fill(log, "visits", schema_type, **{"odradek.table.value.bytes": keeps})
        frame = odradek.spark.table(spark, "visits", log.data_dir, columns=["offset", *COLUMNS])
        assert _rows(frame) == list(enumerate(rows))
        frame = odradek.spark.table(spark, "visits", log.data_dir, columns=["offset", "value"])
        assert [bytes(row[1]) for row in sorted(frame.collect())] == values


def _rows(frame: Any) -> list[tuple[int, tuple[Any, ...]]]:
    rows_read = []
    for row in frame.collect():
        place_struct = row["place"]
        fields = {name: row[name] for name in COLUMNS} | {"place": place_struct.asDict()}
        rows_read.append((row["offset"], tuple(fields.values())))
    return sorted(rows_read, key=lambda row_pair: row_pair[0])

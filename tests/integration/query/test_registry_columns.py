"""Values of the registry's schemas from producers to files: consumers, SQL and Iceberg, over two versions of each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import odradek
import pyarrow.parquet as pq
import pytest
from odradek.adapters.iceberg.catalog import embedded_properties
from pyiceberg.catalog import load_catalog

from tests.support.clients.registered import COLUMNS, EACH, SMALL, as_read, data, fill
from tests.support.engine import read_all
from tests.support.spark.session import LiveLog


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LiveLog]:
    with LiveLog(tmp_path / "store", **SMALL) as live:
        yield live


@pytest.mark.parametrize("keeps", ["true", "false"], ids=["bytes", "no bytes"])
@pytest.mark.parametrize("schema_type", ["avro", "protobuf"])
def test_both_versions_are_read_by_the_newest(log: LiveLog, schema_type: str, keeps: str) -> None:
    values, rows = fill(log, "visits", schema_type, **{"odradek.table.value.bytes": keeps})
    fetched = [record.value for record in log._run(read_all(log.engine, "visits", 0))]
    assert fetched == values

    sql = f'SELECT {", ".join(COLUMNS)} FROM visits ORDER BY "offset"'
    response = odradek.query(sql, log.data_dir)
    assert [tuple(row[name] for name in COLUMNS) for row in response.to_pylist()] == rows
    [one] = odradek.query("SELECT sum(place.x) x, sum(octet_length(value)) v FROM visits", log.data_dir).to_pylist()
    assert one == {"x": sum(row[2]["x"] for row in rows), "v": sum(map(len, values))}

    files = sorted(Path(log.data_dir).glob("objects/topics/*/0/*.parquet"))
    kinds = [str(pq.read_schema(file).field("place").type) for file in files]
    assert kinds[0].startswith("struct<x: int32, y: double>")
    assert kinds[-1].startswith("struct<x: int64, y: double, z: string>")

    table = load_catalog("odradek", **embedded_properties(log.data_dir)).load_table("odradek.visits")
    rows_read = table.scan().to_arrow().sort_by("offset").to_pylist()
    assert len(rows_read) > EACH
    assert [tuple(row[name] for name in COLUMNS) for row in rows_read] == rows[: len(rows_read)]
    made = sum(row["value"] is None for row in rows_read)
    assert made == (len(rows_read) if keeps == "false" else 0)


def test_the_rows_are_those_of_the_fields() -> None:
    assert as_read(data(3, 1)) == (4, "v3", {"x": 4, "y": 1.25, "z": None}, [], None)

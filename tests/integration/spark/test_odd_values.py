"""Tables, value by value, by Spark: the cells and the rows that a filter keeps are those of every other reader.

Slow: a Spark of its own, and some hundred scans. What Spark's readers have in common with DuckDB's is asked in
tests/integration/query/test_odd_values.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import odradek.spark
import pytest
from odradek.model.kinds import kind_of, text_of
from odradek.spark.options import Subscription, parse_store
from odradek.spark.source.log_view import LogView
from odradek.spark.source.table_files import paths_of

from tests.support.counted import at_least
from tests.support.odd_values import (
    COLUMNS,
    ODD_VALUES,
    PARTITIONS,
    SMALL,
    comparable,
    described,
    expected_rows,
    fill,
    own,
    rows_of,
)
from tests.support.spark.session import LiveLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_800)]

COUNT = len(ODD_VALUES)
SCALARS = {name: type_name for name, type_name in COLUMNS.items() if not kind_of(type_name).inner}


@pytest.fixture(scope="module", params=["tail", "files", "files without values"])
def log(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[LiveLog]:
    with LiveLog(tmp_path_factory.mktemp("odd") / "store", **SMALL) as live:
        fill(live, in_files=request.param != "tail", value_bytes=str("without" not in request.param).lower())
        yield live


def frames(spark: SparkSession, log: LiveLog) -> dict[str, DataFrame]:
    typed = text_of((name, kind_of(type_name)) for name, type_name in {"i": "int", **COLUMNS}.items())
    options = {**log.options, "subscribe": "t", "columns": "partition,offset", "typedColumns": typed}
    source = spark.read.format("odradek").options(**options).load()
    times = [
        name for name, type_name in COLUMNS.items() if type_name == "time"
    ]  # texts: PySpark 4.1's Python sources have no TIME
    return {
        "spark.table": odradek.spark.table(spark, "t", log.options),
        "format": source.withColumns({name: source[name].cast("time(6)") for name in times}),
    }


def test_spark_has_every_cell(spark: SparkSession, log: LiveLog) -> None:
    for reader, frame in at_least(2, frames(spark, log).items()):
        table = frame.select("partition", "offset", "i", *COLUMNS).where(f"offset < {COUNT}").toArrow()
        for number in PARTITIONS:
            assert (reader, described(rows_of(own(table, number)))[:3]) == (reader, [])


def test_sparks_own_reader_has_every_cell(spark: SparkSession, log: LiveLog) -> None:
    options = parse_store(log.options)
    with LogView(options) as view:
        ids = view.partitions(Subscription(topics=("t",)))
        ends = {ids[tp]: (0, bound.next_offset) for tp, bound in view.bounds(ids).items()}
        paths = paths_of(options, view.table_files(ends), "file")
    if not paths:
        pytest.skip("the tail is in no file")
    table = spark.read.parquet(*paths).select("partition", "offset", "i", *COLUMNS).toArrow()
    for number in PARTITIONS:
        assert described(rows_of(own(table, number))) == []


def literal(cell: Any, type_name: str) -> str:
    text = str(cell).replace("'", "''")
    return f"CAST('{text}' AS {type_name.replace('time', 'time(6)') if type_name == 'time' else type_name})"


def conditions() -> Iterator[str]:
    for name, type_name in SCALARS.items():
        texts = [literal(cell, type_name) for cell in comparable(name)]
        yield from (f"{name} {sign} {text}" for text in texts[:2] for sign in ("=", "<>", "<", ">"))
        yield f"{name} IN ({', '.join(texts[:3])})"
        yield f"{name} IS NULL"
        if type_name in ("float", "double"):
            yield from (f"isnan({name})", f"{name} > 1e30")
        if type_name == "string":
            yield from (f"{name} LIKE 'a%'", f"{name} LIKE '%x%'")


def test_spark_keeps_the_same_rows(spark: SparkSession, log: LiveLog, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside the same filters on the expected cells, which are in no file."""
    expected = spark.createDataFrame(expected_rows(0))  # a cached one is pruned by bounds without NaN
    all_conditions = list(conditions())
    table_read = odradek.spark.table(spark, "t", log.options)

    def kept(frame: DataFrame) -> list[list[int]]:
        rows: dict[int, list[int]] = {number: [] for number in range(len(all_conditions))}
        for first in range(0, len(all_conditions), 20):
            parts = [
                frame.where(condition).where(f"offset < {COUNT}").selectExpr(f"{number} AS n", "offset")
                for number, condition in enumerate(all_conditions)
                if first <= number < first + 20
            ]
            whole = parts[0]
            for part in parts[1:]:
                whole = whole.unionAll(part)
            for row in whole.collect():
                rows[row[0]].append(row[1])
        return [sorted(offsets) for offsets in rows.values()]

    wanted = [sorted(offsets * len(PARTITIONS)) for offsets in kept(expected)]
    differences = [
        (condition, one, other)
        for condition, one, other in zip(all_conditions, kept(table_read), wanted, strict=True)
        if one != other
    ]
    assert differences == []
    with capsys.disabled():
        print(
            f"\ntables by Spark: {COUNT * len(COLUMNS) * 2:,} cells, {len(all_conditions)} filters, "
            "no accepted differences"
        )

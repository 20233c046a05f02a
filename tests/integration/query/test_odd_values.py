"""Tables, value by value: the same cells and the same rows for a filter, in the tail, in files, in every reader.

Each odd value is a record of its own, and all of them are one batch as well. Filters compare with each value's own
cell: what statistics, pruning or a second path of reading lose shows as a row less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import duckdb
import odradek
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from odradek.model.kinds import kind_of
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import (
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    In,
    IsNaN,
    IsNull,
    LessThan,
    NotEqualTo,
    NotNaN,
    NotNull,
    StartsWith,
)
from pyiceberg.expressions.visitors import bind
from pyiceberg.io.pyarrow import expression_to_pyarrow
from pyiceberg.table import Table

from tests.support.examples import some
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

PARTS = 5  # of all filters, of which `make test` tries one
SCALARS = {name: data_type for name, data_type in COLUMNS.items() if not kind_of(data_type).inner}
ACCEPTED = ("PyIceberg 0.12 reads a null list of structs as an empty list, also from files that it wrote itself",)


class OddTopic(NamedTuple):
    """The topic `t` of a store, with ODD_VALUES at the beginning of both partitions."""

    log: LiveLog
    in_files: bool


@pytest.fixture(scope="module", params=["tail", "files", "files without values"])
def topic(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest, cells: Counter[str]
) -> Iterator[OddTopic]:
    with LiveLog(tmp_path_factory.mktemp("odd") / "store", **SMALL) as log:
        in_files = request.param != "tail"
        fill(log, in_files=in_files, value_bytes=str("without" not in request.param).lower())
        yield OddTopic(log, in_files)


@pytest.fixture(scope="module")
def cells(request: pytest.FixtureRequest) -> Iterator[Counter[str]]:
    """How many cells and filters each reader was asked for; printed at the end."""
    cell_counts: Counter[str] = Counter()
    yield cell_counts
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        counts_text = ", ".join(f"{count:,} {name}" for name, count in cell_counts.items())
        reporter.write_line(f"\ntables: {counts_text}; accepted differences: {len(ACCEPTED)}: {'; '.join(ACCEPTED)}")


COUNT = len(ODD_VALUES)


def iceberg(topic: OddTopic) -> Table:
    return load_catalog("odradek", **topic.log.catalog).load_table("odradek.t")


def files_of(topic: OddTopic) -> list[str]:
    return sorted(task.file.file_path.removeprefix("file://") for task in iceberg(topic).scan().plan_files())


def literal(cell: Any, type_name: str) -> str:
    text = str(cell).replace("'", "''")
    types = {"string": "VARCHAR", "timestamp": "TIMESTAMPTZ", "timestamp_ntz": "TIMESTAMP"}
    return f"CAST('{text}' AS {types.get(type_name, type_name.upper())})"


def conditions() -> Iterator[str]:
    for name, type_name in SCALARS.items():
        texts = [literal(cell, type_name) for cell in comparable(name)]
        yield from (f"{name} {sign} {text}" for text, sign in product(texts, ("=", "<>", "<", ">")))
        yield f"{name} IN ({', '.join(texts[:3])})"
        yield from (f"{name} IS NULL", f"{name} IS NOT NULL")
        if type_name in ("float", "double"):
            yield from (f"isnan({name})", f"NOT isnan({name})", f"{name} > 1e30 AND {name} < 'inf'::DOUBLE")
        if type_name == "string":
            yield from (f"{name} LIKE '{pattern}'" for pattern in ("a%", "%\ud7ff%", "", "_x_", "a\\%%"))
    named = {type_name: name for name, type_name in COLUMNS.items()}
    yield f"list_contains({named['array<double>']}, 'nan'::DOUBLE)"
    yield f"isnan({named['struct<x: double>']}.x)"
    yield f"{named['struct<x: double>']}.x <> 1.0"


FILTERS = list(conditions())


def statement(relation: str, part: int) -> str:
    """Return one statement of some of the filters, each with its number: every part has its own push-down."""
    return " UNION ALL ".join(
        f'SELECT {number} AS n, partition, "offset" FROM {relation} WHERE {condition} AND "offset" < {COUNT}'
        for number, condition in enumerate(FILTERS)
        if number % PARTS == part
    )


Kept = set[tuple[int, int, int]]


def kept(table: pa.Table) -> Kept:
    """Return number of the filter, partition and offset of each row."""
    return set(zip(*(table.column(name).to_pylist() for name in ("n", "partition", "offset")), strict=True))


@pytest.fixture(scope="module")
def wanted() -> Callable[[int], Kept]:
    """Return what DuckDB keeps of the expected cells in its own memory, by part."""

    @cache
    def of(part: int) -> Kept:
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.register("arrow", expected_rows(0))
            connection.execute("CREATE TABLE given AS SELECT * FROM arrow, (SELECT unnest([0, 1]) AS partition)")
            return kept(connection.sql(statement("given", part)).to_arrow_table())

    return of


def differences(got: Kept, wanted: Kept) -> list[str]:
    return [
        f"{FILTERS[n][:90]} {'has' if (n, p, at) in got else 'lacks'} partition {p} {ODD_VALUES[at].json[:40]}"
        for n, p, at in sorted(got ^ wanted)
    ]


def test_a_query_has_every_cell(topic: OddTopic, cells: Counter[str]) -> None:
    table = odradek.query("SELECT * FROM t", topic.log.data_dir)
    for number in PARTITIONS:
        rows = own(table, number)
        assert described(rows_of(rows)) == []
        assert rows.column("value").to_pylist() == [odd.value for odd in ODD_VALUES]
        cells["cells by odradek query"] += COUNT * len(COLUMNS)


@pytest.mark.parametrize("part", some(range(PARTS), every=PARTS))
def test_a_query_keeps_the_same_rows(
    topic: OddTopic, part: int, wanted: Callable[[int], Kept], cells: Counter[str]
) -> None:
    got = kept(odradek.query(statement("t", part), topic.log.data_dir))
    assert differences(got, wanted(part)) == []
    cells["filters by odradek query"] += len(FILTERS) // PARTS


def test_other_readers_of_the_files_have_every_cell(topic: OddTopic, cells: Counter[str]) -> None:
    if not topic.in_files:
        pytest.skip("the tail is in no file")
    files = files_of(topic)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        by_duckdb = connection.read_parquet(files).to_arrow_table()
    tables = {
        "Arrow": pa.concat_tables([pq.read_table(file, partitioning=None) for file in files]),
        "DuckDB": by_duckdb,
        "PyIceberg": iceberg(topic).scan().to_arrow(),
    }
    for (reader, table), number in product(tables.items(), PARTITIONS):
        rows = rows_of(own(table, number))
        if reader == "PyIceberg":  # ACCEPTED
            rows = [(*row[:-1], row[-1] or None) for row in rows]
        assert (reader, described(rows)) == (reader, [])
        cells[f"cells by {reader}"] += COUNT * len(COLUMNS)


@pytest.mark.parametrize("part", some(range(PARTS), every=PARTS))
def test_duckdb_keeps_the_same_rows_of_the_files(
    topic: OddTopic, part: int, wanted: Callable[[int], Kept], cells: Counter[str]
) -> None:
    if not topic.in_files:
        pytest.skip("the tail is in no file")
    files = ", ".join(f"'{file}'" for file in files_of(topic))
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        got = kept(connection.sql(statement(f"read_parquet([{files}])", part)).to_arrow_table())
    assert differences(got, wanted(part)) == []
    cells["filters by DuckDB"] += len(FILTERS) // PARTS


def iceberg_filters(name: str, type_name: str) -> Iterator[BooleanExpression]:
    cells = [cell for cell in comparable(name) if cell == cell]
    for cell in cells:
        yield from (compare(name, cell) for compare in (EqualTo, NotEqualTo, LessThan, GreaterThan))
    yield In(name, cells[:3])
    yield IsNull(name)
    yield NotNull(name)
    if type_name in ("float", "double"):
        yield IsNaN(name)
        yield NotNaN(name)
    if type_name == "string":
        yield StartsWith(name, "a" * 15)


@pytest.mark.parametrize("part", some(range(PARTS), every=PARTS))
def test_pyiceberg_keeps_the_same_rows(topic: OddTopic, part: int, cells: Counter[str]) -> None:
    """Beside the same expression over the expected cells in Arrow's memory."""
    if not topic.in_files:
        pytest.skip("the tail is in no file")
    table, rows = iceberg(topic), expected_rows(0)
    for name, type_name in list(SCALARS.items())[part::PARTS]:
        for row_filter in iceberg_filters(name, type_name):
            wanted = rows.filter(expression_to_pyarrow(bind(table.schema(), row_filter, case_sensitive=True)))
            kept = table.scan(
                row_filter=And(row_filter, LessThan("offset", COUNT)), selected_fields=("offset",)
            ).to_arrow()
            expected = sorted(wanted.column("offset").to_pylist() * len(PARTITIONS))
            assert (row_filter, sorted(kept.column("offset").to_pylist())) == (row_filter, expected)
            cells["filters by PyIceberg"] += 1

"""`odradek query`: SQL over topics by DuckDB. docs/tables.md has the columns and AS OF."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from odradek.cli.connection import DEFAULT_DATA_DIR, DataDir
from odradek.cli.output import as_yaml, on_screen, show_rows
from odradek.errors import ErrorCode, KafkaError
from odradek.extras import extra
from odradek.operations.query.rows import as_csv, names_of, numbers_of, rows_of

_BAR = 50  # characters of the longest bar


class Form(StrEnum):
    """The format of the rows."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    YAML = "yaml"
    PARQUET = "parquet"
    CHART = "chart"


def query(
    sql: Annotated[str, typer.Argument(help="One SELECT; names of tables are topics. - is standard input.")],
    output: Annotated[Form, typer.Option("--output", help="How to write the rows.")] = Form.TABLE,
    to: Annotated[
        Path | None,
        typer.Option("--to", help="File of the rows: needed for parquet; a chart becomes a .png, .svg or .pdf."),
    ] = None,
    allow_files: Annotated[bool, typer.Option("--allow-files", help="SQL may read and write files.")] = False,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    log_table: Annotated[str, typer.Option(envvar="ODRADEK_LOG_TABLE", help="On AWS: the log table.")] = "",
    catalog_table: Annotated[str, typer.Option(envvar="ODRADEK_CATALOG_TABLE", help="On AWS: the catalog.")] = "",
    bucket: Annotated[str, typer.Option(envvar="ODRADEK_BUCKET", help="On AWS: the bucket.")] = "",
    prefix: Annotated[str, typer.Option(help="On AWS: prefix of the objects.")] = "",
    region: Annotated[str, typer.Option(help="On AWS: the region.")] = "",
) -> None:
    """Run SQL over topics, up to the last record that was acknowledged: no JVM, no service.

    The columns of a topic are offset, partition, timestamp, key, value, headers, and one for each field of the values.

    Example: [bold]odradek query "SELECT origin, count(*) FROM flights GROUP BY origin"[/bold]
    """
    if output is Form.PARQUET and to is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "--output parquet also needs --to FILE")
    with extra("query"):
        from odradek.operations.query import run_query

    store: Path | dict[str, str] = data_dir
    if bucket:
        aws_options = {"logTable": log_table, "catalogTable": catalog_table, "bucket": bucket, "prefix": prefix}
        store = {"store": "aws", **{name: value for name, value in {**aws_options, "region": region}.items() if value}}
    text = sys.stdin.read() if sql == "-" else sql
    result = run_query(text, store, allow_files=allow_files)
    _write(result.table, output, to)
    for topic, count in result.misfits.items():
        typer.echo(f"{count:,} values of {topic} do not fit its columns; their columns are null", err=True)


def _write(table: Any, output: Form, to: Path | None) -> None:
    if output is Form.PARQUET:
        import pyarrow.parquet as pq

        from odradek.columnar.bounds import columns_with_bounds

        pq.write_table(table, to, write_statistics=columns_with_bounds(table) or False)
    elif output is Form.CHART:
        _chart(table, to)
    elif to is not None:
        with to.open("w", encoding="utf-8", newline="") as file:
            file.write(_text(table, output))
    elif output is Form.TABLE:
        show_rows(rows_of(table), names_of(table), headers=table.column_names)
    else:
        typer.echo(on_screen(_text(table, output)), nl=False)


def _text(table: Any, output: Form) -> str:
    """Return the rows as JSON, YAML or CSV; a table in a file is tab-separated."""
    rows = rows_of(table)
    if output is Form.JSON:
        return json.dumps(rows, indent=2, ensure_ascii=False) + "\n"
    if output is Form.YAML:
        return as_yaml(rows)
    return as_csv(table, delimiter="," if output is Form.CSV else "\t")


def _chart(table: Any, to: Path | None) -> None:
    """Draw bars: the last column that holds numbers, by the other columns."""
    rows = rows_of(table)
    names = names_of(table)
    numbers = numbers_of(rows, names)
    if not numbers:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "a chart needs rows with a column of numbers, and others to name the bars"
        )
    height = numbers[-1]
    labels = [", ".join(str(row[name]) for name in names if name != height) for row in rows]
    heights = [row[height] or 0 for row in rows]
    if to is None:
        _bars(labels, heights)
        return
    with extra("charts"):
        from matplotlib.figure import Figure
    figure = Figure(figsize=(10, max(2.0, 0.35 * len(rows) + 1)), layout="constrained")
    axes = figure.add_subplot()
    axes.barh(range(len(rows)), heights)
    axes.set_yticks(range(len(rows)), labels)
    axes.invert_yaxis()
    axes.set_xlabel(height)
    try:
        figure.savefig(to)
    except ValueError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"--to {to}: {error}") from None


def _bars(labels: list[str], heights: Iterable[float]) -> None:
    heights = list(heights)
    largest = max((abs(height) for height in heights), default=0) or 1
    width = max(map(len, labels), default=0)
    for label, height in zip(labels, heights, strict=True):
        bar = "█" * round(_BAR * abs(height) / largest)
        typer.echo(f"{on_screen(label):<{width}}  {bar} {height:,}".rstrip())

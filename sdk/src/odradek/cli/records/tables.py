"""`odradek tables`: compacted topics as tables, and their rows by key; files of table topics."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from odradek.cli.command_group import CommandGroup
from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, run
from odradek.cli.output import Output, OutputOption, on_screen, show_data, show_rows
from odradek.cli.screen import confirm

tables = typer.Typer(cls=CommandGroup, help="Serve compacted topics as tables; read rows by key.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the table.")]
MinOffset = Annotated[
    list[str] | None,
    typer.Option("--min-offset", help="PARTITION:OFFSET of a record that must be in the answer; may be repeated."),
]
_FORMATS = "STRING, JSON, AVRO, INT, BIGINT, DOUBLE or BYTES."


@tables.command()
def serve(
    name: Name,
    topic: Annotated[str, typer.Option("--topic", "-t", help="A compacted topic; the table's name by default.")] = "",
    key_format: Annotated[str, typer.Option(help=_FORMATS)] = "STRING",
    value_format: Annotated[str, typer.Option(help=_FORMATS)] = "JSON",
    window: Annotated[str, typer.Option(help="Windows in the keys: TUMBLING, HOPPING or SESSION.")] = "",
    window_size_ms: Annotated[int, typer.Option(help="Of TUMBLING and HOPPING windows.")] = 0,
    retention_ms: Annotated[
        int, typer.Option(help="How long a row is served; -1: as the topic's retention, if it deletes.")
    ] = -1,
    shards: Annotated[int, typer.Option(help="Parts of the table, 1 to 64; 0: as the topic has partitions.")] = 0,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """Serve a compacted topic: its rows can be read by key, over HTTPS.

    Example: [bold]odradek tables serve by_hour --window TUMBLING --window-size-ms 3600000[/bold]
    """
    from odradek.operations import plain

    options: dict[str, Any] = {
        "key_format": key_format.upper(),
        "value_format": value_format.upper(),
        "window": window.upper(),
        "window_size_ms": window_size_ms,
        "retention_ms": retention_ms,
        "shards": shards,
    }
    served = run(bootstrap_servers, data_dir, lambda cluster: cluster.admin.serve_table(name, topic, **options))
    if not show_data(plain(served), output):
        typer.echo(f"serving {served.name}")


@tables.command("list")
def list_tables(
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the served tables, one per line."""
    from odradek.operations.tables import TableListing
    from odradek.operations.tables import list_tables as listed

    tables = run(bootstrap_servers, data_dir, lambda cluster: listed(cluster.admin))
    columns = [field.name for field in fields(TableListing)]
    show_rows([{name: getattr(row, name) for name in columns} for row in tables], columns, output)


@tables.command()
def describe(
    name: Name,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print a table's options, and how far it follows its topic."""
    from odradek.model.table import TablePartition
    from odradek.operations import plain
    from odradek.operations.tables import describe_table

    detail = run(bootstrap_servers, data_dir, lambda cluster: describe_table(cluster.admin, name))
    document = plain(detail)
    if show_data(document, output):
        return
    for option, value in document["table"].items():
        if option != "state":
            typer.echo(f"{option}: {value}")
    typer.echo(f"state: {detail.state}  lag: {detail.lag}  changes: {detail.changes}")
    typer.echo(f"too large: {detail.too_large}  unusable: {detail.unusable}")
    typer.echo(f"last error: {detail.last_error or 'none'}")
    columns = [field.name for field in fields(TablePartition) if not field.name.startswith("error")]
    show_rows([{column: getattr(row, column) for column in columns} for row in detail.partitions], columns, output)


@tables.command()
def flush(
    topic: Annotated[str, typer.Argument(help="A topic with odradek.table.enable.")],
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Close the files of a table topic: what it has now is in Parquet, and in its Iceberg table, soon.

    Maintenance does it with its next runs, some minutes at most, though segments are not full. Later runs join small
    files. For a topic whose table must never be further behind than some time, set odradek.table.commit.interval.ms.

    Example: [bold]odradek tables flush flights[/bold]
    """
    from odradek.operations.tables import flush as flushed
    from odradek.system import SystemClock

    now_ms = SystemClock().now_ms()
    run(bootstrap_servers, data_dir, lambda cluster: flushed(cluster.admin, topic, now_ms))
    typer.echo(f"the next runs of maintenance write what {topic} has up to now as Parquet files")


@tables.command()
def get(
    name: Name,
    key: Annotated[str, typer.Argument(help="The key: text; JSON if keys are JSON, base64 if they are bytes.")],
    window: Annotated[str, typer.Option(help="Start of one window: ms, or 2026-11-23T09:00:00.")] = "",
    start: Annotated[str, typer.Option("--from", help="Windows that start then or later.")] = "",
    end: Annotated[str, typer.Option("--to", help="Windows that start before that.")] = "",
    min_offset: MinOffset = None,
    wait_ms: Annotated[int, typer.Option(help="How long to wait for --min-offset, at most 20,000.")] = 5_000,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print the row of a key; of a windowed table one row for each window.

    The exit code is 1 if there is none.

    Example: [bold]odradek tables get by_hour JFK --from 2026-11-23T00:00:00[/bold]
    """
    from odradek.operations import plain
    from odradek.operations.tables import get_row

    response = run(
        bootstrap_servers,
        data_dir,
        lambda cluster: get_row(
            cluster.admin,
            name,
            key,
            window=window,
            start=start,
            end=end,
            min_offset=min_offset or (),
            wait_ms=wait_ms,
        ),
    )
    if not show_data(plain(response), output):
        _show(response.rows)
    if not response.rows:
        raise typer.Exit(1)


@tables.command("range")
def range_rows(
    name: Name,
    first: Annotated[str | None, typer.Option("--from", help="The first key.")] = None,
    before: Annotated[str | None, typer.Option("--to", help="The key before which the range ends.")] = None,
    prefix: Annotated[str | None, typer.Option(help="Of all keys, instead of --from and --to.")] = None,
    start: Annotated[str, typer.Option("--from-window", help="Windows that start then or later.")] = "",
    end: Annotated[str, typer.Option("--to-window", help="Windows that start before that.")] = "",
    limit: Annotated[int, typer.Option(help="Rows, 1 to 1,000.")] = 100,
    cursor: Annotated[str, typer.Option(help="Where the page before has ended.")] = "",
    min_offset: MinOffset = None,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print rows in the order of their keys."""
    from odradek.operations import plain
    from odradek.operations.tables import range_rows as ranged

    response = run(
        bootstrap_servers,
        data_dir,
        lambda cluster: ranged(
            cluster.admin,
            name,
            first,
            before,
            prefix=prefix,
            start=start,
            end=end,
            limit=limit,
            cursor=cursor,
            min_offset=min_offset or (),
        ),
    )
    if show_data(plain(response), output):
        return
    _show(response.rows)
    if response.cursor:
        typer.echo(f"more: --cursor {response.cursor}", err=True)


@tables.command()
def changes(
    name: Name,
    key: Annotated[str | None, typer.Argument(help="Changes of this key alone.")] = None,
    count: Annotated[int, typer.Option("--count", "-n", help="End after so many; 0: never.")] = 0,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Print changes as they come, one JSON object per line, until Ctrl-C."""
    from odradek.operations.cluster import Cluster
    from odradek.operations.tables import changes as changed
    from odradek.operations.tables import row_document

    async def follow(cluster: Cluster) -> None:
        left = count
        async for change in changed(cluster.admin, name, key):
            typer.echo(on_screen(json.dumps(row_document(change), ensure_ascii=False)))
            left -= 1
            if left == 0:
                return

    run(bootstrap_servers, data_dir, follow)


@tables.command()
def stop(name: Name, bootstrap_servers: Server = DEFAULT_SERVER, data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Let a table follow its topic no more; its rows are read as they are."""
    run(bootstrap_servers, data_dir, lambda cluster: cluster.admin.stop_table(name))
    typer.echo(f"stopped {name}")


@tables.command()
def resume(name: Name, bootstrap_servers: Server = DEFAULT_SERVER, data_dir: DataDir = DEFAULT_DATA_DIR) -> None:
    """Let a table follow its topic again, from where it was."""
    run(bootstrap_servers, data_dir, lambda cluster: cluster.admin.resume_table(name))
    typer.echo(f"resumed {name}")


@tables.command()
def drop(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
) -> None:
    """Serve a table no more, and remove its rows. The topic stays."""
    confirm(f"Drop the table {name} and its rows?", yes=yes)
    run(bootstrap_servers, data_dir, lambda cluster: cluster.admin.drop_table(name))
    typer.echo(f"dropped {name}")


def _show(rows: Sequence[Any]) -> None:
    """Print rows as a table: of windowed ones with their window."""
    has_windows = any(row.window_start_ms is not None for row in rows)
    columns = ["key", *(["window"] if has_windows else []), "value", "partition", "offset", "time"]
    columns += ["error"] if any(row.error for row in rows) else []
    shown = [
        {
            "key": _text(row.key),
            "window": "" if row.window_start_ms is None else _iso(row.window_start_ms),
            "value": _text(row.value),
            "partition": row.partition,
            "offset": row.offset,
            "time": _iso(row.timestamp_ms),
            "error": row.error,
        }
        for row in rows
    ]
    show_rows(shown, columns)


def _iso(time_ms: int) -> str:
    """A time in UTC; the number where no calendar has it."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(time_ms)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

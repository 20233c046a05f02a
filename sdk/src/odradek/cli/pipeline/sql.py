"""`odradek sql`: scripts of stream SQL on a local Spark. docs/SQL.md is the reference of the language."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server
from odradek.cli.output import Output, OutputOption, as_yaml, on_screen, show_rows
from odradek.cli.pipeline.sql_here import (
    Bucket,
    CatalogTable,
    LogTable,
    Prefix,
    Region,
    SchemaRegistry,
    SqlPlace,
    checked_trigger,
    open_engine,
    schemas_of,
    store_options,
)
from odradek.errors import ErrorCode, KafkaError
from odradek.extras import extra


def sql(
    files: Annotated[list[Path] | None, typer.Argument(help="Scripts, run in order; - is standard input.")] = None,
    execute: Annotated[
        list[str] | None, typer.Option("--execute", "-e", help="Statements, run after the files.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Persistent queries process the existing records, then end.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Check the script and exit: no Spark, no service.")] = False,
    output: OutputOption = Output.TABLE,
    checkpoints: Annotated[
        str | None, typer.Option("--checkpoints", help="Folder or s3:// URL of the queries' positions and state.")
    ] = None,
    trigger: Annotated[str, typer.Option("--trigger", help="How often a query looks for records.")] = "1 second",
    progress: Annotated[
        bool, typer.Option("--progress", help="Also print a line of JSON for each micro-batch: rates and state.")
    ] = False,
    server: Annotated[
        str, typer.Option("--server", help="URL of a server (odradek sql-server), which then runs all of it.")
    ] = "",
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    log_table: LogTable = "",
    catalog_table: CatalogTable = "",
    bucket: Bucket = "",
    prefix: Prefix = "",
    region: Region = "",
    schema_registry: SchemaRegistry = "",
) -> None:
    """Run scripts of stream SQL: CREATE STREAM ..., CREATE TABLE ... AS SELECT ..., SELECT ... EMIT CHANGES.

    Without a script, at a terminal, it is a shell: on a server of its own or, with --server, on that one.

    JSON output has one object per row and YAML output one item per row, so that an endless query can be read too.

    Example: [bold]odradek sql delays.sql -e "SELECT * FROM delays" --once[/bold]
    """
    with extra("spark"):
        from odradek.sql.session import check as check_scripts
        from odradek.sql.session import check_without_server

    checked_trigger(trigger)
    scripts = [(str(path), _read(path)) for path in files or []]
    scripts += [("", text) for text in execute or []]
    if server:
        if once or check or checkpoints:
            raise KafkaError(ErrorCode.INVALID_CONFIG, "--once, --check and --checkpoints do not apply with --server")
        _on_server(server, scripts, output)
        return
    if not scripts and sys.stdin.isatty():
        arguments = ["--service-id", "shell", "-b", bootstrap_servers, "--data-dir", str(data_dir)]
        arguments += ["--trigger", trigger, "--log-table", log_table, "--catalog-table", catalog_table]
        arguments += ["--bucket", bucket, "--prefix", prefix, "--region", region, "--schema-registry", schema_registry]
        from odradek.cli.pipeline.sql_shell import own_server

        typer.echo("starting a server of stream SQL with Spark, for half a minute; then there is a prompt", err=True)
        with own_server(arguments, data_dir / "sql-server" / "shell.log") as url:
            _on_server(url, scripts, output)
        return
    if not scripts:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "give a FILE, or statements with -e")
    steps = check_scripts(scripts, schemas_of(schema_registry) if schema_registry else None)
    if check:
        typer.echo(f"{len(steps)} valid statements")
        return
    check_without_server(steps)
    store = store_options(data_dir, log_table, catalog_table, bucket, prefix, region)
    servers = None if bucket else bootstrap_servers
    where = checkpoints or str(data_dir / "sql")
    _run(steps, store, servers, data_dir, once, output, where, trigger, schema_registry, progress=progress)


def _on_server(url: str, scripts: Sequence[tuple[str, str]], output: Output) -> None:
    """Run scripts on a server; without any, a shell."""
    from odradek.cli.pipeline.sql_shell import Shell, line_editing
    from odradek.sql.server.client import RestClient

    client = RestClient(url)
    info = client.info()
    shell = Shell(client, TextScreen(output))
    for _, text in scripts:
        shell.execute(text)
    if not scripts:
        typer.echo(f"stream SQL on {info['ksqlServiceId']} ({info['version']}); help; explains, exit leaves", err=True)
        with line_editing(client, Path("~/.local/state/odradek/sql_history").expanduser()) as read:
            shell.run(read)


def _read(path: Path) -> str:
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{path} is not UTF-8 text") from None


def _run(
    steps: Sequence[Any],
    store: Mapping[str, str],
    servers: str | None,
    data_dir: Path,
    once: bool,
    output: Output,
    checkpoints: str,
    trigger: str,
    schema_registry: str,
    *,
    progress: bool,
) -> None:
    """Run the checked steps on a Spark that is started for them."""
    from odradek.sql.session import Session

    then = "queries process what is there, then end" if once else "queries run until Ctrl-C"
    with open_engine(
        SqlPlace(store, servers, data_dir, checkpoints, trigger, schema_registry), progress=progress, then=then
    ) as it:
        Session(it.engine, it.topics, TextScreen(output), once=once).run(steps)


class TextScreen:
    """Prints results to standard output and messages to standard error."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._headed: tuple[str, ...] | None = None

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        if self._output is not Output.TABLE:
            self.rows(columns, rows)
            return
        shown = [dict(zip(columns, (_value(value) for value in row), strict=True)) for row in rows]
        show_rows(shown, columns, headers=columns, title=title)

    def rows(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        if self._output is Output.TABLE and self._headed != tuple(columns):
            self._headed = tuple(columns)
            print(on_screen("\t".join(columns)))
        for row in rows:
            named = dict(zip(columns, row, strict=True))
            if self._output is Output.JSON:
                print(on_screen(json.dumps(named, ensure_ascii=False)))
            elif self._output is Output.YAML:
                print(on_screen(as_yaml([named])), end="")
            else:
                print(on_screen("\t".join(_cell(value) for value in row)))
        sys.stdout.flush()

    def say(self, text: str) -> None:
        # EXPLAIN's text is a result; a message is not.
        print(on_screen(text), file=sys.stdout if "\n" in text else sys.stderr, flush=True)


def _value(value: Any) -> Any:
    """Return numbers unchanged, so that a table aligns them, and other values as text."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else _cell(value)


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value.replace("\t", " ").replace("\n", " ")
    return json.dumps(value, ensure_ascii=False)

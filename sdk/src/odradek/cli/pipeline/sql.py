"""`odradek sql`: scripts of stream SQL on a local Spark. docs/SQL.md is the reference of the language."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, client_configs
from odradek.cli.output import Output, OutputOption, as_yaml, show_rows
from odradek.cli.pipeline.spark_here import prepare_spark
from odradek.errors import ErrorCode, KafkaError
from odradek.extras import extra

_INTERVAL = re.compile(r"(interval )?( *\d+(\.\d+)? *(millisecond|second|minute|hour|day)s? *)+", re.IGNORECASE)


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
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    log_table: Annotated[str, typer.Option(envvar="ODRADEK_LOG_TABLE", help="On AWS: the log table.")] = "",
    catalog_table: Annotated[str, typer.Option(envvar="ODRADEK_CATALOG_TABLE", help="On AWS: the catalog.")] = "",
    bucket: Annotated[str, typer.Option(envvar="ODRADEK_BUCKET", help="On AWS: the bucket.")] = "",
    prefix: Annotated[str, typer.Option(help="On AWS: prefix of the objects.")] = "",
    region: Annotated[str, typer.Option(help="On AWS: the region.")] = "",
    schema_registry: Annotated[
        str, typer.Option(envvar="ODRADEK_SCHEMA_REGISTRY", help="URL of the registry of AVRO, PROTOBUF and JSON_SR.")
    ] = "",
) -> None:
    """Run scripts of stream SQL: CREATE STREAM ..., CREATE TABLE ... AS SELECT ..., SELECT ... EMIT CHANGES.

    JSON output has one object per row and YAML output one item per row, so that an endless query can be read too.

    Example: [bold]odradek sql delays.sql -e "SELECT * FROM delays" --once[/bold]
    """
    with extra("spark"):
        from odradek.sql.session import check as check_scripts

    if not _INTERVAL.fullmatch(trigger):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"--trigger must be like '500 milliseconds' or '1 minute', not {trigger!r}"
        )
    scripts = [(str(path), _read(path)) for path in files or []]
    scripts += [("", text) for text in execute or []]
    if not scripts:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "give a FILE, or statements with -e")
    steps = check_scripts(scripts, _schemas(schema_registry) if schema_registry else None)
    if check:
        typer.echo(f"{len(steps)} valid statements")
        return
    store = {"store": f"embedded:{data_dir}"}
    if bucket:
        given = {"logTable": log_table, "catalogTable": catalog_table, "bucket": bucket, "prefix": prefix}
        store = {"store": "aws", **{name: value for name, value in {**given, "region": region}.items() if value}}
    servers = None if bucket else bootstrap_servers
    where = checkpoints or str(data_dir / "sql")
    _run(steps, store, servers, data_dir, once, output, where, trigger, schema_registry, progress=progress)


def _schemas(url: str) -> Any:
    """Return a function that reads columns from a registry."""
    from odradek.sql.running.registered import RegistryAddress, columns_of

    return partial(columns_of, RegistryAddress.of(url).open())


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
    if servers is not None:
        client_configs(servers, data_dir)  # raises if there is no such service
    prepare_spark()
    from odradek.spark.jobs.arguments import StoreArguments
    from odradek.spark.jobs.run import make_session, stopping_signals
    from odradek.sql.on_spark import SparkEngine
    from odradek.sql.running.registered import RegistryAddress
    from odradek.sql.session import Session
    from odradek.sql.topics import OpenTopics

    sink = {**store, **({"bootstrapServers": servers} if servers is not None else {})}
    if "://" not in checkpoints:
        checkpoints = str(Path(checkpoints).absolute())
    with stopping_signals() as stop, OpenTopics(store, servers) as topics:
        spark = make_session(StoreArguments(JOB_NAME="odradek-sql", shuffle_partitions=2), "odradek-sql")
        if progress:
            from odradek.spark.jobs.listener import ProgressLines

            spark.streams.addListener(ProgressLines(sys.stderr))
        try:
            registry = RegistryAddress.of(schema_registry) if schema_registry else None
            engine = SparkEngine(
                spark, store=store, sink=sink, checkpoints=checkpoints, stop=stop, trigger=trigger, registry=registry
            )
            Session(engine, topics, TextScreen(output), once=once).run(steps)
        finally:
            spark.stop()


class TextScreen:
    """Prints results to standard output and messages to standard error."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._headed: tuple[str, ...] | None = None

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        if self._output is not Output.TABLE:
            self.rows(columns, rows)
            return
        shown = [dict(zip(columns, (_value(each) for each in row), strict=True)) for row in rows]
        show_rows(shown, columns, headers=columns, title=title)

    def rows(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        if self._output is Output.TABLE and self._headed != tuple(columns):
            self._headed = tuple(columns)
            print("\t".join(columns))
        for row in rows:
            named = dict(zip(columns, row, strict=True))
            if self._output is Output.JSON:
                print(json.dumps(named, ensure_ascii=False))
            elif self._output is Output.YAML:
                print(as_yaml([named]), end="")
            else:
                print("\t".join(_cell(each) for each in row))
        sys.stdout.flush()

    def say(self, text: str) -> None:
        # EXPLAIN's text is a result; a message is not.
        print(text, file=sys.stdout if "\n" in text else sys.stderr, flush=True)


def _value(value: Any) -> Any:
    """Return numbers unchanged, so that a table aligns them, and other values as text."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else _cell(value)


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value.replace("\t", " ").replace("\n", " ")
    return json.dumps(value, ensure_ascii=False)

"""`odradek sql`: scripts of stream SQL on a Spark of this machine. docs/SQL.md is the language's reference."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, client_configs
from odradek.cli.screen import show
from odradek.errors import ErrorCode, KafkaError
from odradek.extras import extra

_INTERVAL = re.compile(r"(interval )?( *\d+(\.\d+)? *(millisecond|second|minute|hour|day)s? *)+", re.IGNORECASE)
_FORMATS = ("table", "json")


def sql(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Scripts, one after the other; - is standard input.")
    ] = None,
    execute: Annotated[
        list[str] | None, typer.Option("--execute", "-e", help="Statements, after those of the files.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Persistent queries process what is there, then end.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Check the script and stop: no Spark, no service.")] = False,
    output: Annotated[str, typer.Option("--output", "-o", help="table or json (one object a row).")] = "table",
    checkpoints: Annotated[
        str | None, typer.Option("--checkpoints", help="Folder or s3:// of the queries' positions and state.")
    ] = None,
    trigger: Annotated[str, typer.Option("--trigger", help="How often a query looks for records.")] = "1 second",
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    log_table: Annotated[str, typer.Option(envvar="ODRADEK_LOG_TABLE", help="On AWS: the log table.")] = "",
    catalog_table: Annotated[str, typer.Option(envvar="ODRADEK_CATALOG_TABLE", help="On AWS: the catalog.")] = "",
    bucket: Annotated[str, typer.Option(envvar="ODRADEK_BUCKET", help="On AWS: the bucket.")] = "",
    prefix: Annotated[str, typer.Option(help="On AWS: prefix of the objects.")] = "",
    region: Annotated[str, typer.Option(help="On AWS: the region.")] = "",
) -> None:
    """Run scripts of stream SQL: CREATE STREAM ..., CREATE TABLE ... AS SELECT ..., SELECT ... EMIT CHANGES.

    Example: [bold]odradek sql delays.sql -e "SELECT * FROM delays" --once[/bold]
    """
    with extra("spark"):
        from odradek.sql.session import check as check_scripts

    if output not in _FORMATS:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"--output is {' or '.join(_FORMATS)}, not {output!r}")
    if not _INTERVAL.fullmatch(trigger):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"--trigger is like '500 milliseconds' or '1 minute', not {trigger!r}"
        )
    scripts = [(str(path), _read(path)) for path in files or []]
    scripts += [("", text) for text in execute or []]
    if not scripts:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "give a FILE, or statements with -e")
    steps = check_scripts(scripts)
    if check:
        typer.echo(f"{len(steps)} statements are right")
        return
    store = {"store": f"embedded:{data_dir}"}
    if bucket:
        given = {"logTable": log_table, "catalogTable": catalog_table, "bucket": bucket, "prefix": prefix}
        store = {"store": "aws", **{name: value for name, value in {**given, "region": region}.items() if value}}
    servers = None if bucket else bootstrap_servers
    _run(steps, store, servers, data_dir, once, output, checkpoints or str(data_dir / "sql"), trigger)


def _read(path: Path) -> str:
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{path} is no UTF-8 text") from None


def _run(
    steps: Sequence[Any],
    store: Mapping[str, str],
    servers: str | None,
    data_dir: Path,
    once: bool,
    output: str,
    checkpoints: str,
    trigger: str,
) -> None:
    """Run what has been checked, on a Spark that is started for it."""
    if servers is not None:
        client_configs(servers, data_dir)  # says so where there is no such service
    _prepare_spark()
    from odradek.spark.jobs.arguments import StoreArguments
    from odradek.spark.jobs.run import make_session, stopping_signals
    from odradek.sql.on_spark import SparkEngine
    from odradek.sql.session import Session
    from odradek.sql.topics import OpenTopics

    sink = {**store, **({"bootstrapServers": servers} if servers is not None else {})}
    if "://" not in checkpoints:
        checkpoints = str(Path(checkpoints).absolute())
    with stopping_signals() as stop, OpenTopics(store, servers) as topics:
        spark = make_session(StoreArguments(JOB_NAME="odradek-sql", shuffle_partitions=2), "odradek-sql")
        try:
            engine = SparkEngine(spark, store=store, sink=sink, checkpoints=checkpoints, stop=stop, trigger=trigger)
            Session(engine, topics, TextScreen(output), once=once).run(steps)
        finally:
            spark.stop()


def _prepare_spark() -> None:
    """The environment that the JVM and the workers start in."""
    from odradek.spark.local import local_environment, warm_workers

    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "Spark needs Java 17: there is no java on the PATH and no JAVA_HOME")
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "odradek")
    environment = local_environment(folder, os.environ)
    warm_workers(environment)
    os.environ.update(environment)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


class TextScreen:
    """Results on standard output, what has happened on standard error."""

    def __init__(self, output: str) -> None:
        self._as_json = output == "json"
        self._headed: tuple[str, ...] | None = None

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        if self._as_json:
            self.rows(columns, rows)
            return
        shown = Table(*columns, title=title or None, title_justify="left", box=None)
        for row in rows:
            shown.add_row(*(_cell(each) for each in row))
        show(shown)

    def rows(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        if not self._as_json and self._headed != tuple(columns):
            self._headed = tuple(columns)
            print("\t".join(columns))
        for row in rows:
            if self._as_json:
                print(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False))
            else:
                print("\t".join(_cell(each) for each in row))
        sys.stdout.flush()

    def say(self, text: str) -> None:
        # EXPLAIN's text is a result; a sentence is not.
        print(text, file=sys.stdout if "\n" in text else sys.stderr, flush=True)


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value.replace("\t", " ").replace("\n", " ")
    return json.dumps(value, ensure_ascii=False)

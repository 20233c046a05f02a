"""`odradek sql-server`: ksqlDB's REST API over stream SQL. docs/SQL.md describes it."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server
from odradek.cli.pipeline.sql_here import (
    Bucket,
    CatalogTable,
    LogTable,
    Opened,
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

DEFAULT_SQL_PORT = 8088
_SERVICE_ID = re.compile(r"[A-Za-z0-9._-]{1,80}")


def sql_server(
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; one that others can reach needs --users.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port to listen on; 0 takes a free one.")] = DEFAULT_SQL_PORT,
    service_id: Annotated[
        str, typer.Option("--service-id", help="Name of this server; each server of an Odradek has its own.")
    ] = "default_",
    users: Annotated[
        Path | None,
        typer.Option("--users", help="File with a line user=password each: who may use it, by basic authentication."),
    ] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option("--tls-certificate", help="PEM file with the certificate: https.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", help="PEM file with the certificate's key.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Property of all requests that set no other: auto.offset.reset=earliest"),
    ] = None,
    functions: Annotated[
        list[str] | None,
        typer.Option("--functions", help="Module or file of functions in Python, for all statements; may be repeated."),
    ] = None,
    push_queries: Annotated[int, typer.Option("--push-queries", help="Most push queries at a time.", min=1)] = 50,
    pull_queries: Annotated[int, typer.Option("--pull-queries", help="Most pull queries at a time.", min=1)] = 4,
    checkpoints: Annotated[
        str | None, typer.Option("--checkpoints", help="Folder or s3:// URL of the queries' positions and state.")
    ] = None,
    trigger: Annotated[
        str, typer.Option("--trigger", help="How often a query looks for records.")
    ] = "500 milliseconds",
    bootstrap_servers: Server = DEFAULT_SERVER,
    data_dir: DataDir = DEFAULT_DATA_DIR,
    log_table: LogTable = "",
    catalog_table: CatalogTable = "",
    bucket: Bucket = "",
    prefix: Prefix = "",
    region: Region = "",
    schema_registry: SchemaRegistry = "",
) -> None:
    """Serve ksqlDB's REST API over stream SQL.

    Statements are kept in a topic, and their queries go on after a restart.

    Example: [bold]odradek sql-server[/bold], then [bold]odradek sql --server http://127.0.0.1:8088[/bold]
    """
    with extra("sql-server"):
        import hypercorn  # noqa: F401  (what is missing is named before anything else)
        import lark  # noqa: F401
        import starlette  # noqa: F401
    checked_trigger(trigger)
    if not _SERVICE_ID.fullmatch(service_id):
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"invalid --service-id {service_id!r}: use letters, digits, . _ -")
    if users is None and not _is_loopback(host):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"others can reach {host}: give --users FILE, or listen on 127.0.0.1"
        )
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    from odradek.sql.planning.own_functions import load_functions

    for each in functions or []:
        load_functions(each)
    store = store_options(data_dir, log_table, catalog_table, bucket, prefix, region)
    servers = None if bucket else bootstrap_servers
    where = checkpoints or str(data_dir / "sql-server" / service_id)
    place = SqlPlace(store, servers, data_dir, where, trigger, schema_registry)
    from odradek.sql.server.serving import Listening

    listening = Listening(host, port, str(tls_certificate or ""), str(tls_key or ""), push_queries, pull_queries)
    with open_engine(place) as opened:
        asyncio.run(serve_opened(opened, place, listening, service_id, users, parse_settings(settings or [])))


def parse_settings(given: list[str]) -> dict[str, str]:
    """Return properties by name. Raises KafkaError(INVALID_CONFIG)."""
    found = {}
    for each in given:
        name, mark, value = each.partition("=")
        if not mark:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"--set must be like auto.offset.reset=earliest, not {each!r}")
        found[name.strip()] = value.strip()
    return found


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def serve_opened(
    opened: Opened,
    place: SqlPlace,
    listening: Any,
    service_id: str,
    users: Path | None,
    settings: Mapping[str, str],
    ready: Any = None,
) -> None:
    """Serve until a stop is requested.

    Args:
        ready: called with the URL when the server listens; None prints it.
    """
    from importlib.metadata import version

    from odradek.connect.errors import ConfigError
    from odradek.connect.rest.access import Users
    from odradek.spark.admin import client_configs, open_admin
    from odradek.sql.server.app import ServerInfo
    from odradek.sql.server.command_log import TopicCommandLog
    from odradek.sql.server.errors import RestError
    from odradek.sql.server.service import SqlService
    from odradek.sql.server.serving import serve_sql
    from odradek.system import SystemClock

    try:
        known = None if users is None else Users(str(users))
    except ConfigError:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"--users: {users} cannot be read") from None
    with open_admin(place.store, place.servers) as admin:
        cluster_id = admin.describe_cluster().cluster_id
    log = TopicCommandLog(service_id, client_configs(place.store, place.servers))
    schemas = schemas_of(place.schema_registry) if place.schema_registry else None
    service = SqlService(opened.engine, opened.topics, log, schemas=schemas)
    try:
        service.set_defaults(settings)
    except RestError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"--set: {error.message}") from None
    await asyncio.to_thread(service.open)
    info = ServerInfo(version("odradek"), str(cluster_id), service_id, "", SystemClock().now_ms(), known)
    try:
        async with serve_sql(service, info, listening) as url:
            if ready is None:
                queries = len(service.defined.planner.queries)
                typer.echo(f"ksqlDB's REST API on {url}, with {queries} persistent queries")
            else:
                ready(url)
            await asyncio.to_thread(opened.stop.wait)
    finally:
        await asyncio.to_thread(service.close)

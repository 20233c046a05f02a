"""`odradek sql-server`: ksqlDB's REST API over stream SQL. docs/SQL.md describes it."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from odradek.cli.connection import DEFAULT_DATA_DIR, DEFAULT_SERVER, DataDir, Server, client_configs, pairs
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
from odradek.http.listening import is_loopback

if TYPE_CHECKING:
    from odradek.connect.settings import WorkerSettings

DEFAULT_SQL_PORT = 8088
_LOOK_S = 0.5
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
    connect_group: Annotated[
        str, typer.Option("--connect-group", help="The Connect cluster of CREATE CONNECTOR and its like (group.id).")
    ] = "connect",
    connect_worker: Annotated[
        bool, typer.Option("--connect-worker", help="Run a worker of that cluster in this process, too.")
    ] = False,
    connect_config: Annotated[
        list[str] | None,
        typer.Option(
            "--connect-config", help="That worker's configuration, name=value, as value.converter; repeat it."
        ),
    ] = None,
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
        import lark  # noqa: F401  (what is missing is named before anything else)
        import starlette  # noqa: F401

        import odradek.http.asgi  # noqa: F401
    checked_trigger(trigger)
    if not _SERVICE_ID.fullmatch(service_id):
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"invalid --service-id {service_id!r}: use letters, digits, . _ -")
    if users is None and not is_loopback(host):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"others can reach {host}: give --users FILE, or listen on 127.0.0.1"
        )
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    from odradek.sql.planning.own_functions import load_functions

    for source in functions or []:
        load_functions(source)
    store = store_options(data_dir, log_table, catalog_table, bucket, prefix, region)
    servers = None if bucket else bootstrap_servers
    where = checkpoints or str(data_dir / "sql-server" / service_id)
    sql_place = SqlPlace(store, servers, data_dir, where, trigger, schema_registry)
    from odradek.connect.errors import ConfigError
    from odradek.connect.rest.access import Users
    from odradek.sql.server.serving import Listening

    try:
        user_list = None if users is None else Users(str(users))
    except ConfigError:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"--users: {users} cannot be read") from None
    listening = Listening(
        host, port, str(tls_certificate or ""), str(tls_key or ""), push_queries, pull_queries, users=user_list
    )
    connect = connect_here(
        sql_place,
        bootstrap_servers,
        connect_group,
        pairs(connect_config, "--connect-config"),
        has_worker=connect_worker,
    )
    with open_engine(sql_place) as opened:
        properties = pairs(settings, "--set")
        asyncio.run(serve_opened(opened, sql_place, listening, service_id, properties, connect=connect))


@dataclass(frozen=True, slots=True)
class ConnectHere:
    """The Connect cluster of a server's statements."""

    settings: WorkerSettings
    has_worker: bool  # the server runs one


def connect_here(
    sql_place: SqlPlace, bootstrap_servers: str, group: str, configs: Mapping[str, str], *, has_worker: bool
) -> ConnectHere | None:
    """Return the Connect cluster; None for a server that works on the tables alone: connectors need the functions.

    Raises KafkaError(INVALID_CONFIG).
    """
    if sql_place.servers is None and bootstrap_servers == DEFAULT_SERVER:
        if has_worker:
            raise KafkaError(ErrorCode.INVALID_CONFIG, "--connect-worker needs --bootstrap-servers: connectors call it")
        return None
    from odradek.connect.errors import ConfigError
    from odradek.connect.settings import WorkerSettings

    client = client_configs(bootstrap_servers, sql_place.data_dir)
    try:
        settings = WorkerSettings.of({**configs, "group.id": group, "listeners": ""}, client, os.environ)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"--connect-group, --connect-config: {error}") from None
    return ConnectHere(settings, has_worker)


async def serve_opened(
    opened: Opened,
    sql_place: SqlPlace,
    listening: Any,
    service_id: str,
    settings: Mapping[str, str],
    ready: Any = None,
    connect: ConnectHere | None = None,
) -> None:
    """Serve until a stop is requested.

    Args:
        connect: the Connect cluster of CREATE CONNECTOR and its like.
        ready: called with the URL when the server listens; None prints it.
    """
    from importlib.metadata import version

    from odradek.spark.admin import client_configs as configs_of
    from odradek.spark.admin import open_admin
    from odradek.sql.server.app import ServerInfo
    from odradek.sql.server.command_log import TopicCommandLog
    from odradek.sql.server.errors import RestError
    from odradek.sql.server.service import SqlService
    from odradek.sql.server.serving import serve_sql
    from odradek.system import SystemClock

    with open_admin(sql_place.store, sql_place.servers) as admin:
        cluster_id = admin.describe_cluster().cluster_id
    log = TopicCommandLog(service_id, configs_of(sql_place.store, sql_place.servers))
    schemas = schemas_of(sql_place.schema_registry) if sql_place.schema_registry else None
    connectors = None
    if connect is not None:
        from odradek.connect.runtime.cluster import Cluster
        from odradek.sql.server.connectors import Connectors

        connectors = Connectors(partial(Cluster, connect.settings), connect.settings.group_id)
    service = SqlService(opened.engine, opened.topics, log, schemas=schemas, connectors=connectors)
    try:
        service.set_defaults(settings)
    except RestError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"--set: {error.message}") from None
    await asyncio.to_thread(service.open)
    info = ServerInfo(version("odradek"), str(cluster_id), service_id, "", SystemClock().now_ms())
    try:
        async with AsyncExitStack() as stack:
            check = await stack.enter_async_context(_worker(connect))
            url = await stack.enter_async_context(serve_sql(service, info, listening))
            if ready is None:
                queries = len(service.defined.planner.queries)
                typer.echo(f"ksqlDB's REST API on {url}, with {queries} persistent queries")
            else:
                ready(url)
            while not await asyncio.to_thread(opened.stop.wait, _LOOK_S):
                check()
    finally:
        await asyncio.to_thread(service.close)


@asynccontextmanager
async def _worker(connect: ConnectHere | None) -> AsyncIterator[Callable[[], None]]:
    """Run a Connect worker if one is wanted; yield a function that raises the error that ended it."""
    if connect is None or not connect.has_worker:
        yield lambda: None
        return
    from odradek.connect.runtime.worker import Worker

    worker = await asyncio.to_thread(lambda: Worker(connect.settings).start())
    try:
        yield worker.check
    finally:
        await asyncio.to_thread(worker.stop)

"""What the commands of stream SQL share: where the records are, and an engine on a Spark that is started for them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from odradek.cli.connection import client_configs
from odradek.cli.pipeline.spark_here import prepare_spark
from odradek.cli.screen import waiting
from odradek.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    import threading

    from odradek.sql.on_spark import SparkEngine
    from odradek.sql.topics import OpenTopics

_INTERVAL = re.compile(r"(interval )?( *\d+(\.\d+)? *(millisecond|second|minute|hour|day)s? *)+", re.IGNORECASE)

LogTable = Annotated[str, typer.Option(envvar="ODRADEK_LOG_TABLE", help="On AWS: the log table.")]
CatalogTable = Annotated[str, typer.Option(envvar="ODRADEK_CATALOG_TABLE", help="On AWS: the catalog.")]
Bucket = Annotated[str, typer.Option(envvar="ODRADEK_BUCKET", help="On AWS: the bucket.")]
Prefix = Annotated[str, typer.Option(help="On AWS: prefix of the objects.")]
Region = Annotated[str, typer.Option(help="On AWS: the region.")]
SchemaRegistry = Annotated[
    str, typer.Option(envvar="ODRADEK_SCHEMA_REGISTRY", help="URL of the registry of AVRO, PROTOBUF and JSON_SR.")
]


@dataclass(frozen=True, slots=True)
class SqlPlace:
    """Where queries read and write, and keep their positions."""

    store: Mapping[str, str]  # options of the source
    servers: str | None  # None: the store on AWS directly
    data_dir: Path
    checkpoints: str
    trigger: str
    schema_registry: str


@dataclass(frozen=True, slots=True)
class Opened:
    """An engine that runs."""

    engine: SparkEngine
    topics: OpenTopics
    stop: threading.Event  # set by SIGTERM and SIGINT


def store_options(
    data_dir: Path, log_table: str, catalog_table: str, bucket: str, prefix: str, region: str
) -> dict[str, str]:
    """Return the source's options for the embedded store of a folder or, with a bucket, the one on AWS."""
    if not bucket:
        return {"store": f"embedded:{data_dir}"}
    store_settings = {
        "logTable": log_table,
        "catalogTable": catalog_table,
        "bucket": bucket,
        "prefix": prefix,
        "region": region,
    }
    return {"store": "aws", **{name: value for name, value in store_settings.items() if value}}


def checked_trigger(trigger: str) -> None:
    """Raise KafkaError(INVALID_CONFIG) for what Spark does not take as an interval."""
    if not _INTERVAL.fullmatch(trigger):
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"--trigger must be like '500 milliseconds' or '1 minute', not {trigger!r}"
        )


def schemas_of(url: str) -> Any:
    """Return a function that reads columns from a registry."""
    from odradek.sql.running.registered import RegistryAddress, columns_of

    return partial(columns_of, RegistryAddress.of(url).open())


@contextmanager
def open_engine(sql_place: SqlPlace, *, progress: bool = False, then: str = "") -> Iterator[Opened]:
    """Start Spark and open an engine; end both with the block.

    Args:
        then: what follows, for whoever waits.
        progress: print a line of JSON for each micro-batch to standard error.

    Raises:
        KafkaError: there is no Java, or no such service.
    """
    if sql_place.servers is not None:
        client_configs(sql_place.servers, sql_place.data_dir)  # raises if there is no such service
    prepare_spark()
    from odradek.spark.jobs.arguments import StoreArguments
    from odradek.spark.jobs.run import make_session, stopping_signals
    from odradek.sql.on_spark import SparkEngine
    from odradek.sql.running.registered import RegistryAddress
    from odradek.sql.topics import OpenTopics

    sink = {**sql_place.store, **({"bootstrapServers": sql_place.servers} if sql_place.servers is not None else {})}
    checkpoints = sql_place.checkpoints
    if "://" not in checkpoints:
        checkpoints = str(Path(checkpoints).absolute())
    with stopping_signals() as stop, OpenTopics(sql_place.store, sql_place.servers) as topics:
        with waiting("starting Spark", then or "statements run now"):
            spark = make_session(StoreArguments(JOB_NAME="odradek-sql", shuffle_partitions=2), "odradek-sql")
        if progress:
            from odradek.spark.jobs.listener import ProgressLines

            spark.streams.addListener(ProgressLines(sys.stderr))
        try:
            registry = RegistryAddress.of(sql_place.schema_registry) if sql_place.schema_registry else None
            engine = SparkEngine(
                spark, store=sql_place.store, sink=sink, checkpoints=checkpoints, stop=stop, trigger=sql_place.trigger,
                registry=registry,
            )  # fmt: skip
            yield Opened(engine, topics, stop)
        finally:
            spark.stop()

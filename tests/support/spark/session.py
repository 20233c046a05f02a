"""A small local Spark for tests, one a test process, and a live embedded log for it to read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import pytest
from odradek.adapters.embedded import EmbeddedStore, open_embedded
from odradek.adapters.iceberg import embedded_catalog
from odradek.adapters.iceberg.catalog import embedded_properties, parse_properties
from odradek.client.background_loop import BackgroundLoop
from odradek.engine.engine import Engine
from odradek.errors import ErrorCode
from odradek.format.record_batch import RecordBatchBuilder
from odradek.model.log import ProducePartition
from odradek.model.record import CompressionType, Header
from odradek.settings import Settings
from odradek.spark.local import local_environment, warm_workers
from odradek.system import SystemClock, SystemRng

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")


def spark_environment() -> dict[str, str]:
    """Of a driver that lives for a minute or two: its JVM compiles little, which on two cores is what it waits for."""
    environment = local_environment(Path(tempfile.gettempdir(), "odradek-tests-spark"), os.environ)
    options = "--driver-java-options '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC' "
    environment["PYSPARK_SUBMIT_ARGS"] = options + environment["PYSPARK_SUBMIT_ARGS"]
    return warm_workers(environment)


def make_session() -> SparkSession:
    environment = spark_environment()
    os.environ.update(environment)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    import odradek.spark
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.appName("odradek-tests")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.default.parallelism", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")  # as the jobs' own session
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    odradek.spark.register(session)
    return session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = make_session()
    yield session
    session.stop()


Row = tuple[bytes | None, bytes | None]


class LiveLog:
    """An embedded store with its one writer open, as while the service runs."""

    def __init__(self, data_dir: Path, **settings: Any) -> None:
        self.data_dir = data_dir
        self._loop = BackgroundLoop("live-log")
        self._settings = Settings(**settings)
        self._store: EmbeddedStore = self._run(self._open())

    @property
    def options(self) -> dict[str, str]:
        """Options that name this store."""
        return {"store": f"embedded:{self.data_dir}"}

    @property
    def catalog(self) -> dict[str, str]:
        """Properties with which PyIceberg opens the catalog of its Iceberg tables."""
        text = self._settings.table_catalog
        return parse_properties(text) if text else embedded_properties(self.data_dir)

    async def _open(self) -> EmbeddedStore:
        store = open_embedded(self.data_dir, synchronous="NORMAL")
        self.engine = Engine(
            tables=store,
            objects=store.objects,
            clock=SystemClock(),
            rng=SystemRng(),
            settings=self._settings,
        ).keep_tables(embedded_catalog(self._settings.table_catalog, self.data_dir))
        return store

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.call(work)

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        self._run(self.engine.topics.create(topic, partitions, configs))

    def grow(self, topic: str, partitions: int) -> None:
        self._run(self.engine.topics.create_partitions(topic, partitions))

    def delete(self, topic: str) -> None:
        self._run(self.engine.topics.delete(topic))

    def produce(
        self,
        topic: str,
        partition: int,
        rows: Sequence[Row],
        *,
        timestamp_ms: int = 1_700_000_000_000,
        headers: Sequence[Header] = (),
        compression: CompressionType = CompressionType.NONE,
    ) -> int:
        """Append one batch, a millisecond between records; its base offset."""
        builder = RecordBatchBuilder(compression)
        for i, (key, value) in enumerate(rows):
            builder.append(timestamp_ms + i, key, value, tuple(headers))
        batch = builder.build()
        [result] = self._run(self.engine.produce([ProducePartition(topic, partition, batch)]))
        assert result.error is ErrorCode.NONE, result
        return result.base_offset

    def close(self) -> None:
        self._run(self._store.aclose())
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

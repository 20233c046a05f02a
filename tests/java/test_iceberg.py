"""Spark reads the Iceberg tables of topics with Iceberg's own runtime: every row is that of a Kafka consumer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from odradek.model.log import DeleteRecordsPartition

from bench.peers.maven import SPARK_ICEBERG, NoJars, maven_jars
from tests.integration.query.test_iceberg import SMALL, TABLE, consumed, covered, fill, iceberg, maintained
from tests.support.spark.session import LiveLog, spark_environment

pytestmark = pytest.mark.java

_READ = """
import pickle, sys
from pyspark.sql import SparkSession
jars, warehouse, catalog, out = sys.argv[1:5]
spark = (SparkSession.builder.appName("iceberg").master("local[2]")
    .config("spark.jars", jars).config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.catalog.odradek", "org.apache.iceberg.spark.SparkCatalog")
    .config("spark.sql.catalog.odradek.type", "jdbc")
    .config("spark.sql.catalog.odradek.uri", "jdbc:sqlite:" + catalog)
    .config("spark.sql.catalog.odradek.jdbc.schema-version", "V1")
    .config("spark.sql.catalog.odradek.warehouse", warehouse)
    .getOrCreate())
table = spark.table("odradek.odradek.flights")
rows = [
    (r.partition, r.offset, r.ms, None if r.key is None else bytes(r.key), None if r.value is None else bytes(r.value),
     tuple((h.key, None if h.value is None else bytes(h.value)) for h in r.headers))
    for r in table.selectExpr("*", "unix_millis(timestamp) AS ms").collect()
]
counts = {
    "delay": table.where("delay >= 690 AND delay < 720").count(),
    "late": table.where("timestamp >= timestamp'2023-11-14 22:13:20.900'").count(),
    "early": table.where("timestamp < timestamp'1970-01-01'").count(),
    "offset": table.where("partition = 1 AND offset BETWEEN 100 AND 130").count(),
    "snapshots": spark.table("odradek.odradek.flights.snapshots").count(),
}
try:
    spark.sql("DROP TABLE odradek.odradek.flights PURGE")
    counts["purge"] = "dropped"
except Exception as error:
    counts["purge"] = str(error)[:200]
pickle.dump((rows, counts), open(out, "wb"))
"""


@pytest.fixture(autouse=True, scope="session")
def java_clients() -> None:
    """Needs none of the clients' programs."""


def test_every_row_is_that_of_a_consumer(tmp_path: Path) -> None:
    import pickle

    try:
        jars = ",".join(str(jar) for jar in maven_jars(SPARK_ICEBERG))
    except NoJars as reason:
        pytest.skip(f"Iceberg's runtime for Spark is not here: {reason}")
    with LiveLog(tmp_path / "store", **SMALL) as log:
        log.create("flights", 2, **TABLE)
        fill(log, 0, 1000)
        maintained(log)
        first = int(sorted(Path(log.data_dir).glob("objects/topics/*/0/*.parquet"))[1].name[:20])
        log._run(log.engine.delete_records([DeleteRecordsPartition("flights", 0, first)]))
        alter = log.engine.topics.alter_configs
        log._run(alter("flights", set={"odradek.table.schema": "origin string, delay bigint, note string"}))
        fill(log, 1000, 1600)
        maintained(log)
        folder, out = Path(log.data_dir, "iceberg").absolute(), tmp_path / "rows"
        program = tmp_path / "read.py"
        program.write_text(_READ)
        environment = {**os.environ, **spark_environment(), "PYSPARK_PYTHON": sys.executable}
        command = [sys.executable, str(program), jars, f"file://{folder}", str(folder / "catalog.db"), str(out)]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
        assert run.returncode == 0, run.stderr[-3000:]
        rows, counts = pickle.loads(out.read_bytes())
        expected = consumed(log, covered(iceberg(log)))
        assert sorted(rows, key=lambda row: row[:2]) == expected
        assert counts["late"] == sum(row[2] >= 1_700_000_000_900 for row in expected) > 0
        assert counts["early"] == sum(row[2] < 0 for row in expected) > 0
        assert counts["offset"] == sum(row[0] == 1 and 100 <= row[1] <= 130 for row in expected) > 0
        assert counts["delay"] == iceberg(log).scan(row_filter="delay >= 690 AND delay < 720").count() > 0
        assert "GC is disabled" in counts["purge"], "no engine deletes the log's files"
        assert iceberg(log).scan().count() == len(expected)

"""export_table: exports JSON, Avro or Protobuf values of a topic to Parquet files or an Iceberg table, exactly once.

    Parquet   python -m odradek.glue_jobs.export_table.job --store embedded:.odradek --bootstrap-servers URL --once \\
                  --checkpoint-location DIR --input-topic flights --output DIR
    Iceberg   the same with --table demo.flights: a table in the catalog of --output (SQLite locally, Glue on AWS)

Without --value-schema the columns follow the JSON of the values, and grow with it (--evolve none fixes them). With
--format avro or protobuf, and --registry URL, values are Avro records or Protobuf messages in Confluent's wire format
(registry_values.py). A record that is invalid, or does not fit a column, goes to --dead-letter-topic unchanged, with
headers that name the reason; without such a topic to <output>/dead_letters/ as Parquet. Each of the outputs contains
each record once: target.py.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from odradek.errors import ErrorCode, KafkaError
from odradek.glue_jobs.export_table.registry_values import (
    OBJECTS,
    ORIGINAL,
    RegistryAddress,
    address_of,
    values_as_json,
)
from odradek.glue_jobs.export_table.schema import grown
from odradek.glue_jobs.export_table.target import IcebergTarget, ParquetTarget, Target
from odradek.glue_jobs.export_table.transform import seen_schema, split_records
from odradek.spark.exactly_once import write_once
from odradek.spark.jobs.arguments import StreamArguments
from odradek.spark.jobs.run import Stop, run_job
from odradek.spark.jobs.streams import query_id, run_streams
from odradek.spark.jobs.values import PLACED, dead_letters, read_schema
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "export_table"
_OBJECTS = {"json": "JSON object", **OBJECTS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments(StreamArguments):
    """See the module."""

    input_topic: str  # topic to read
    output: str  # folder or bucket; for an Iceberg table, the warehouse
    table: str = ""  # <namespace>.<name>: Iceberg; empty: Parquet
    catalog: str = ""  # glue or sql; empty: sql for an embedded store, else glue
    format: str = "json"  # or avro, protobuf
    registry: str = ""  # for Avro and Protobuf: the URL of a schema registry
    registry_user: str = ""  # user of the registry; empty: no login
    registry_password: str = ""  # of that user
    value_schema: str = ""  # as DDL; empty: derived from the values
    evolve: str = "add"  # or none
    partition_by: tuple[str, ...] = ()  # fields; Parquet only

    def target(self) -> Target:
        """Return the destination. Raises KafkaError(INVALID_CONFIG)."""
        if not self.table:
            return ParquetTarget(self.output, self.partition_by)
        if self.partition_by:
            raise _refused("--partition-by applies to Parquet: partition an Iceberg table with its catalog's tools")
        catalog = self.catalog or ("sql" if self.store else "glue")
        return IcebergTarget(self.output, self.table, catalog=catalog, region=self.region)


def run(spark: SparkSession, arguments: Arguments, stop: Stop) -> dict[str, Any]:
    """Export existing records, or all until a stop; return a summary with the number of dead letters of this run."""
    if arguments.format not in _OBJECTS:
        raise _refused(f"--format must be json, avro or protobuf, not {arguments.format!r}")
    registry: RegistryAddress | None = None
    if arguments.format in OBJECTS:
        registry = address_of(
            arguments.format, arguments.registry, arguments.registry_user, arguments.registry_password
        )
    if arguments.evolve not in {"add", "none"}:
        raise _refused(f"--evolve must be add or none, not {arguments.evolve!r}")
    if arguments.evolve == "none" and not arguments.value_schema:
        raise _refused("--evolve none needs --value-schema")
    declared = read_schema(arguments.value_schema) if arguments.value_schema else StructType([])
    target = arguments.target()
    dead = _Dead()

    def write(records: DataFrame, batch_id: int) -> None:
        records = (records if registry is None else values_as_json(records, registry)).persist()
        try:
            if records.isEmpty():
                return
            schema = grown(target.schema() or declared, declared)
            if arguments.evolve == "add":
                schema = grown(schema, seen_schema(records))
            rows, bad = split_records(records, schema)
            target.add(rows, schema, query_id(records), batch_id)
            if registry is not None:
                bad = bad.withColumn("value", F.col(ORIGINAL)).drop(ORIGINAL)
            _bury(bad, batch_id, arguments, dead)
        finally:
            records.unpersist()

    done = run_streams(
        spark,
        arguments,
        stop,
        name=NAME,
        sources=[arguments.stream(arguments.input_topic, PLACED)],
        build=lambda records: records,
        write_batch=write,
    )
    return {**done, "dead_letters": dead.records}


@dataclass(slots=True)
class _Dead:
    records: int = 0


def _bury(bad: DataFrame, batch_id: int, arguments: Arguments, dead: _Dead) -> None:
    count = bad.count()
    dead.records += count
    if not count:
        return
    if arguments.dead_letter_topic:
        reason = f"the value is not {_OBJECTS[arguments.format]} of the table's schema"
        letters = dead_letters(bad, arguments.dead_letter_topic, reason)
        write_once(letters, batch_id, arguments.sink(), name="dead_letters")
        return
    folder = f"{arguments.output.rstrip('/')}/dead_letters/query_id={query_id(bad)}/batch_id={batch_id}"
    bad.write.mode("overwrite").parquet(folder)


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and print its summary as one JSON line; after an error print one line and return 1."""
    return run_job(NAME, Arguments, run, argv, description=(__doc__ or "").splitlines()[0])


if __name__ == "__main__":
    sys.exit(main())

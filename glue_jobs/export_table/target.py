"""The destinations of rows: Parquet files, or an Iceberg table. A micro-batch is added once, however often it runs.

Parquet     <output>/data/query_id=<checkpoint>/batch_id=<n>/...   replaced when the micro-batch runs again.
            A reader may see a micro-batch's files one by one. <output>/_schema.json is the newest schema.

Iceberg     Spark writes the files of each attempt into a separate folder; then one commit of the table adds them, new
            columns, and the property odradek.batch.<query id> = n. A micro-batch whose number is not above the property
            has been added already. Iceberg refuses a commit that is not based on the newest version of the table, so
            of two drivers of one query only one adds a micro-batch, and a driver that does not know whether its commit
            was applied finds out by reading the table again. Files of failed attempts belong to no snapshot; Iceberg's
            removal of orphan files deletes them.

The job uses PyIceberg rather than Iceberg's Spark runtime, because the latter is a jar that needs a separate download;
PyIceberg is a Python package with both a Glue catalog and one in SQLite.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from odradek.errors import ErrorCode, KafkaError
from odradek.glue_jobs.export_table.transform import with_place, without_place
from odradek.spark.jobs.files import list_files, read_text, write_text
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PROPERTY = "odradek.batch."
_RETRIES = "commit.retry.num-retries"
_ATTEMPTS = 8


class Target(Protocol):
    """A table whose schema may grow."""

    def schema(self) -> StructType | None:
        """Return the schema of the values; None before there is a table."""

    def add(self, rows: DataFrame, schema: StructType, query_id: str, batch_id: int) -> None:
        """Add the rows of a micro-batch, unless they were added before. The schema is that of the values."""


class ParquetTarget:
    """Files in a folder or a bucket."""

    def __init__(self, output: str, partition_by: Sequence[str] = ()) -> None:
        self._output = output.rstrip("/")
        self._partition_by = list(partition_by)

    def schema(self) -> StructType | None:
        try:
            return StructType.fromJson(json.loads(read_text(f"{self._output}/_schema.json")))
        except FileNotFoundError:
            return None

    def add(self, rows: DataFrame, schema: StructType, query_id: str, batch_id: int) -> None:
        write_text(f"{self._output}/_schema.json", schema.json())
        folder = f"{self._output}/data/query_id={query_id}/batch_id={batch_id}"
        rows.write.mode("overwrite").partitionBy(*self._partition_by).parquet(folder)


class IcebergTarget:
    """A table of a catalog: `glue`, or `sql` for a catalog in SQLite beside the tables."""

    def __init__(self, warehouse: str, identifier: str, *, catalog: str, region: str = "") -> None:
        """Prepare the catalog. Raises KafkaError(INVALID_CONFIG)."""
        if identifier.count(".") != 1 or not all(identifier.split(".")):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"--table must be <namespace>.<name>, not {identifier!r}")
        self._warehouse = warehouse.rstrip("/")
        self._identifier = identifier
        self._catalog = open_catalog(self._warehouse, catalog, region)

    def schema(self) -> StructType | None:
        table = self._load()
        return None if table is None else without_place(_spark_schema(table))

    def add(self, rows: DataFrame, schema: StructType, query_id: str, batch_id: int) -> None:
        from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

        table = self._load()
        if table is None:
            table = self._create(with_place(schema))
        if _is_added(table, query_id, batch_id):
            return
        folder = f"{table.location().rstrip('/')}/data/{query_id}/{batch_id}-{uuid.uuid4().hex}"
        rows.write.mode("errorifexists").parquet(folder)
        files = list_files(folder, ".parquet")
        for attempt in range(1, _ATTEMPTS + 1):
            if _is_added(table, query_id, batch_id):
                return
            try:
                # In memory only. PyIceberg's retries would add the files on top of any newer version, even one with
                # the same micro-batch by another driver: here the property is checked again before each attempt.
                table.metadata.properties[_RETRIES] = "0"
                with table.transaction() as transaction:
                    with transaction.update_schema() as update:
                        update.union_by_name(_arrow_schema(with_place(schema)))
                    transaction.set_properties({f"{_PROPERTY}{query_id}": str(batch_id)})
                    transaction.add_files(files, check_duplicate_files=False)
                return
            except (CommitFailedException, CommitStateUnknownException):
                if attempt == _ATTEMPTS:
                    raise
                table.refresh()

    def _load(self) -> Any:
        from pyiceberg.exceptions import NoSuchTableError

        try:
            return self._catalog.load_table(self._identifier)
        except NoSuchTableError:
            return None

    def _create(self, schema: StructType) -> Any:
        namespace = self._identifier.split(".")[0]
        self._catalog.create_namespace_if_not_exists(namespace)
        return self._catalog.create_table_if_not_exists(self._identifier, _arrow_schema(schema))


def open_catalog(warehouse: str, catalog_type: str, region: str = "") -> Any:
    """Open a PyIceberg catalog. Raises KafkaError(INVALID_CONFIG)."""
    try:
        from pyiceberg.catalog import load_catalog
    except ImportError:
        raise KafkaError(ErrorCode.INVALID_CONFIG, "Iceberg needs PyIceberg: pip install 'odradek[tables]'") from None
    if catalog_type == "glue":
        properties = {"type": "glue", "warehouse": warehouse}
        return load_catalog("odradek", **properties, **({"client.region": region} if region else {}))
    if catalog_type != "sql":
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"--catalog must be glue or sql, not {catalog_type!r}")
    if "://" in warehouse and not warehouse.startswith("file://"):
        raise KafkaError(ErrorCode.INVALID_CONFIG, "--catalog sql needs a folder for its tables: set --output to one")
    folder = Path(warehouse.removeprefix("file://")).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return load_catalog("odradek", type="sql", uri=f"sqlite:///{folder / 'catalog.db'}", warehouse=folder.as_uri())


def _is_added(table: Any, query_id: str, batch_id: int) -> bool:
    return int(table.properties.get(f"{_PROPERTY}{query_id}", -1)) >= batch_id


def _arrow_schema(schema: StructType) -> Any:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema)


def _spark_schema(table: Any) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(table.schema().as_arrow())

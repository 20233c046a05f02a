"""Tables of an Iceberg catalog, by PyIceberg: blocking, and its errors as the port's.

Files are added as they lie: PyIceberg's `add_files` refuses those with a column that the table does not have, so the
entries of a snapshot are made here, from the statistics in the footers (metrics.py). A commit is based on the
snapshot that was loaded; PyIceberg would put it on top of a newer one, which its retries are switched off for.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from odradek.adapters.iceberg import columns as table_columns
from odradek.adapters.iceberg.columns import NAME_MAPPING
from odradek.adapters.iceberg.metrics import metrics_of
from odradek.errors import (
    ConditionFailed,
    ErrorCode,
    KafkaError,
    OdradekError,
    OutcomeUnknown,
    StoreUnavailable,
)
from odradek.extras import extra
from odradek.model.kinds import Kind, can_become, joined
from odradek.ports.table_catalog import LoadedTable, TableChange, TableName

with extra("iceberg"):
    import pyarrow.parquet as pq
    from pyiceberg import exceptions as refused
    from pyiceberg.catalog import TYPE, URI, Catalog, load_catalog
    from pyiceberg.io import load_file_io
    from pyiceberg.io.pyarrow import parquet_path_to_id_mapping
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.refs import SnapshotRefType
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update.snapshot import ExpireSnapshots, ManageSnapshots
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.typedef import Record
    from pyiceberg.utils.config import Config

    from odradek.adapters.iceberg.rest import LimitedRestCatalog

_log = logging.getLogger("odradek.maintenance")

TOPIC_ID = "odradek.topic.id"
_GLUE_ATTEMPTS = "glue.max-retries"
_GLUE_ATTEMPTS_MAX = 3  # of up to a minute each: PyIceberg's ten take longer than a function may run
_RETRIES = "commit.retry.num-retries"
_PARTITION = PartitionSpec(PartitionField(table_columns.PARTITION_ID, 1000, IdentityTransform(), "partition"))
_PROPERTIES = {
    "format-version": "2",
    # The files are the log's: no engine's clean-up may delete them.
    "gc.enabled": "false",
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
    # The files have no statistics of these.
    **{
        f"write.metadata.metrics.column.{name}": "none"
        for name in ("timestampType", "key", "value", "headers.element.key", "headers.element.value")
    },
}
_NOT_ALLOWED = (
    refused.UnauthorizedError,
    refused.ForbiddenError,
    refused.OAuthError,
    refused.AuthorizationExpiredError,
)


@dataclass(frozen=True, slots=True)
class _Handle:
    """A loaded table, its metadata's location then, and its data files by key."""

    table: Table
    location: str
    files: Mapping[str, DataFile]


@dataclass(frozen=True, slots=True)
class _Footer:
    """The end of a Parquet file: metadata, size, and its typed columns."""

    path: str
    metadata: pq.FileMetaData
    size_bytes: int
    typed: Mapping[str, Kind]


class IcebergTables:
    """The tables of a catalog whose data files are objects under one location."""

    def __init__(self, catalog: Catalog, location: str) -> None:
        self._catalog = catalog
        self._prefix = f"{location.rstrip('/')}/"
        # Of the log's own objects. Credentials that a catalog hands out with a table are for the table's location.
        self._objects = load_file_io(catalog.properties, self._prefix)

    @classmethod
    def open(cls, name: str, properties: Mapping[str, str], location: str) -> IcebergTables:
        """Open a catalog. Raises StoreUnavailable; MissingExtra."""
        with translated("the Iceberg catalog cannot be opened"):
            uri = urlsplit(properties.get("uri", ""))
            if uri.scheme == "sqlite":
                Path(uri.path[1:]).parent.mkdir(parents=True, exist_ok=True)
            return cls(_opened(name, properties), location)

    def load(self, name: TableName) -> LoadedTable | None:
        """See ports.table_catalog."""
        with translated(f"the Iceberg table {name} cannot be loaded"):
            try:
                table = self._catalog.load_table((name.namespace, name.table))
            except (refused.NoSuchTableError, refused.NoSuchNamespaceError):
                return None
            location = table.metadata_location
            files = {self._key(task.file.file_path): task.file for task in table.scan().plan_files()}
            snapshot = table.current_snapshot()
            summary = {} if snapshot is None or snapshot.summary is None else snapshot.summary.additional_properties
        return LoadedTable(
            name, _topic_id(table.properties), frozenset(files), dict(summary), _Handle(table, location, files)
        )

    def create(self, name: TableName, topic_id: UUID, columns: Sequence[tuple[str, Kind]]) -> None:
        """See ports.table_catalog."""
        with translated(f"the Iceberg table {name} cannot be created", writing=True):
            self._catalog.create_namespace_if_not_exists(name.namespace)
            try:
                self._catalog.create_table(
                    (name.namespace, name.table),
                    table_columns.first_schema(columns),
                    partition_spec=_PARTITION,
                    properties={**_PROPERTIES, TOPIC_ID: str(topic_id)},
                )
            except refused.TableAlreadyExistsError:
                return  # another maintainer was faster; or it is another table, which whoever loads it sees

    def commit(self, loaded: LoadedTable, change: TableChange) -> Sequence[str]:
        """See ports.table_catalog."""
        handle: _Handle = loaded.handle
        table = handle.table
        if table.metadata_location != handle.location:
            raise ConditionFailed(None)  # PyIceberg has moved it on, with a commit of before
        with translated(f"files of the Iceberg table {loaded.name} cannot be read"):
            footers = [self._footer(key) for key in change.add]
        table.metadata.properties[_RETRIES] = "0"
        with translated(f"the Iceberg table {loaded.name} cannot be changed"):
            transaction = table.transaction()
            table_columns.evolve(table, transaction, _wanted(change.columns or (), footers, table))
            types = table_columns.kinds_in(transaction.table_metadata.schema())
            why = {footer.path: _misfit(footer, types) for footer in footers}
            fitting = [footer for footer in footers if not why[footer.path]]
            mapping = table_columns.mapping_of(transaction.table_metadata.schema())
            if transaction.table_metadata.properties.get(NAME_MAPPING) != mapping:
                transaction.set_properties({NAME_MAPPING: mapping})
            self._snapshot(transaction, [_data_file(transaction, footer) for footer in fitting], handle, change)
        with translated(f"the Iceberg table {loaded.name} cannot be changed", writing=True):
            transaction.commit_transaction()
        return [f"{self._key(path)}: {reason}" for path, reason in why.items() if reason]

    @staticmethod
    def _snapshot(transaction: Transaction, add: Sequence[DataFile], handle: _Handle, change: TableChange) -> None:
        update = transaction.update_snapshot(snapshot_properties=dict(change.summary))
        with update.overwrite() if change.remove else update.merge_append() as snapshot:
            for data_file in add:
                snapshot.append_data_file(data_file)
            for key in change.remove:
                snapshot.delete_data_file(handle.files[key])

    def expire(self, name: TableName, before_ms: int | None) -> int:
        """See ports.table_catalog."""
        with translated(f"snapshots of the Iceberg table {name} cannot be expired", writing=True):
            try:
                table = self._catalog.load_table((name.namespace, name.table))
            except (refused.NoSuchTableError, refused.NoSuchNamespaceError):
                return 0
            table.metadata.properties[_RETRIES] = "0"
            current = table.current_snapshot()
            old = [
                snapshot
                for snapshot in table.snapshots()
                if snapshot is not current
                and (current is None or snapshot.snapshot_id != current.snapshot_id)
                and (before_ms is None or snapshot.timestamp_ms < before_ms)
            ]
            if not old:
                return 0
            kept = [snapshot for snapshot in table.snapshots() if snapshot not in old]
            garbage = _metadata_files(table, old) - _metadata_files(table, kept)
            expired_ids = {snapshot.snapshot_id for snapshot in old}
            with table.transaction() as transaction:
                refs = ManageSnapshots(transaction)
                for ref, at in table.metadata.refs.items():
                    if (
                        at.snapshot_id in expired_ids
                    ):  # of a tag or another branch: the records are gone from the topic, too
                        is_tag = at.snapshot_ref_type is SnapshotRefType.TAG
                        refs = refs.remove_tag(ref) if is_tag else refs.remove_branch(ref)
                refs.commit()
                ExpireSnapshots(transaction).by_ids(sorted(expired_ids)).commit()
            for path in sorted(garbage):
                _delete_quietly(table, path)
        return len(old)

    def drop(self, name: TableName) -> None:
        """See ports.table_catalog."""
        with translated(f"the Iceberg table {name} cannot be dropped", writing=True):
            try:
                table = self._catalog.load_table((name.namespace, name.table))
                garbage = _metadata_files(table, table.snapshots())
                garbage |= {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
                self._catalog.drop_table((name.namespace, name.table))
            except (refused.NoSuchTableError, refused.NoSuchNamespaceError):
                return
            for path in sorted(garbage):
                _delete_quietly(table, path)

    def _footer(self, key: str) -> _Footer:
        path = self._prefix + key
        source = self._objects.new_input(path)
        with source.open() as stream:
            metadata = pq.read_metadata(stream)
        return _Footer(path, metadata, len(source), table_columns.typed_columns(metadata.schema.to_arrow_schema()))

    def _key(self, path: str) -> str:
        return path.removeprefix(self._prefix)


@contextmanager
def translated(operation: str, *, writing: bool = False) -> Iterator[None]:
    """Turn the errors of PyIceberg, its catalogs and file systems into those of the port.

    Args:
        writing: an error that says nothing else leaves the outcome open.
    """
    try:
        yield
    except OdradekError:
        raise
    except refused.CommitFailedException as error:
        raise ConditionFailed(None) from error
    except _NOT_ALLOWED as error:
        raise StoreUnavailable(f"{operation}: the catalog does not allow it: {error}") from error
    except (refused.BadRequestError, refused.ValidationError, refused.NotInstalledError) as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"{operation}: {error}") from error
    except refused.NoSuchTableError as error:
        raise ConditionFailed(None) from error  # dropped meanwhile
    except Exception as error:  # catalogs and file systems raise those of their libraries
        error_type = OutcomeUnknown if writing else StoreUnavailable
        raise error_type(f"{operation}: {type(error).__name__}: {error}") from error


def _opened(name: str, properties: Mapping[str, str]) -> Catalog:
    """Open a catalog by these properties and PyIceberg's configuration; its calls end within some time."""
    catalog_properties: dict[str, Any] = {**(Config().get_catalog_config(name) or {}), **properties}
    if catalog_properties.get(TYPE) == "rest" or (
        TYPE not in catalog_properties and str(catalog_properties.get(URI, "")).startswith("http")
    ):
        return LimitedRestCatalog(name, **catalog_properties)
    catalog_properties[_GLUE_ATTEMPTS] = int(
        catalog_properties.get(_GLUE_ATTEMPTS, _GLUE_ATTEMPTS_MAX)
    )  # as boto3 takes it
    return load_catalog(name, **catalog_properties)


def _wanted(columns: Sequence[tuple[str, Kind]], footers: Iterable[_Footer], table: Table) -> dict[str, Kind]:
    """Return the typed columns of the configuration and those of the files, as wide as all of them need.

    A file whose column cannot be one of the table has no say: it does not fit.
    """
    table_kinds = table_columns.kinds_in(table.schema())
    names = {field.name for field in table.schema().fields}
    wanted = dict(columns)
    for footer in footers:
        for name, column_kind in footer.typed.items():
            earlier = wanted.get(name) or table_kinds.get(name)
            both = column_kind if earlier is None and name not in names else earlier and joined(earlier, column_kind)
            if both:
                wanted[name] = both
    return wanted


def _misfit(footer: _Footer, types: Mapping[str, Kind]) -> str:
    """Return why a file cannot be in the table; empty if it can."""
    wrong = [
        f"{name} is {column_kind}, not {types.get(name)}"
        for name, column_kind in footer.typed.items()
        if name not in types or not can_become(column_kind, types[name])
    ]
    return ", ".join(wrong)


def _data_file(transaction: Transaction, footer: _Footer) -> DataFile:
    """Return the entry of a file, with the metrics that its footer gives."""
    metadata = transaction.table_metadata
    schema = metadata.schema()
    types = {field.name: field.field_type for field in schema.fields}
    partition = footer.metadata.row_group(0).column(footer.metadata.schema.names.index("partition")).statistics.min_raw
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=footer.path,
        file_format=FileFormat.PARQUET,
        partition=Record(partition),
        file_size_in_bytes=footer.size_bytes,
        sort_order_id=None,
        spec_id=metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **metrics_of(footer.metadata, parquet_path_to_id_mapping(schema), types)._asdict(),
    )


def _metadata_files(table: Table, snapshots: Iterable[Snapshot]) -> set[str]:
    """Return the manifest lists and manifests of snapshots."""
    files: set[str] = set()
    for snapshot in snapshots:
        files.add(snapshot.manifest_list)
        files |= {manifest.manifest_path for manifest in snapshot.manifests(table.io)}
    return files


def _delete_quietly(table: Table, path: str) -> None:
    """Delete a file of metadata that nothing refers to; one that cannot be deleted costs some kilobytes."""
    try:
        table.io.delete(path)
    except Exception:  # of any file system
        _log.info("the metadata file %s could not be deleted", path, exc_info=True)


def _topic_id(properties: Mapping[str, str]) -> UUID | None:
    try:
        return UUID(properties[TOPIC_ID])
    except (KeyError, ValueError):
        return None

"""Commits to an Iceberg table that carry the offsets of their records.

The summary of each snapshot that a connector commits has, as one property, the offsets behind everything that the
connector has written to the table: {"topic:partition": offset}. A commit is based on the snapshot whose offsets were
read, and is refused by the catalog if there is a newer one; then the table is loaded again, and the offsets decide. So
a task that was replaced, and a commit whose outcome is unknown, repeat nothing.

    load -> offsets of the newest snapshot that has some -> commit {..., "orders:0": 1200} -> load -> ...

Other writers' snapshots lie in between: the search goes back by parents. If all of a connector's snapshots were
expired, the offsets of its consumer group count, which may be older than the last commit of a task that died.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from odradek.connect.errors import ConnectError, DataError, RetriableError
from odradek.extras import extra
from odradek.model.topic_partition import TopicPartition

with extra("connect-iceberg"):
    import pyarrow as pa
    from pyiceberg import exceptions as refused
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.upsert_util import create_match_filter
    from pyiceberg.transforms import parse_transform

_PROPERTY = "odradek.connect.offsets."
_RETRIES = "commit.retry.num-retries"
_BUSY = (
    refused.CommitFailedException,
    refused.CommitStateUnknownException,
    refused.ServerError,
    refused.ServiceUnavailableError,
    refused.TooManyRequestsError,
    refused.WaitingForLockException,
    refused.ValidationException,  # another writer has changed the rows that this commit replaces
    OSError,
)
Offsets = dict[TopicPartition, int]


@contextmanager
def translated(failure: str) -> Iterator[None]:
    """Turn PyIceberg's errors into RetriableError, DataError or ConnectError."""
    try:
        yield
    except ConnectError:
        raise
    except _BUSY as error:
        raise RetriableError(f"{failure}: {error}") from error
    except (pa.ArrowException, TypeError) as error:
        raise DataError(f"{failure}: {error}") from error
    except Exception as error:  # catalogs raise those of their libraries
        raise ConnectError(f"{failure}: {error}") from error


class TableWriter:
    """A table, and the offsets that this connector has committed to it.

    Args:
        connector: its name: several connectors may write the same table.
    """

    def __init__(self, catalog: Catalog, identifier: str, connector: str) -> None:
        self._catalog, self.identifier = catalog, identifier
        self._property = _PROPERTY + connector
        self._table: Table | None = None
        self.offsets: Offsets = {}

    @property
    def schema(self) -> pa.Schema:
        """The table's schema, in Arrow."""
        assert self._table is not None
        return self._table.schema().as_arrow()

    def load(self) -> bool:
        """Read the table and its offsets, and return whether it exists. Raises ConnectError."""
        with translated(f"the table {self.identifier} cannot be loaded"):
            try:
                self._table = self._catalog.load_table(self.identifier)
            except (refused.NoSuchTableError, refused.NoSuchNamespaceError):
                return False
        self.offsets = self._stored(self._table)
        return True

    def create(self, schema: pa.Schema, partition_by: Sequence[str], properties: Mapping[str, str]) -> None:
        """Create the table, and its namespace, unless they exist; and load it. Raises ConnectError."""
        namespace = self.identifier.rpartition(".")[0]
        with translated(f"the table {self.identifier} cannot be created"):
            if namespace:
                self._catalog.create_namespace_if_not_exists(namespace)
            try:
                with self._catalog.create_table_transaction(
                    self.identifier, schema, properties=dict(properties)
                ) as making:
                    if partition_by:
                        with making.update_spec() as spec:
                            for partition_text in partition_by:
                                spec.add_field(*_partition_field(partition_text))
            except refused.TableAlreadyExistsError:
                pass  # another task was faster
        self.load()

    def _stored(self, table: Table) -> Offsets:
        snapshot = table.current_snapshot()
        while snapshot is not None:
            stored_offsets = snapshot.summary[self._property] if snapshot.summary is not None else None
            if stored_offsets:
                pairs = ((*key.rpartition(":")[::2], offset) for key, offset in json.loads(stored_offsets).items())
                return {TopicPartition(topic, int(number)): int(offset) for topic, number, offset in pairs}
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else table.snapshot_by_id(parent)
        return {}

    def evolve(self, schema: pa.Schema) -> None:
        """Add the columns that the table lacks, at all levels. Raises RetriableError, ConnectError."""
        assert self._table is not None
        with translated(f"the schema of {self.identifier} cannot be changed"):
            with self._table.update_schema() as update:
                update.union_by_name(schema)
            self._table.refresh()

    def commit(self, behind: Offsets, rows: pa.Table, deleted: pa.Table | None = None) -> None:
        """Append rows, and with `deleted` first delete those with its values, in one commit with the offsets.

        Args:
            behind: the offsets behind the records, by partition.
            deleted: keys, with the columns that are the key.

        Raises:
            RetriableError: nothing was written, or it is unknown: load again, and compare the offsets.
            ConnectError: anything else.
        """
        table = self._table
        assert table is not None
        summary = {self._property: _text({**self.offsets, **behind})}
        # PyIceberg would put the commit on top of a newer snapshot, whose offsets it does not know.
        table.metadata.properties[_RETRIES] = "0"
        with translated(f"the records cannot be committed to {self.identifier}"):
            transaction = table.transaction()
            if deleted is None or table.current_snapshot() is None:
                transaction.append(rows, snapshot_properties=summary)
            else:
                matching = create_match_filter(deleted, deleted.column_names)
                transaction.overwrite(rows, matching, snapshot_properties=summary)
            transaction.commit_transaction()
        self.load()

    def set_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Commit a snapshot without changes, with other offsets; None forgets one. Raises as `commit`."""
        changed = {tp: offset for tp, offset in {**self.offsets, **offsets}.items() if offset is not None}
        self.offsets = {}
        self.commit(changed, self.schema.empty_table())


def _text(offsets: Offsets) -> str:
    return json.dumps({f"{tp.topic}:{tp.partition}": offset for tp, offset in sorted(offsets.items())})


def _partition_field(text: str) -> tuple[str, Any, str]:
    """Return column, transform and name of `day(at)` or `country`. Raises ConnectError."""
    transform, opened, column = text.strip().rstrip(")").partition("(")
    if not opened:
        return transform, parse_transform("identity"), transform
    name, comma, argument = column.partition(",")
    try:
        made = parse_transform(f"{transform.strip()}[{argument.strip()}]" if comma else transform.strip())
    except ValueError as error:
        raise ConnectError(f"invalid partition {text!r}: use a column, or day(column), hour(column) ...") from error
    return name.strip(), made, f"{name.strip()}_{transform.strip()}"

"""Iceberg tables that follow the rows of the log table (docs/decisions/0042).

    follow     1. state    the item says which table the topic has, before there is one
               2. load     the table's current snapshot: its files
               3. rows     of all partitions: the files that it must have
               4. commit   the difference and the covered offsets, on condition that the snapshot is still current
               5. note     the epochs of the leases, so that plans see when there is work again

    release    before objects are deleted whose rows are gone:
               1. load, 2. commit without these files, or without any change, 3. expire all older snapshots

Why a crash or another maintainer does no harm. A commit is decided on rows that were read after its snapshot was
loaded, and is refused if there is a newer snapshot. So whoever comes late, or does not know whether its commit was
applied, loads again and finds nothing left to do: no file is added twice. `release` always commits: from then on
every commit that was decided on rows of before is refused, and every later one has read rows without these files. So
what is deleted after it no snapshot has, or ever will.

A catalog that does not answer delays the table and the deletion of files, never the log.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from odradek.engine.catalog.topic_configs import TopicConfig
from odradek.engine.iceberg.decisions import (
    OFFSETS,
    covered_by,
    covered_without,
    decode_covered,
    encode_covered,
    files_of,
    newest,
    settled,
    table_name,
)
from odradek.engine.iceberg.state import TableState, TableStates
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.partition.index_row import IndexRow
from odradek.engine.partition.maintenance_lease import MaintenanceLeases
from odradek.engine.tools import Tools
from odradek.errors import (
    ConditionFailed,
    ErrorCode,
    FormatError,
    KafkaError,
    OutcomeUnknown,
    StoreError,
    StoreUnavailable,
)
from odradek.format.object_keys import topic_prefix
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId
from odradek.ports.table_catalog import LoadedTable, TableCatalog, TableChange, TableName

_log = logging.getLogger("odradek.maintenance")

_ATTEMPTS = 6
_ROWS_PER_QUERY = 256
_REASONS_TOLD = 3
_SNAPSHOT_AGE_MS = 5 * 86_400_000  # Iceberg's default of history.expire.max-snapshot-age-ms


@dataclass(frozen=True, slots=True)
class _Rows:
    """The data files of a topic, and the epochs of the leases before its rows were read (of those at rest)."""

    files: dict[str, tuple[int, int]]
    epochs: dict[int, int]


class TableFollower:
    """Keeps Iceberg tables up to the rows of their topics.

    Args:
        catalog: None: this process has none. It then deletes no file that a table may have.
    """

    def __init__(
        self, tools: Tools, index: PartitionIndex, leases: MaintenanceLeases, catalog: TableCatalog | None
    ) -> None:
        self._index = index
        self._leases = leases
        self._clock = tools.clock
        self._settings = tools.settings
        self._catalog = catalog
        self._backoff = tools.backoff(first_s=0.05, max_s=1.6)
        self.states = TableStates(tools.tables.catalog)

    # --- plan -----------------------------------------------------------------------------------------------------

    async def due(self, topics: Sequence[Topic]) -> list[Topic]:
        """Return those whose table has work, by reads alone. Raises StoreUnavailable, FormatError."""
        if self._catalog is None:
            return []
        states = {state.topic_id: state for state in await self.states.all()}
        found = []
        for topic in topics:
            name = table_name(topic, TopicConfig.of(topic, self._settings))
            state = states.get(topic.topic_id)
            known = None if state is None else state.name
            if name is None and known is None:
                continue
            if state is None or name != known or not settled(state.epochs, await self._epochs(topic, resting=False)):
                found.append(topic)
        return found

    async def _epochs(self, topic: Topic, *, resting: bool) -> dict[int, int]:
        """Return the epochs of the leases; with `resting` of those that nobody holds and that were left clean.

        Whoever changes rows of a partition at rest takes its lease first, which raises the epoch.
        """
        partitions = [PartitionId(topic.topic_id, number) for number in range(topic.partition_count)]
        looks = await self._leases.look(partitions)
        return {
            number: look.epoch
            for number, look in enumerate(looks)
            if not resting or (not look.is_held and look.is_clean)
        }

    # --- follow ---------------------------------------------------------------------------------------------------

    async def follow(self, topic: Topic, done: Counter[str]) -> None:
        """Bring the topic's Iceberg table up to its rows; create or drop it, as the configuration says.

        Raises StoreError, FormatError, KafkaError: the table stays as it is, and its state says why.
        """
        if self._catalog is None:
            return
        state = await self.states.read(topic.topic_id)
        if topic.version < state.topic_version:
            return  # another maintainer knows a newer configuration
        try:
            await self._follow(self._catalog, topic, state, done)
        except (StoreError, FormatError, KafkaError) as error:
            done["tables_behind"] += 1
            await self.states.behind(state, f"{type(error).__name__}: {error}", self._clock.now_ms())
            raise

    async def _follow(self, catalog: TableCatalog, topic: Topic, state: TableState, done: Counter[str]) -> None:
        config = TopicConfig.of(topic, self._settings)
        name = table_name(topic, config)
        if state.name is not None and state.name != name:
            await self._drop(catalog, topic.topic_id, state.name, done)
        if state.name != name:
            await self.states.name(topic.topic_id, name, topic.version)
        if name is None:
            return None
        last: StoreError | None = None
        for attempt in range(_ATTEMPTS):
            try:
                loaded = await catalog.load(name)
                if loaded is None:
                    if not await self._exists(topic):
                        return None
                    await catalog.create(name, topic.topic_id, config.table_columns)
                    done["tables_created"] += 1
                    loaded = await catalog.load(name)
                if loaded is not None:
                    self._check_ours(loaded, topic.topic_id)
                    return await self._bring_up(catalog, topic, config, loaded, done)
            except (ConditionFailed, OutcomeUnknown) as error:
                last = error  # a newer snapshot, or ours: the files tell
            await self._backoff.pause(attempt)
        raise _given_up(name, last)

    async def _bring_up(
        self, catalog: TableCatalog, topic: Topic, config: TopicConfig, loaded: LoadedTable, done: Counter[str]
    ) -> None:
        rows = await self._rows(topic)
        ours = {key for key in loaded.files if key.startswith(topic_prefix(PartitionId(topic.topic_id, 0)))}
        add, remove = sorted(rows.files.keys() - ours), sorted(ours - rows.files.keys())
        refused: Sequence[str] = ()
        if add or remove:
            summary = {OFFSETS: encode_covered(covered_by(rows.files))}
            change = TableChange(config.table_columns, add, remove, summary)
            refused = await catalog.commit(loaded, change)
            done["table_files_added"] += len(add) - len(refused)
            done["table_files_removed"] += len(remove)
            try:
                await catalog.expire(loaded.name, before_ms=self._clock.now_ms() - _SNAPSHOT_AGE_MS)
            except (ConditionFailed, OutcomeUnknown):
                pass  # the next commit's
        await self.states.followed(topic.topic_id, rows.epochs)
        if refused:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"{len(refused)} files do not fit the Iceberg table {loaded.name}: {newest(refused, _REASONS_TOLD)}",
            )

    async def _rows(self, topic: Topic) -> _Rows:
        epochs = await self._epochs(topic, resting=True)
        files: dict[str, tuple[int, int]] = {}
        partitions = [PartitionId(topic.topic_id, number) for number in range(topic.partition_count)]
        heads = await self._index.read_heads(partitions)
        for partition, head in zip(partitions, heads, strict=True):
            if head is not None:
                segments = await self._segments(partition)
                files |= files_of(partition, [row for row in segments if row.end_offset > head.log_start_offset])
        return _Rows(files, epochs)

    async def _segments(self, partition: PartitionId) -> list[IndexRow]:
        """Return the rows of segments, which come before those of spilled entries; late ghosts lie between them."""
        found: list[IndexRow] = []
        at = 0
        while rows := await self._index.rows_from(partition, at, _ROWS_PER_QUERY):
            found += [row for row in rows if row.is_segment]
            if not any(row.is_segment for row in rows):
                break
            at = rows[-1].end_offset
        return found

    async def _exists(self, topic: Topic) -> bool:
        head = await self._index.read_head(PartitionId(topic.topic_id, 0))
        return head is not None

    @staticmethod
    def _check_ours(loaded: LoadedTable, topic_id: UUID) -> None:
        if loaded.topic_id != topic_id:
            whose = "was not made by Odradek" if loaded.topic_id is None else f"is of the topic {loaded.topic_id}"
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"the catalog has a table {loaded.name} already, which {whose}: drop it there, or give the topic "
                "another name with odradek.table.iceberg.namespace or odradek.table.iceberg.table",
            )

    # --- release --------------------------------------------------------------------------------------------------

    async def release(
        self, partition: PartitionId, keys: Sequence[str], done: Counter[str], *, are_replaced: bool = False
    ) -> bool:
        """Let the topic's table go of data files whose rows are gone; return False if they must stay for now.

        Call it after the swap that removed their rows was confirmed, and before the objects are deleted.

        Args:
            keys: of any objects; what is no data file needs no release.
            are_replaced: the partition's rows have other files for their records, which come into the table with it.
        """
        files = [key for key in keys if key.endswith(".parquet")]
        if not files:
            return True
        try:
            state = await self.states.read(partition.topic_id)
            if state.name is None:
                return True
            await self._release(state.name, partition, files, done, are_replaced=are_replaced)
        except (StoreError, FormatError, KafkaError) as error:
            done["table_files_waiting"] += len(files)
            _log.warning(
                "%s: %d files that retention or compaction removed stay until the Iceberg table has let go of them: %s",
                partition,
                len(files),
                error,
            )
            return False
        return True

    async def _release(
        self, name: TableName, partition: PartitionId, files: Sequence[str], done: Counter[str], *, are_replaced: bool
    ) -> None:
        catalog = self._catalog
        if catalog is None:
            raise StoreUnavailable(f"this process has no catalog for the Iceberg table {name}: set table_catalog")
        last: StoreError | None = None
        for attempt in range(_ATTEMPTS):
            loaded = await catalog.load(name)
            if loaded is None or loaded.topic_id != partition.topic_id:
                return
            remove = [key for key in files if key in loaded.files]
            covered = covered_without(
                decode_covered(loaded.summary.get(OFFSETS)), remove, loaded.files.difference(remove)
            )
            add: list[str] = []
            if remove and are_replaced:
                rows = files_of(partition, await self._segments(partition))
                add = sorted(rows.keys() - loaded.files)
                covered |= covered_by({key: rows[key] for key in rows if key in loaded.files or key in add})
            try:
                summary = {OFFSETS: encode_covered(dict(sorted(covered.items())))}
                await catalog.commit(loaded, TableChange(None, add, remove, summary))
                await catalog.expire(name, before_ms=None)
            except (ConditionFailed, OutcomeUnknown) as error:
                last = error
                await self._backoff.pause(attempt)
                continue
            done["table_files_removed"] += len(remove)
            done["table_files_added"] += len(add)
            return
        raise _given_up(name, last)

    # --- drop -----------------------------------------------------------------------------------------------------

    async def drop(self, topic_id: UUID, done: Counter[str]) -> None:
        """Drop the table of a deleted topic, after its rows and before its objects.

        Raises StoreUnavailable, OutcomeUnknown: its objects must stay.
        """
        state = await self.states.read(topic_id)
        if state == TableState(topic_id):
            return
        if state.name is not None:
            if self._catalog is None:
                raise StoreUnavailable(
                    f"the Iceberg table {state.name} of the deleted topic must be dropped before its files, and this "
                    "process has no catalog: set table_catalog"
                )
            await self._drop(self._catalog, topic_id, state.name, done)
        await self.states.forget(topic_id)

    async def _drop(self, catalog: TableCatalog, topic_id: UUID, name: TableName, done: Counter[str]) -> None:
        loaded = await catalog.load(name)
        if loaded is not None and loaded.topic_id == topic_id:
            await catalog.drop(name)
            done["tables_dropped"] += 1


def _given_up(name: TableName, last: StoreError | None) -> StoreUnavailable:
    """Return the failure of the last attempt: a newer snapshot of others, or a commit whose outcome is not known."""
    if isinstance(last, OutcomeUnknown):
        return StoreUnavailable(str(last))
    return StoreUnavailable(f"the Iceberg table {name} is changed by others all the time")

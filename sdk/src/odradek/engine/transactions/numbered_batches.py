"""Numbered batches: uploads of many processes are appended to many partitions atomically, once for each number.

    executors   upload         validate and store; nothing becomes visible
    driver      commit         entries into all heads, and the number into the writer's row, in one transaction

A writer numbers its batches and repeats the last one after a failure, possibly in another process: the sink of a
streaming query does so, by query id and batch id. The row has the last committed number, so a repetition appends
nothing, even if it has uploaded again; the sweep removes its uploads. Sequences of producers are not used.

A batch with more partitions than one transaction allows is committed in groups. Each group has a transaction of its
own, which adds the group to the row. The group of a partition depends only on the partition, not on the batch:

    {b: 6}  ──group──>  {b: 6, p: 7, g: [group]}  ──group──>  {b: 6, p: 7, g: [group, group]}  ──last──>  {b: 7}

So the repetition of a partly committed batch, by any process and with any uploads, commits only the missing groups,
and no group is appended twice. Between the first group and the last, a reader may see a part of the batch. Every write
of the row requires that the row is as it was read, and no state of the row recurs: a delayed write is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from odradek.engine.append.refusals import not_uploaded
from odradek.engine.append.upload import Uploads
from odradek.engine.partition.fields import attribute, check_version
from odradek.engine.partition.index import PartitionIndex
from odradek.engine.tools import Tools
from odradek.engine.transactions.commit import AtomicCommit, CommitWork, Failed
from odradek.engine.transactions.items import VERSION, PendingBatches, batch_key
from odradek.engine.transactions.store import unavailable
from odradek.errors import ErrorCode, KafkaError, StoreError, StoreUnavailable
from odradek.format.tail_entry import TailEntry
from odradek.limits import (
    NUMBERED_GROUP_PARTITIONS,
    TRANSACTION_BATCHES_PER_PARTITION_MAX,
    TRANSACTION_PLACES_MAX,
)
from odradek.model.log import ProducePartition
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Absent, Compare, Condition, Item, Put, Value, all_of
from odradek.ports.tables import TableOperation

_KEY_BYTES_MAX = 900  # a sort key has at most 1,024 bytes

Batches = Mapping[PartitionId, Sequence[TailEntry]]


@dataclass(frozen=True, slots=True)
class WriterRow:
    """The progress of a writer."""

    batch_id: int = -1  # committed whole, the last one
    partial_id: int = -1  # committed in some groups, -1 none
    groups: tuple[str, ...] = ()  # these


@dataclass(frozen=True, slots=True)
class Step:
    """One transaction towards a committed batch: its entries, and the row after it."""

    batches: Batches
    row: WriterRow


def decide_step(row: WriterRow, batch_id: int, batches: Batches) -> Step | None:
    """Return the next step; None if the batch, or a later one, has been committed."""
    if row.batch_id >= batch_id or row.partial_id > batch_id:
        return None
    done = WriterRow(batch_id)
    if row.partial_id != batch_id and len(batches) <= TRANSACTION_PLACES_MAX:
        return Step(batches, done)
    committed = row.groups if row.partial_id == batch_id else ()
    left: dict[str, dict[PartitionId, Sequence[TailEntry]]] = {}
    for partition, entries in batches.items():
        group = f"{partition.topic_id}/{partition.partition // NUMBERED_GROUP_PARTITIONS}"
        if group not in committed:
            left.setdefault(group, {})[partition] = entries
    if not left:
        return Step({}, done)
    group = min(left)
    if len(left) == 1:
        return Step(left[group], done)
    return Step(left[group], WriterRow(row.batch_id, batch_id, (*committed, group)))


def encode_writer(row: WriterRow) -> Item:
    """The row's item, without its key."""
    item: Item = {"v": VERSION, "b": row.batch_id}
    if row.partial_id >= 0:
        groups: list[Value] = list(row.groups)
        item |= {"p": row.partial_id, "g": groups, "k": len(groups)}
    return item


def decode_writer(item: Item | None) -> WriterRow:
    """The row of an item. Raises FormatError."""
    if item is None:
        return WriterRow()
    check_version(item, VERSION, "a writer of numbered batches")
    batch_id = attribute(item, "b", int)
    if "p" not in item:
        return WriterRow(batch_id)
    return WriterRow(batch_id, attribute(item, "p", int), tuple(attribute(item, "g", list)))


def _is_as_read(item: Item | None, row: WriterRow) -> Condition:
    if item is None:
        return Absent(("v",))
    if row.partial_id < 0:
        return all_of(Compare(("b",), "=", row.batch_id), Absent(("p",)))
    # Groups are only ever added, so their number says which they are.
    return all_of(
        Compare(("b",), "=", row.batch_id),
        Compare(("p",), "=", row.partial_id),
        Compare(("k",), "=", len(row.groups)),
    )


class NumberedBatches:
    """Uploads and their atomic commit; holds no state between calls."""

    def __init__(self, tools: Tools, index: PartitionIndex, uploads: Uploads) -> None:
        self._tools = tools
        self._tables = tools.tables
        self._index = index
        self._uploads = uploads
        self._backoff = tools.backoff(first_s=0.02, max_s=1.0)
        self._settings = tools.settings

    async def upload(self, partitions: Sequence[ProducePartition]) -> list[PendingBatches]:
        """Make batches durable for a later `commit` by any process; nothing becomes visible.

        Raises KafkaError: the reason why a partition was refused; NOT_ENOUGH_REPLICAS if the store failed.
        """
        uploads, refused = await self._uploads.validate_all(partitions)
        for result in refused.values():
            raise KafkaError(result.error, result.message or result.error.name)
        for each in uploads:
            if any(entry.producer_id >= 0 for entry in each.entries):
                raise KafkaError(ErrorCode.INVALID_REQUEST, "numbered batches cannot have a producer id")
        try:
            stored = await self._uploads.store(uploads) if uploads else []
        except StoreError as error:
            failure = not_uploaded(error)
            raise KafkaError(failure.code, failure.message) from None
        return [PendingBatches(each.partition, each.entries) for each in stored]

    async def commit_foreign(self, key: str, batch_id: int, uploaded: Sequence[PendingBatches]) -> bool:
        """Commit for another process, after checking that this store has its complete uploads.

        Raises KafkaError as `commit`, INVALID_REQUEST if the store does not have them.
        """
        try:
            if await self.last_committed(key) < batch_id:
                for each in uploaded:
                    for entry in each.entries:
                        await self._uploads.check_stored(entry)
        except StoreUnavailable:
            raise unavailable() from None
        return await self.commit(key, batch_id, uploaded)

    async def last_committed(self, key: str) -> int:
        """Return the number of the writer's last completely committed batch, -1 if there is none.

        Raises StoreUnavailable, FormatError.
        """
        return decode_writer(await self._tables.catalog.get(batch_key(key))).batch_id

    async def commit(
        self,
        key: str,
        batch_id: int,
        uploaded: Sequence[PendingBatches],
        *,
        checks: Sequence[TableOperation] = (),
    ) -> bool:
        """Append uploaded batches of many partitions, once for each batch id of the key.

        In one atomic step for up to TRANSACTION_PLACES_MAX partitions; more of them group by group.

        Args:
            key: of the writer.
            batch_id: at least 0, above those that it committed before.
            uploaded: in the order to append.
            checks: what must hold besides, in the step that commits.

        Returns:
            Whether this call added some of them; False where this batch id, or a later one, had been committed before.

        Raises:
            KafkaError: INVALID_REQUEST; TRANSACTION_ABORTABLE: it cannot be committed, nothing more of it was: upload
                it again; COORDINATOR_NOT_AVAILABLE: it may have been committed, call again.
        """
        if not 0 < len(key.encode()) <= _KEY_BYTES_MAX or batch_id < 0:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"a key must have 1 to {_KEY_BYTES_MAX} bytes, and a batch id cannot be negative",
            )
        batches = _by_partition(uploaded)
        failed: Failed | None = None
        added = False
        unknown: AtomicCommit | None = None  # an attempt whose outcome nobody told
        attempt = 0
        while attempt < self._settings.group_attempts_max:
            attempt += 1
            try:
                item = await self._tables.catalog.get(batch_key(key))
            except StoreUnavailable:
                await self._backoff.pause(attempt - 1)
                continue
            row = decode_writer(item)
            step = decide_step(row, batch_id, batches)
            if step is None:
                if unknown is not None:
                    await unknown.wake()
                return added
            if failed is not None:  # and what stands in its way now stands in the way of its late attempts, too
                raise KafkaError(ErrorCode.TRANSACTION_ABORTABLE, f"batch {batch_id} of {key!r}: {failed.message}")
            deciding = Put(batch_key(key), encode_writer(step.row), _is_as_read(item, row))
            commit = AtomicCommit(self._tools, self._index, CommitWork(step.batches, checks=checks))
            outcome = await commit.attempt(TableOperation("catalog", deciding))
            if outcome == "applied":
                await commit.spill()
                if step.row.batch_id == batch_id:
                    return True
                added, attempt = True, 0
            elif isinstance(outcome, Failed):
                failed = outcome
            else:
                if outcome == "unknown":
                    added, unknown = True, commit
                await self._backoff.pause(attempt - 1)
        raise unavailable()


def _by_partition(uploaded: Sequence[PendingBatches]) -> Batches:
    """Raises KafkaError(TRANSACTION_ABORTABLE): more than one transaction can hold."""
    batches: dict[PartitionId, list[TailEntry]] = {}
    for each in uploaded:
        batches.setdefault(each.partition, []).extend(each.entries)
    most = max(map(len, batches.values()), default=0)
    if most > TRANSACTION_BATCHES_PER_PARTITION_MAX:
        raise KafkaError(
            ErrorCode.TRANSACTION_ABORTABLE,
            f"a numbered batch holds at most {TRANSACTION_BATCHES_PER_PARTITION_MAX} record batches a partition, not "
            f"{most}: write fewer records at once, or from fewer tasks",
        )
    return batches

"""Reading and writing the window of a share-partition: read, decide, conditional write; repeated after a conflict.

Every write is a Put on condition of version and incarnation, with the writer's nonce among the last 16. So no two
functions hand out the same record, and a write with an unknown outcome is recognized when the item is read again. If
sixteen other writes come in between, the outcome stays unknown, and never counts as "not applied".

After a pause the window is read again before anything is decided: an attempt on what was read before the pause would
only be refused, and a busy window would use up all attempts. Changes of one process wait for each other instead, and
are written together (merged_changes.py).

    make    at a member's first fetch: at the group's start (share.auto.offset.reset), in one transaction that checks
            that the member is in the group and the topic is not deleted; so no window is left behind by either
    forget  with the group, with the topic, or by an administrator: together with the row that numbers its dead letters.
            A lot is committed on condition that its window exists, so no lot is written after that, and its row is
            not created again
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar
from uuid import UUID

from odradek.backoff import Backoff
from odradek.engine.groups.configs import BY_DURATION, EARLIEST, ShareConfig, duration_ms
from odradek.engine.groups.items import LISTING_PK, member_key
from odradek.engine.partition.fields import attribute, check_version
from odradek.engine.read.list_offsets import OffsetLister
from odradek.engine.share.items import (
    NONCE_BYTES,
    NONCES_KEPT,
    VERSION,
    ShareItem,
    decode_share,
    encode_share,
    letters_writer,
    share_key,
    share_prefix,
)
from odradek.engine.share.merged_changes import Decide, MergedChanges
from odradek.engine.share.window import SharePartition
from odradek.engine.transactions.items import batch_key
from odradek.errors import (
    ConditionFailed,
    ErrorCode,
    ItemTooLarge,
    KafkaError,
    OutcomeUnknown,
    StoreRejected,
    StoreUnavailable,
    TransactionCanceled,
)
from odradek.format.item_keys import TOPIC_IDS_PK, group_pk, topic_id_sk
from odradek.limits import TABLE_TRANSACTION_ITEMS_MAX
from odradek.model.log import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, ListOffsetsPartition
from odradek.model.topic import Topic
from odradek.model.topic_partition import PartitionId
from odradek.ports.clock import Clock
from odradek.ports.rng import Rng
from odradek.ports.table import Absent, Check, Compare, Condition, Delete, Exists, Key, Put, Row, Table, all_of
from odradek.ports.tables import TableOperation, Tables
from odradek.settings import Settings

A = TypeVar("A")

_busy = partial(
    KafkaError,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    "the share-partition is contended, or the groups table does not answer",
)
_rejected = partial(
    KafkaError, ErrorCode.INVALID_REQUEST, "the store rejects this change of the share-partition permanently"
)
_unknown = partial(
    KafkaError, ErrorCode.REQUEST_TIMED_OUT, "it is unknown whether the share-partition was changed: fetch again"
)


class SharePartitions:
    """Windows in the groups table."""

    def __init__(self, tables: Tables, lister: OffsetLister, clock: Clock, rng: Rng, settings: Settings) -> None:
        self._tables = tables
        self._groups: Table = tables.groups
        self._lister = lister
        self._clock = clock
        self._rng = rng
        self._backoff = Backoff(clock, rng, first_s=0.005, max_s=0.2)
        self._settings = settings
        self._merged = MergedChanges(self._change, _unknown)

    async def read(self, group_id: str, partitions: Sequence[PartitionId]) -> list[ShareItem | None]:
        """Return the stored windows, None for missing ones. Raises StoreUnavailable, FormatError."""
        if not partitions:
            return []
        items = await self._groups.get_many([share_key(group_id, partition) for partition in partitions])
        return [None if item is None else decode_share(item) for item in items]

    async def make(
        self, group_id: str, member_id: str, partition: PartitionId, topic: Topic, config: ShareConfig
    ) -> ShareItem:
        """Create the window of a partition that the group has not read yet, or return one created meanwhile.

        Raises KafkaError: COORDINATOR_NOT_AVAILABLE, SHARE_SESSION_NOT_FOUND, UNKNOWN_TOPIC_ID, and as ListOffsets.
        """
        start = await self._start(topic, partition.partition, config)
        item = ShareItem(SharePartition(start), incarnation=self._rng.random_bytes(NONCE_BYTES), version=1)
        key = share_key(group_id, partition)
        for attempt in range(self._settings.group_attempts_max):
            try:
                await self._tables.transact(
                    [
                        TableOperation("groups", Put(key, encode_share(item), Absent(("v",)))),
                        TableOperation("groups", Check(member_key(group_id, member_id), Exists(("v",)))),
                        TableOperation("catalog", Check(_topic_key(partition.topic_id), Exists(("name",)))),
                    ]
                )
            except TransactionCanceled as error:
                made = await self._read_again(key)
                if made is not None:
                    return made
                if error.failures[1] is not None:
                    raise KafkaError(
                        ErrorCode.SHARE_SESSION_NOT_FOUND, f"member {member_id} has left group {group_id}"
                    ) from None
                if error.failures[2] is not None:
                    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"topic {topic.name} has been deleted") from None
            except (StoreUnavailable, OutcomeUnknown):
                made = await self._read_again(key)
                if made is not None:
                    return made
            except (ItemTooLarge, StoreRejected) as error:
                raise _rejected() from error
            else:
                return item
            await self._backoff.pause(attempt)
        raise _busy()

    async def change(
        self, group_id: str, partition: PartitionId, item: ShareItem, decide: Decide[A]
    ) -> tuple[ShareItem, A]:
        """Decide on a window and write it, again on fresh ones until a write succeeds.

        What this process is asked for while one write is under way goes with the next one, all together.

        Args:
            item: the window as it was read last.

        Raises KafkaError: COORDINATOR_NOT_AVAILABLE (certainly not applied), REQUEST_TIMED_OUT (perhaps applied),
            UNKNOWN_TOPIC_OR_PARTITION if the window has been removed. Raises FormatError.
        """
        state, answer = decide(item.state)
        if state == item.state:
            return item, answer
        return await self._merged.change(share_key(group_id, partition), item, decide)

    async def _change(self, key: Key, item: ShareItem, decide: Decide[A]) -> tuple[ShareItem, A]:
        tried: dict[bytes, tuple[ShareItem, A]] = {}  # by nonce: perhaps applied
        for attempt in range(self._settings.group_attempts_max):
            state, answer = decide(item.state)
            if state == item.state:
                return item, answer
            nonce = self._rng.random_bytes(NONCE_BYTES)
            after = replace(item, state=state, version=item.version + 1, nonces=(*item.nonces, nonce)[-NONCES_KEPT:])
            tried[nonce] = (after, answer)
            is_pausing = True
            current: ShareItem | None = item
            try:
                await self._groups.put(Put(key, encode_share(after), _is_as_read(item)))
            except ConditionFailed as error:
                current = None if error.current is None else decode_share(error.current)
                is_pausing = attempt > 0 and current is not None and _own_write(current, tried) is None
                tried = _undecided(current, tried) if is_pausing and current is not None else tried
            except StoreUnavailable:
                del tried[nonce]
            except OutcomeUnknown:
                pass
            except (ItemTooLarge, StoreRejected) as error:
                del tried[nonce]
                raise (_unknown() if tried else _rejected()) from error
            else:
                return after, answer
            if is_pausing:  # and read what has become of it in between: what was read before would be refused
                await self._backoff.pause(attempt)
                current = await self._read_patiently(key, was_tried=bool(tried))
            found = _own_write(current, tried)
            if found is not None:
                return current or found[0], found[1]
            if current is None or current.incarnation != item.incarnation:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the group or the topic has been deleted")
            tried = _undecided(current, tried)
            item = current
        raise _unknown() if tried else _busy()

    async def _read_again(self, key: Key) -> ShareItem | None:
        try:
            item = await self._groups.get(key)
        except StoreUnavailable:
            return None
        return None if item is None else decode_share(item)

    async def _read_patiently(self, key: Key, *, was_tried: bool) -> ShareItem | None:
        for attempt in range(self._settings.group_attempts_max):
            try:
                item = await self._groups.get(key)
            except StoreUnavailable:
                await self._backoff.pause(attempt)
            else:
                return None if item is None else decode_share(item)
        raise _unknown() if was_tried else _busy()

    async def _start(self, topic: Topic, number: int, config: ShareConfig) -> int:
        """Return the offset at which a group begins. Raises KafkaError."""
        at = EARLIEST_TIMESTAMP if config.offset_reset == EARLIEST else LATEST_TIMESTAMP
        if config.offset_reset.startswith(BY_DURATION):
            at = max(0, self._clock.now_ms() - (duration_ms(config.offset_reset.removeprefix(BY_DURATION)) or 0))
        offset = await self._offset_at(topic, number, at)
        return offset if offset >= 0 else await self._offset_at(topic, number, LATEST_TIMESTAMP)

    async def _offset_at(self, topic: Topic, number: int, timestamp_ms: int) -> int:
        [result] = await self._lister.list_offsets([ListOffsetsPartition(topic.name, number, timestamp_ms)])
        if result.error is not ErrorCode.NONE:
            raise KafkaError(result.error, result.message or result.error.name)
        return result.offset


async def windows_of_topic(groups: Table, group_id: str, topic_id: UUID) -> list[Row]:
    """A group's windows of a topic. Raises StoreUnavailable."""
    prefix = share_prefix(PartitionId(topic_id, 0))
    return await groups.query(group_pk(group_id), sk_from=prefix, sk_to=prefix[:-1] + "$")


async def forget_windows(tables: Tables, rows: Sequence[Row]) -> None:
    """Delete windows as they were read. Raises StoreError (read the rest, and call it again), FormatError."""
    operations: list[TableOperation] = []
    for row in rows:
        check_version(row.item, VERSION, "a share-partition")
        incarnation = attribute(row.item, "i", bytes)
        operations.append(TableOperation("groups", Delete(row.key, Compare(("i",), "=", incarnation))))
        operations.append(TableOperation("catalog", Delete(batch_key(letters_writer(incarnation)))))
    step = TABLE_TRANSACTION_ITEMS_MAX // 2 * 2  # a window and its row go together
    for start in range(0, len(operations), step):
        await tables.transact(operations[start : start + step])


async def forget_topic(tables: Tables, topic_id: UUID) -> int:
    """Delete every group's windows of a topic that has been deleted; how many. Raises as `forget_windows`."""
    count = 0
    for listing in await tables.groups.query(LISTING_PK):
        rows = await windows_of_topic(tables.groups, listing.key.sk, topic_id)
        await forget_windows(tables, rows)
        count += len(rows)
    return count


def _own_write(current: ShareItem | None, tried: dict[bytes, tuple[ShareItem, A]]) -> tuple[ShareItem, A] | None:
    """The attempt that is among the last writes of the item."""
    if current is None:
        return None
    return next((outcome for nonce, outcome in tried.items() if current.has_taken(nonce)), None)


def _undecided(current: ShareItem, tried: dict[bytes, tuple[ShareItem, A]]) -> dict[bytes, tuple[ShareItem, A]]:
    """Attempts that may have been applied so long ago that their nonces are forgotten.

    An attempt makes one version; while that is among the last ones and has another's nonce it was not applied, and can
    no more be: its condition names the version before.
    """
    oldest_known = current.version - len(current.nonces)
    return {
        nonce: outcome
        for nonce, outcome in tried.items()
        if outcome[0].version <= oldest_known or outcome[0].version > current.version
    }


def _is_as_read(item: ShareItem) -> Condition:
    return all_of(Compare(("n",), "=", item.version), Compare(("i",), "=", item.incarnation))


def _topic_key(topic_id: UUID) -> Key:
    return Key(TOPIC_IDS_PK, topic_id_sk(topic_id))

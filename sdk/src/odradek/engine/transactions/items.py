"""Items of transactions, to and from the state (docs/formats/transaction_items.md).

    Table    Key                                                        Value               Lifetime
    catalog  txn-ids            <transactional id>                      the id's row        from InitProducerId on
    catalog  batches            <key>                                   {v, b}: last batch  from commit_batch on
    log      txn#<trans. id>    <number, 20 digits>#b#<topic id>#       pending batches     Produce .. some time after
                                <partition>#<base sequence, 10 digits>                      the transaction's end
    log      txn#<trans. id>    <number, 20 digits>#o#<group id>#       a pending offset    TxnOffsetCommit .. likewise
                                <topic id>#<partition>

The row decides; pending items have no effect unless the row commits them. `number` counts the transactions of an id and
is raised when one begins, so a pending item that is written late never counts as one of a later transaction. All
pending items of an id share one `pk`: one Query reads a transaction, another the leftovers of earlier ones.

    row      v: format version 1   n: version, raised by every write    pi, pe: producer id and epoch
             s: state              tn: number of the newest transaction  to: timeout, ms
             ss: start of the open transaction, ms (absent: none open)   ut: last write, ms
             li, le: producer id and epoch before the last bump (absent: none that may come back)
             cn: number of the last transaction that committed, -1 none
             p: partitions of the open transaction, 20 bytes each: topic id, partition i32
             g: its groups         o: its offsets, 22 bytes each: place of the group in g u16, topic id, partition i32
             q: sequences that aborted transactions of this epoch used up, 24 bytes each: topic id, partition i32,
                next sequence i32; a protocol that does not bump the epoch at each end continues there

Pending batches whose producer was told their offset (transaction.offsets=predicted) have format version 2: an earlier
release, which would commit them at any offset, refuses them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

from odradek.engine.partition.fields import attribute, check_version
from odradek.errors import FormatError
from odradek.format.item_keys import (
    BATCHES_PK,
    TRANSACTIONAL_IDS_PK,
    transaction_end_sk,
    transaction_pk,
    transaction_sk,
)
from odradek.format.tail_entry import TailEntry, decode_tail_entries, encode_tail_entries
from odradek.model.topic_partition import OffsetAndMetadata, PartitionId
from odradek.ports.table import Item, Key, Row, Value

VERSION = 1
_TOLD_VERSION = 2  # of pending batches with a told offset

_PARTITION = struct.Struct(">16si")
_LEASE = struct.Struct(">H16si")
_SEQUENCE = struct.Struct(">16sii")


class TransactionState(StrEnum):
    """The states of a transactional id. The names are Kafka's, as ListTransactions shows them."""

    EMPTY = "Empty"  # initialized or fenced: nothing is open, nothing has ended under this epoch
    ONGOING = "Ongoing"
    COMMITTED = "CompleteCommit"
    ABORTED = "CompleteAbort"


@dataclass(frozen=True, slots=True)
class TransactionRow:
    """A transactional id as the catalog holds it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    number: int = 0
    start_ms: int = -1
    updated_ms: int = 0
    version: int = 0
    last_producer_id: int = -1
    last_epoch: int = -1
    committed_number: int = -1
    partitions: tuple[PartitionId, ...] = ()
    groups: tuple[str, ...] = ()
    leases: tuple[tuple[str, PartitionId], ...] = ()  # (group id, partition) of the offsets
    aborted_sequences: Mapping[PartitionId, int] = field(default_factory=dict)

    @property
    def is_ongoing(self) -> bool:
        return self.state is TransactionState.ONGOING

    def has_timed_out(self, now_ms: int) -> bool:
        """Return True if the open transaction has been open for longer than its timeout."""
        return self.is_ongoing and now_ms > self.start_ms + self.timeout_ms


@dataclass(frozen=True, slots=True)
class PendingBatches:
    """Batches of one partition that one produce request uploaded.

    Attributes:
        told_offset: the offset that the producer was told for the first record; -1: none. Nothing is committed at
            another one.
        chosen_by: by how many partitions their keys chose this one; 0: no key did. Nothing is committed once the topic
            has more.
    """

    partition: PartitionId
    entries: tuple[TailEntry, ...]
    told_offset: int = -1
    chosen_by: int = 0


@dataclass(frozen=True, slots=True)
class PendingOffset:
    """An offset that the transaction will commit, with its committer."""

    group_id: str
    partition: PartitionId
    topic: str
    offset: OffsetAndMetadata
    member_id: str
    member_epoch: int
    stamp_ms: int  # of the request, so that one that was overtaken changes nothing


def row_key(transactional_id: str) -> Key:
    """The row of a transactional id."""
    return Key(TRANSACTIONAL_IDS_PK, transactional_id)


def batch_key(key: str) -> Key:
    """The row that says which batch of a writer was committed last."""
    return Key(BATCHES_PK, key)


def pending_range(transactional_id: str, number: int) -> tuple[str, str, str]:
    """The `pk` and the half-open range of `sk` of a transaction's pending items."""
    return transaction_pk(transactional_id), transaction_sk(number, ""), transaction_end_sk(number)


def batches_key(transactional_id: str, number: int, pending: PendingBatches) -> Key:
    """The item of some pending batches: one for each base sequence, so that a retry finds itself."""
    partition = pending.partition
    rest = f"b#{partition.topic_id}#{partition.partition}#{pending.entries[0].base_sequence:010d}"
    return Key(transaction_pk(transactional_id), transaction_sk(number, rest))


def offset_key(transactional_id: str, number: int, group_id: str, partition: PartitionId) -> Key:
    """The item of a pending offset."""
    rest = f"o#{group_id}#{partition.topic_id}#{partition.partition}"
    return Key(transaction_pk(transactional_id), transaction_sk(number, rest))


# --- the row ------------------------------------------------------------------------------------------------------


def encode_row(row: TransactionRow) -> Item:
    """The row's item, without its key."""
    item: Item = {
        "v": VERSION,
        "n": row.version,
        "pi": row.producer_id,
        "pe": row.producer_epoch,
        "s": str(row.state.value),
        "tn": row.number,
        "to": row.timeout_ms,
        "ut": row.updated_ms,
        "cn": row.committed_number,
    }
    if row.start_ms >= 0:
        item["ss"] = row.start_ms
    if row.last_epoch >= 0:
        item["li"], item["le"] = row.last_producer_id, row.last_epoch
    if row.partitions:
        item["p"] = b"".join(_PARTITION.pack(topic_id.bytes, number) for topic_id, number in row.partitions)
    if row.groups:
        groups: list[Value] = list(row.groups)
        item["g"] = groups
    if row.leases:
        item["o"] = b"".join(
            _LEASE.pack(row.groups.index(group_id), topic_id.bytes, number)
            for group_id, (topic_id, number) in row.leases
        )
    if row.aborted_sequences:
        item["q"] = b"".join(
            _SEQUENCE.pack(topic_id.bytes, number, sequence)
            for (topic_id, number), sequence in sorted(row.aborted_sequences.items())
        )
    return item


def decode_row(transactional_id: str, item: Item) -> TransactionRow:
    """The row from its item. Raises FormatError for an unknown version or a damaged item."""
    check_version(item, VERSION, "a transactional id")
    groups = tuple(attribute(item, "g", list)) if "g" in item else ()
    try:
        return TransactionRow(
            transactional_id,
            producer_id=attribute(item, "pi", int),
            producer_epoch=attribute(item, "pe", int),
            timeout_ms=attribute(item, "to", int),
            state=TransactionState(attribute(item, "s", str)),
            number=attribute(item, "tn", int),
            start_ms=attribute(item, "ss", int) if "ss" in item else -1,
            updated_ms=attribute(item, "ut", int),
            version=attribute(item, "n", int),
            last_producer_id=attribute(item, "li", int) if "li" in item else -1,
            last_epoch=attribute(item, "le", int) if "le" in item else -1,
            committed_number=attribute(item, "cn", int),
            partitions=tuple(
                PartitionId(UUID(bytes=topic_id), number)
                for topic_id, number in _PARTITION.iter_unpack(_packed(item, "p"))
            ),
            groups=groups,
            leases=tuple(
                (groups[place], PartitionId(UUID(bytes=topic_id), number))
                for place, topic_id, number in _LEASE.iter_unpack(_packed(item, "o"))
            ),
            aborted_sequences={
                PartitionId(UUID(bytes=topic_id), number): sequence
                for topic_id, number, sequence in _SEQUENCE.iter_unpack(_packed(item, "q"))
            },
        )
    except (struct.error, ValueError, IndexError) as error:
        raise FormatError(f"the row of transactional id {transactional_id!r} is damaged: {error}") from error


def _packed(item: Item, name: str) -> bytes:
    return attribute(item, name, bytes) if name in item else b""


# --- pending items ------------------------------------------------------------------------------------------------


def encode_batches(pending: PendingBatches) -> Item:
    """The item of pending batches; their commit time is not known yet."""
    item: Item = {"v": VERSION, "e": encode_tail_entries(pending.entries)}
    if pending.chosen_by:
        item["g"] = pending.chosen_by
    return item if pending.told_offset < 0 else item | {"v": _TOLD_VERSION, "o": pending.told_offset}


def encode_offset(pending: PendingOffset) -> Item:
    """The item of a pending offset."""
    return {
        "v": VERSION,
        "g": pending.group_id,
        "t": pending.topic,
        "f": pending.offset.offset,
        "le": pending.offset.leader_epoch,
        "m": pending.offset.metadata,
        "mi": pending.member_id,
        "me": pending.member_epoch,
        "c": pending.stamp_ms,
    }


def decode_pending(rows: Sequence[Row]) -> tuple[list[PendingBatches], list[PendingOffset]]:
    """Return the pending items of a transaction. Raises FormatError."""
    batches: list[PendingBatches] = []
    offsets: list[PendingOffset] = []
    for (_, sk), item in rows:
        check_version(item, _TOLD_VERSION if "o" in item else VERSION, "a pending item")
        try:
            _, kind, rest = sk.split("#", 2)
            if kind == "b":
                topic_id, number, _ = rest.split("#")
                entries = tuple(decode_tail_entries(attribute(item, "e", bytes)))
                partition = PartitionId(UUID(topic_id), int(number))
                chosen_by = attribute(item, "g", int) if "g" in item else 0
                batches.append(PendingBatches(partition, entries, decode_told_offset(item), chosen_by))
            else:
                _, topic_id, number = rest.rsplit("#", 2)
                offsets.append(_decode_offset(PartitionId(UUID(topic_id), int(number)), item))
        except ValueError as error:
            raise FormatError(f"{sk!r} is not the key of a pending item") from error
    return batches, offsets


def decode_told_offset(item: Item) -> int:
    """The offset that the producer of pending batches was told, -1: none. Raises FormatError."""
    return attribute(item, "o", int) if "o" in item else -1


def _decode_offset(partition: PartitionId, item: Item) -> PendingOffset:
    return PendingOffset(
        attribute(item, "g", str),
        partition,
        attribute(item, "t", str),
        OffsetAndMetadata(attribute(item, "f", int), attribute(item, "le", int), attribute(item, "m", str)),
        attribute(item, "mi", str),
        attribute(item, "me", int),
        attribute(item, "c", int),
    )

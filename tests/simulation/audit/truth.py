"""The true log of a partition: every record that ever entered it, from the ledger."""

from __future__ import annotations

from dataclasses import dataclass

from odradek.format.item_keys import partition_pk
from odradek.format.object_keys import wal_key
from odradek.format.record_batch import decode_batches
from odradek.format.tail_entry import decode_tail_entry
from odradek.model.topic_partition import PartitionId

from tests.simulation.books.history import identity
from tests.simulation.books.items import partition_of
from tests.simulation.books.ledger import Ledger
from tests.simulation.books.notes import Entered

_DAY_MS = 86_400_000
_CLOCKS_APART_MS = 80_000


@dataclass(frozen=True, slots=True)
class TrueRecord:
    """A record as it entered the log."""

    offset: int
    identity: bytes
    key: bytes | None
    is_tombstone: bool
    timestamp_ms: int
    call: int  # of the store, by which it became visible


@dataclass
class TrueLog:
    """All records of one partition, dense from offset 0.

    Attributes:
        was_compacted: the topic's cleanup policy was ever `compact`.
        has_returned: a creation that came late brought its head back after the topic's deletion. What enters there is
            deleted with the topic, as if it had come before: nothing of it is in `records`.
        young_ms: records of this time and later must not be compacted yet.
        tombstones_kept_ms: tombstones of this time and later must not be dropped yet.
        last_of_key: per key, the offset of its last record.
    """

    partition: PartitionId
    records: list[TrueRecord]
    was_compacted: bool
    is_gone: bool
    has_returned: bool
    log_start: int
    young_ms: int
    tombstones_kept_ms: int
    last_of_key: dict[bytes | None, int]

    def must_survive(self, record: TrueRecord) -> bool:
        """Return True if the record has to be in the log still, at or above the log start."""
        return record.offset >= self.log_start and not self.may_be_compacted(record)

    def may_be_compacted(self, record: TrueRecord) -> bool:
        """Return True if compaction may have removed the record by now."""
        if not self.was_compacted or record.timestamp_ms >= self.young_ms:
            return False
        if self.last_of_key[record.key] != record.offset:
            return True
        return record.is_tombstone and record.timestamp_ms < self.tombstones_kept_ms


def true_logs(ledger: Ledger, now_ms: int) -> tuple[dict[PartitionId, TrueLog], list[str]]:
    """Every partition's true log; and what of it cannot be read."""
    logs: dict[PartitionId, TrueLog] = {}
    problems: list[str] = []
    for pk in {**ledger.heads, **dict.fromkeys(sorted(ledger.gone)), **ledger.truth}:
        partition = partition_of(pk)
        records: list[TrueRecord] = []
        for entered in ledger.truth.get(pk, ()):
            try:
                records += _decode(ledger, entered)
            except Exception as error:
                problems.append(
                    f"{partition}: the entry at {entered.base_offset} is damaged: {type(error).__name__}: {error}"
                )
        configs = [config for _, config in ledger.configs[partition.topic_id]]
        head = ledger.heads.get(pk)
        earliest_ms = now_ms + _CLOCKS_APART_MS  # by the clock of any maintainer it was not later than this
        logs[partition] = TrueLog(
            partition,
            records,
            was_compacted=ledger.was_compacted(partition.topic_id),
            is_gone=head is None or partition.topic_id not in ledger.live_topics,
            has_returned=pk in ledger.returned,
            log_start=0 if head is None else int(head["ls"]),  # type: ignore[arg-type]
            young_ms=earliest_ms - min((int(c.get("min.compaction.lag.ms", 0)) for c in configs), default=0),
            tombstones_kept_ms=earliest_ms
            - min((int(c.get("delete.retention.ms", _DAY_MS)) for c in configs), default=0),
            last_of_key={record.key: record.offset for record in records},
        )
        if [record.offset for record in records] != list(range(len(records))):
            problems.append(f"{partition}: offsets are not dense")
        assert partition_pk(partition) == pk
    return logs, problems


def _decode(ledger: Ledger, entered: Entered) -> list[TrueRecord]:
    entry = decode_tail_entry(entered.packed)
    content = ledger.uploads[entry.object_id if entry.is_item else wal_key(entry.object_id)]
    batch = content[entry.position : entry.position + entry.length]
    return [
        TrueRecord(
            entered.base_offset + record.offset,
            identity(record),
            record.key,
            record.value is None,
            record.timestamp_ms,
            entered.call,
        )
        for record in decode_batches(batch, allow_truncated=False)
    ]

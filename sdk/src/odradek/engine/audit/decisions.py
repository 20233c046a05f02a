"""The findings of an audit, and the agreement of a head with its index rows: pure.

below the log start       rows that the next maintenance removes: pending
[log start, tail base)    rows without gap or overlap, oldest to newest segments, then spilled entries
ghosts                    spilled rows below the merged offset (partition/index.py): pending, and never read
[tail base, next offset)  the tail; a row there is that of a spill in progress, and has the tail's first entries
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from odradek.engine.partition.head import PartitionHead
from odradek.engine.partition.index_row import IndexRow, is_ghost
from odradek.errors import FormatError
from odradek.format.batch_header import check_crc, parse_header
from odradek.format.tail_entry import TailEntry
from odradek.limits import CLOCK_AHEAD_MS_MAX

SPILLS_UNDER_WAY = "spills_under_way"  # finished by the next spill of the partition, not by maintenance


class FindingKind(StrEnum):
    """Kinds of findings."""

    CATALOG = "catalog"  # the rows of topics and of topic ids disagree
    HEAD = "head"  # missing, damaged, or at odds with itself
    ROWS = "rows"  # gaps, overlaps, wrong order, a row at odds with its entries
    MISSING = "missing"  # bytes that a live range needs are not there
    DAMAGED = "damaged"  # bytes that are not what they should be
    UNREFERENCED = "unreferenced"  # an old upload that nothing refers to
    ORPHAN = "orphan"  # a segment that no row refers to
    LEFTOVER = "leftover"  # of a topic that has been deleted
    CLOCK = "clock"  # a floor that a clock far ahead has raised


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One thing that is not as it should be."""

    kind: FindingKind
    place: str  # a partition as users name it, or a key
    detail: str


@dataclass
class AuditReport:
    """The results of an audit.

    Attributes:
        findings: errors.
        pending: what the next maintenance removes, by name: normal.
        checked: counts of what was checked, by name.
        repaired: counts of repairs, by name.
        skipped: ranges of offsets that a repair gave up, as `topic-partition [first, end)`.
    """

    findings: list[Finding] = field(default_factory=list)
    pending: Counter[str] = field(default_factory=Counter)
    checked: Counter[str] = field(default_factory=Counter)
    repaired: Counter[str] = field(default_factory=Counter)
    skipped: list[str] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not self.findings

    def add(self, other: AuditReport) -> None:
        """Take over what another report holds."""
        self.findings += other.findings
        self.pending += other.pending
        self.checked += other.checked
        self.repaired += other.repaired
        self.skipped += other.skipped


def live_rows(head: PartitionHead, rows: Sequence[IndexRow]) -> list[IndexRow]:
    """The rows that readers go by, oldest first."""
    return [
        row
        for row in rows
        if head.log_start_offset < row.end_offset
        and row.base_offset < head.tail_base_offset
        and not is_ghost(row, head.merged_offset)
    ]


def count_pending(head: PartitionHead, rows: Sequence[IndexRow]) -> Counter[str]:
    """Count rows that maintenance removes, and spills that are not finished."""
    pending: Counter[str] = Counter()
    for row in rows:
        if row.base_offset >= head.tail_base_offset:
            pending[SPILLS_UNDER_WAY] += 1
        elif row.end_offset <= head.log_start_offset:
            pending["rows_below_log_start"] += 1
        elif is_ghost(row, head.merged_offset):
            pending["ghost_rows"] += 1
    return pending


def check_partition(head: PartitionHead, rows: Sequence[IndexRow]) -> Iterator[tuple[FindingKind, str]]:
    """Yield the errors of a head and its rows (all of them, oldest first)."""
    yield from ((FindingKind.HEAD, detail) for detail in _check_head(head))
    yield from ((FindingKind.ROWS, detail) for detail in _check_rows(head, rows))


def _check_head(head: PartitionHead) -> Iterator[str]:
    in_tail = sum(entry.offset_count for _, entry in head.entries())
    if head.next_offset != head.tail_base_offset + in_tail:
        yield f"the next offset is {head.next_offset}, the tail ends at {head.tail_base_offset + in_tail}"
    if not 0 <= head.log_start_offset <= head.next_offset:
        yield f"the log start {head.log_start_offset} is outside [0, {head.next_offset}]"
    if not 0 <= head.merged_offset <= head.tail_base_offset:
        yield f"the merged offset {head.merged_offset} is outside [0, {head.tail_base_offset}]"


def _check_rows(head: PartitionHead, rows: Sequence[IndexRow]) -> Iterator[str]:
    live = live_rows(head, rows)
    expected = min(head.log_start_offset, head.tail_base_offset)
    previous: IndexRow | None = None
    for row in live:
        begins_well = row.base_offset <= expected if previous is None else row.base_offset == expected
        if not begins_well:
            yield f"row {row.base_offset} follows {expected}: {'a gap' if row.base_offset > expected else 'an overlap'}"
        if row.is_segment and row.end_offset > head.merged_offset:
            yield f"segment [{row.base_offset}, {row.end_offset}) is above the merged offset {head.merged_offset}"
        if previous is not None and row.is_segment and not previous.is_segment:
            yield f"segment {row.base_offset} is above spilled entries"
        # One that was far ahead may have been lowered (floors.py).
        fall_ms = 0 if previous is None else previous.spill_floor_ms - row.spill_floor_ms
        if 0 < fall_ms <= CLOCK_AHEAD_MS_MAX:
            yield f"the spill floor falls at row {row.base_offset}"
        yield from _check_row(row)
        expected, previous = row.end_offset, row
    if expected != head.tail_base_offset and head.log_start_offset < head.tail_base_offset:
        yield f"the rows end at {expected}, the tail begins at {head.tail_base_offset}"
    tail = [entry for _, entry in head.entries()]
    for row in rows:
        if row.base_offset >= head.tail_base_offset and row.entries != tuple(tail[: len(row.entries)]):
            yield f"row {row.base_offset} above the tail's base does not contain its first entries"


def _check_row(row: IndexRow) -> Iterator[str]:
    if row.end_offset <= row.base_offset:
        yield f"row {row.base_offset} ends at {row.end_offset}"
    if row.is_segment:
        return
    end_offset = row.base_offset + sum(entry.offset_count for entry in row.entries)
    if end_offset != row.end_offset:
        yield f"row {row.base_offset} ends at {row.end_offset}, its entries at {end_offset}"
    if row.size_bytes != sum(entry.length for entry in row.entries):
        yield f"row {row.base_offset} says {row.size_bytes} bytes, its entries another number"
    if row.max_timestamp_ms != max((entry.max_timestamp_ms for entry in row.entries), default=None):
        yield f"row {row.base_offset} has another largest timestamp than its entries"


def check_batch(entry: TailEntry, data: memoryview) -> None:
    """Raise FormatError if the bytes are not the whole batch that the entry describes, including its CRC."""
    if len(data) != entry.length:
        raise FormatError(f"{len(data)} of {entry.length} bytes exist")
    header = parse_header(data)
    check_crc(data, 0, header)
    described = (entry.length, entry.offset_count, entry.producer_id, entry.producer_epoch, entry.base_sequence)
    stored = (
        header.size_bytes,
        header.last_offset_delta + 1,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
    )
    if described != stored:
        raise FormatError(f"the batch has (bytes, offsets, producer, epoch, sequence) {stored}, the log {described}")


def entry_name(base_offset: int, entry: TailEntry) -> str:
    """Return a batch's offsets and location for people."""
    kind = "item" if entry.is_item else "object"
    return f"[{base_offset}, {base_offset + entry.offset_count}) in WAL {kind} {entry.object_id.hex()}"

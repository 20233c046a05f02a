"""Translation of offsets from a source partition to the target. Pure.

    sync   source [100, 150)  ->  target [40, 90)     as many records as offsets: one to one
           source [150, 200)  ->  target [90, 120)    compaction left 30 of 50: only the bounds are known

A committed offset is translated to the position after everything that the group has read, or to an earlier one, never a
later one: a group that moves to the target may see records again and misses none. This holds as long as only the mirror
writes to the target's partitions, which every micro-batch checks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from odradek.errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """The offsets of one copied range."""

    source_start: int
    source_end: int  # exclusive
    target_start: int
    target_end: int  # exclusive

    @property
    def is_dense(self) -> bool:
        """True if every offset of the source has a record."""
        return self.source_end - self.source_start == self.target_end - self.target_start


Syncs = dict[str, dict[int, list[OffsetSync]]]  # by topic of the source and partition, in order


def with_sync(syncs: Sequence[OffsetSync], new: OffsetSync, *, topic_partition: str) -> list[OffsetSync]:
    """Return the syncs with one more; a repeated one changes nothing, one that continues a dense one extends it.

    Raises KafkaError(INVALID_REQUEST): another writer wrote to the target's partition.
    """
    if any(sync.source_start <= new.source_start and new.source_end <= sync.source_end for sync in syncs):
        return list(syncs)
    if syncs and syncs[-1].target_end != new.target_start:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{topic_partition} of the target has grown from {syncs[-1].target_end} to {new.target_start} without the "
            "mirror: nothing else may write to a mirrored topic",
        )
    if syncs and syncs[-1].is_dense and new.is_dense and syncs[-1].source_end == new.source_start:
        last = syncs[-1]
        return [*syncs[:-1], OffsetSync(last.source_start, new.source_end, last.target_start, new.target_end)]
    return [*syncs, new]


def translate(syncs: Sequence[OffsetSync], offset: int) -> int | None:
    """Return the target's offset for a committed offset of the source; None before anything was mirrored."""
    translated: int | None = None
    for sync in syncs:
        if offset <= sync.source_start:
            return sync.target_start
        if offset >= sync.source_end:
            translated = sync.target_end
            continue
        return sync.target_start + (offset - sync.source_start) if sync.is_dense else sync.target_start
    return translated


def syncs_document(syncs: Syncs) -> dict[str, Any]:
    """Return syncs as JSON: {"topic": {"0": [[source start, source end, target start, target end], ...]}}."""
    return {
        topic: {
            str(partition): [[sync.source_start, sync.source_end, sync.target_start, sync.target_end] for sync in rows]
            for partition, rows in partitions.items()
        }
        for topic, partitions in syncs.items()
    }


def parse_syncs(document: Mapping[str, Any]) -> Syncs:
    """Parse that JSON. Raises KafkaError(INVALID_CONFIG)."""
    try:
        return {
            topic: {int(partition): [OffsetSync(*row) for row in rows] for partition, rows in partitions.items()}
            for topic, partitions in document.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise KafkaError(ErrorCode.INVALID_CONFIG, "the mirror's offset_syncs.json is damaged") from None

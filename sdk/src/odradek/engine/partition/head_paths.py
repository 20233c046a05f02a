"""Where a head has the offsets of a partition, its own or one that it shares, and conditions on them."""

from __future__ import annotations

from odradek.engine.partition.shared_head import place_name
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Absent, AnyOf, Compare, Condition, Path


def next_offset_path(partition: PartitionId) -> Path:
    """Return where a head has the offset of the partition's next record."""
    return ("n", place_name(partition.place)) if partition.shares_head else ("no",)


def log_start_path(partition: PartitionId) -> Path:
    """Return where a head has the partition's first offset."""
    return ("l", place_name(partition.place)) if partition.shares_head else ("ls",)


def merged_offset_path(partition: PartitionId) -> Path:
    """Return where a head has the offset up to which the partition's rows have been merged."""
    return ("m", place_name(partition.place)) if partition.shares_head else ("mo",)


def is_below(path: Path, offset: int) -> Condition:
    """True if the number at the path is below this one; a shared head does not name a number that is 0."""
    below = Compare(path, "<", offset)
    return below if len(path) == 1 else AnyOf((Absent(path), below))


def is_at(path: Path, offset: int, *, may_be_absent: bool) -> Condition:
    """True if the number at the path is this one, or, where that may be, is not named and this one is 0."""
    is_at = Compare(path, "=", offset)
    return AnyOf((Absent(path), is_at)) if may_be_absent and offset == 0 else is_at

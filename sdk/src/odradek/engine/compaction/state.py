"""The progress of compaction in a partition (docs/formats/compaction.md).

Key: `<topic id>#<partition>`, `clean`. Lifetime: made by the first compaction, removed with the topic.

    v   format version 1
    d   first dirty offset: everything below it holds each key at most once
    e   end of the pass under way, exclusive; `d` where none is
    p   position of the pass: everything below it is rewritten for [d, e)
    z   bytes of the segments below `p`, or below `d` where no pass is under way

Each of these stays true for ever, since a later pass only removes more. So the order of writes does not matter: a
delayed older one only causes work to be repeated. The item is written under the maintenance lease.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.engine.partition.fields import attribute, check_version
from odradek.format.item_keys import CLEAN_SK, partition_pk
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Item, Key

VERSION = 1


@dataclass(frozen=True, slots=True)
class CompactionState:
    """The progress of a partition's compaction; the default is that of a log never compacted."""

    first_dirty: int = 0
    pass_end: int = 0
    position: int = 0
    clean_bytes: int = 0

    @property
    def is_under_way(self) -> bool:
        return self.pass_end > self.first_dirty


def state_key(partition: PartitionId) -> Key:
    """The key of a partition's compaction state."""
    return Key(partition_pk(partition), CLEAN_SK)


def encode_state(state: CompactionState) -> Item:
    """The item, without its key."""
    return {
        "v": VERSION,
        "d": state.first_dirty,
        "e": state.pass_end,
        "p": state.position,
        "z": state.clean_bytes,
    }


def decode_state(item: Item) -> CompactionState:
    """The state from its item. Raises FormatError for an unknown version or a damaged item."""
    check_version(item, VERSION, "the state of a compaction")
    return CompactionState(
        first_dirty=attribute(item, "d", int),
        pass_end=attribute(item, "e", int),
        position=attribute(item, "p", int),
        clean_bytes=attribute(item, "z", int),
    )

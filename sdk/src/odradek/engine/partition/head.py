"""The head of a partition: the one item that every append updates (docs/formats/head.md).

Key: `<topic id>#<partition>`, `head`. Lifetime: made before the topic's row, removed after it. Names are short since
the item is kept under 1 KB, where a write costs one unit:

    v   format version 1
    no  next offset: the high watermark, since nothing uncommitted ever enters a log
    ls  log start offset
    tb  tail base offset: everything below is in index rows
    mo  merged offset: everything below is in segments; a spilled row below it is a ghost (partition/index.py)
    rm  running maximum: the largest timestamp of everything below the tail, deleted or not, ms
    t   tail: packed tail entries, oldest first (format/tail_entry.py)
    sf  spill floor, ms: an append whose commit time is not above it is refused (docs/decisions/0002)
    wf  sweep floor, object id: an append whose object is below it is refused, since the sweep may have deleted it
    li  leader id        le  leader epoch        es  start offset of that epoch (engine/partition/leader_epochs.py)
    by  bytes appended since creation
    p   producers: id -> {e: epoch, s: next sequence, r: recent batches that left the tail, t: commit time of the last,
        b: where its epoch began here, if not at sequence 0}
    pv  evictions: how many times a producer left `p` for a row of its own
    w   mark: somebody waits for the next append since `by` was this (engine/marks.py); absent: nobody does
    g   fence of a topic that has grown (head_append.py); absent: it has not

`p.<id>.r` and an evicted producer's row hold its last batches, newest last, each packed as
epoch (i16), base sequence (i32), record count (u32), base offset (i64): a duplicate of one of the last five is
answered with its original offset. While a spill is under way they may hold batches that are still in the tail.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from odradek.engine.partition.fields import attribute, check_version
from odradek.errors import FormatError
from odradek.format.item_keys import HEAD_SK, partition_pk
from odradek.format.tail_entry import TailEntry, decode_tail_entry, encode_tail_entry
from odradek.limits import PRODUCER_BATCHES_REMEMBERED, SEQUENCE_MAX
from odradek.model.cluster import FLEET_BROKER_ID
from odradek.model.topic_partition import PartitionId
from odradek.ports.table import Item, Key, Value

VERSION = 1
MARK = "w"
FENCE = "g"
NO_FLOOR = bytes(16)
NO_TIMESTAMP = -(2**63)  # before every timestamp

_BYTES = frozenset({bytes})
_RECENT = struct.Struct(">hiIq")


def head_key(partition: PartitionId) -> Key:
    """The key of a partition's head, which it may share with others."""
    return Key(partition_pk(partition.head_id), HEAD_SK)


@dataclass(frozen=True, slots=True)
class RecentBatch:
    """A batch of a producer, remembered to answer its duplicate."""

    epoch: int
    base_sequence: int
    record_count: int
    base_offset: int


@dataclass(frozen=True, slots=True)
class ProducerState:
    """The state of a producer in the head or in a producer row."""

    epoch: int
    next_sequence: int
    recent: tuple[RecentBatch, ...] = ()
    spilled_ms: int = 0  # commit time of its newest batch that left the tail; 0: none did
    first_sequence: int = 0  # at which its epoch began in this log; not 0: earlier batches are elsewhere, or nowhere


@dataclass(frozen=True, slots=True)
class PartitionHead:
    """The head as the engine sees it."""

    next_offset: int = 0
    log_start_offset: int = 0
    tail_base_offset: int = 0
    merged_offset: int = 0
    running_max_timestamp_ms: int = NO_TIMESTAMP
    tail: tuple[bytes, ...] = ()
    spill_floor_ms: int = 0
    sweep_floor: bytes = NO_FLOOR
    leader_id: int = FLEET_BROKER_ID
    leader_epoch: int = 0
    epoch_start: int = 0
    appended_bytes: int = 0
    producers: Mapping[int, ProducerState] = field(default_factory=dict)
    evictions: int = 0
    mark: int | None = None
    fence: int = 0  # partitions of the topic when it last grew; 0: it has not
    is_whole: bool = True  # False: between the index rows and this tail there are pages of a shared head
    elsewhere: Container[int] = ()  # producers that a shared head has, of any of its partitions
    paged: int | None = None  # elements that have left the tail of a shared head, and those that were ever in it
    element_count: int = 0

    def has(self, producer_id: int) -> bool:
        """Whether the head's item has the producer, of this partition or of another one."""
        return producer_id in self.producers or producer_id in self.elsewhere

    def may_have_evicted(self, producer_id: int) -> bool:
        """Whether the producer may have a row of its own, which tells what the head does not."""
        return self.evictions > 0 and not self.has(producer_id)

    @property
    def turnover(self) -> int:
        """A number that only rises: what a producer's row said holds while it is not above `turnover_bound`."""
        return self.evictions if self.paged is None else self.paged

    @property
    def turnover_bound(self) -> int:
        """The highest turnover under which a row that is read after this head holds (producer_places.py)."""
        return self.evictions if self.paged is None else self.element_count

    def entries(self) -> Iterator[tuple[int, TailEntry]]:
        """The tail's entries with their base offsets, oldest first."""
        offset = self.tail_base_offset
        for packed in self.tail:
            entry = decode_tail_entry(packed)
            yield offset, entry
            offset += entry.offset_count

    def find(self, packed: bytes) -> int | None:
        """The base offset of an entry that is in the tail, or None."""
        if packed not in self.tail:
            return None
        return next(offset for offset, entry in self.entries() if encode_tail_entry(entry) == packed)

    def recent_batches(self, producer_id: int) -> tuple[RecentBatch, ...]:
        """A producer's last batches, newest last: those that left the tail, then those in it."""
        return self.all_recent_batches((producer_id,))[producer_id]

    def all_recent_batches(self, producer_ids: Iterable[int]) -> dict[int, tuple[RecentBatch, ...]]:
        """The last batches of several producers, in one pass over the tail."""
        found = {each: list(self.producers[each].recent) if each in self.producers else [] for each in producer_ids}
        newest = {each: batches[-1].base_offset for each, batches in found.items() if batches}
        for offset, entry in self.entries():
            if entry.producer_id in found and offset > newest.get(entry.producer_id, -1):
                batch = RecentBatch(entry.producer_epoch, entry.base_sequence, entry.offset_count, offset)
                found[entry.producer_id].append(batch)
        return {each: tuple(batches[-PRODUCER_BATCHES_REMEMBERED:]) for each, batches in found.items()}


def next_sequence(base_sequence: int, record_count: int) -> int:
    """The sequence after a batch; wraps from 2^31 - 1 to 0 (KIP-98)."""
    return (base_sequence + record_count) % (SEQUENCE_MAX + 1)


def encode_recent(batches: Iterable[RecentBatch]) -> bytes:
    """Pack remembered batches, oldest first."""
    return b"".join(_RECENT.pack(b.epoch, b.base_sequence, b.record_count, b.base_offset) for b in batches)


@lru_cache(maxsize=1024)  # each append reads all of a head's producers again, and few of them have changed
def decode_recent(data: bytes) -> tuple[RecentBatch, ...]:
    """Decode remembered batches. Raises FormatError for a length that is not a multiple of a batch's."""
    if len(data) % _RECENT.size:
        raise FormatError(f"{len(data)} bytes are not a whole number of remembered batches")
    return tuple(RecentBatch(*fields) for fields in _RECENT.iter_unpack(data))


def encode_producer(state: ProducerState) -> dict[str, Value]:
    """A producer's entry in the head's map, and the value of an evicted producer's row."""
    entry: dict[str, Value] = {"e": state.epoch, "s": state.next_sequence}
    if state.recent:
        entry["r"] = encode_recent(state.recent)
    if state.spilled_ms:
        entry["t"] = state.spilled_ms
    if state.first_sequence:
        entry["b"] = state.first_sequence
    return entry


def decode_producer(item: Mapping[str, object]) -> ProducerState:
    """A producer's state from the head's map or a row. Raises FormatError."""
    recent = decode_recent(attribute(item, "r", bytes)) if "r" in item else ()
    spilled_ms = attribute(item, "t", int) if "t" in item else 0
    begun = attribute(item, "b", int) if "b" in item else 0
    return ProducerState(attribute(item, "e", int), attribute(item, "s", int), recent, spilled_ms, begun)


def encode_head(head: PartitionHead) -> Item:
    """The head's item, without its key."""
    item: Item = {
        "v": VERSION,
        "no": head.next_offset,
        "ls": head.log_start_offset,
        "tb": head.tail_base_offset,
        "mo": head.merged_offset,
        "rm": head.running_max_timestamp_ms,
        "t": list(head.tail),
        "sf": head.spill_floor_ms,
        "wf": head.sweep_floor,
        "li": head.leader_id,
        "le": head.leader_epoch,
        "es": head.epoch_start,
        "by": head.appended_bytes,
        "p": {str(producer_id): encode_producer(state) for producer_id, state in head.producers.items()},
        "pv": head.evictions,
    }
    if head.mark is not None:
        item["w"] = head.mark
    if head.fence:
        item["g"] = head.fence
    return item


_NUMBERS = {  # and the sweep floor: attributes that every head has, by their names
    "no": "next_offset",
    "ls": "log_start_offset",
    "tb": "tail_base_offset",
    "mo": "merged_offset",
    "rm": "running_max_timestamp_ms",
    "sf": "spill_floor_ms",
    "li": "leader_id",
    "le": "leader_epoch",
    "es": "epoch_start",
    "by": "appended_bytes",
    "pv": "evictions",
    "wf": "sweep_floor",
}
_TYPES = (*[int] * (len(_NUMBERS) - 1), bytes)


def decode_head(item: Item) -> PartitionHead:
    """The head from its item. Raises FormatError for an unknown version or a damaged item."""
    check_version(item, VERSION, "a partition head")
    values = tuple(map(item.get, _NUMBERS))  # all at once: each look at a head that has changed comes here
    if tuple(map(type, values)) != _TYPES:
        for name, kind in zip(_NUMBERS, _TYPES, strict=True):
            attribute(item, name, kind)
    fields: dict[str, Any] = dict(zip(_NUMBERS.values(), values, strict=True))
    return PartitionHead(
        **fields,
        tail=_tail(item),
        producers=_producers(item),
        mark=attribute(item, "w", int) if "w" in item else None,
        fence=attribute(item, "g", int) if "g" in item else 0,
    )


def _tail(item: Item) -> tuple[bytes, ...]:
    tail = attribute(item, "t", list)
    if not _BYTES.issuperset(map(type, tail)):
        raise FormatError("the tail of a partition head does not consist of packed entries")
    return tuple(tail)


def _producers(item: Item) -> dict[int, ProducerState]:
    producers = attribute(item, "p", dict)
    try:
        return {int(each): decode_producer(attribute(producers, each, dict)) for each in producers}
    except ValueError:
        raise FormatError("the producers of a partition head are not a map of ids to states") from None
